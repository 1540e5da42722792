"""How an entry of the audit looks at rest; its id and its time are the store's, and lie beside it."""

from __future__ import annotations

from datetime import datetime

from toolkit.model.audit import AuditEntry
from toolkit.model.names import NodeName
from toolkit.store.envelope import read, write


def write_entry(entry: AuditEntry) -> str:
    """Return what the entry says, as JSON."""
    return write(
        {
            "who": entry.who,
            "action": entry.action,
            "subject": entry.subject,
            "nodes": list(entry.nodes),
            "result": entry.result,
            "detail": entry.detail,
        }
    )


def read_entry(body: str | bytes, *, entry_id: str, at: datetime) -> AuditEntry:
    """Return the entry that the JSON describes, under the store's id and time.

    Raises:
        StoreUnreadableError: it is no entry, or of a newer wire version.

    """
    fields = read(body, "entry of the audit")
    return AuditEntry(
        at=at,
        who=fields.text("who"),
        action=fields.text("action"),
        subject=fields.text("subject"),
        nodes=tuple(NodeName(name) for name in fields.texts("nodes")),
        result=fields.text("result"),
        detail=fields.maybe_text("detail"),
        id=entry_id,
    )
