"""How the audit is shown."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.audit import AuditEntry
from toolkit.views.contract import time_text
from toolkit.views.contract_rollouts import audit_row
from toolkit.views.view import Styled, View, plain_table

MAX_NAMES = 4
_STYLES = {"done": "green", "begun": "cyan"}


def audit_view(entries: Sequence[AuditEntry]) -> View:
    """Show entries, newest first; what was done and how it went on is the one column that is folded."""
    rows = [
        (time_text(entry.at), entry.who, Styled(entry.result, _STYLES.get(entry.result, "red")), _told(entry))
        for entry in entries
    ]
    columns = ("AT", "WHO", "RESULT", "ACTION")
    return View([audit_row(entry) for entry in entries], lambda: plain_table(*columns, rows=rows))


def _told(entry: AuditEntry) -> str:
    what = f"{entry.action} {entry.subject}".rstrip()
    nodes = _names(entry)
    on = f" on {nodes}" if nodes else ""
    return f"{what}{on}: {entry.detail}" if entry.detail else f"{what}{on}"


def _names(entry: AuditEntry) -> str | None:
    if len(entry.nodes) <= MAX_NAMES:
        return " ".join(entry.nodes) or None
    return f"{' '.join(entry.nodes[:MAX_NAMES])} and {len(entry.nodes) - MAX_NAMES} more"
