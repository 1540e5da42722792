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
    """Show entries, newest first."""
    rows = [
        (
            time_text(entry.at),
            entry.who,
            entry.action,
            entry.subject or None,
            Styled(entry.result, _STYLES.get(entry.result, "red")),
            _names(entry),
            entry.detail,
        )
        for entry in entries
    ]
    columns = ("AT", "WHO", "ACTION", "SUBJECT", "RESULT", "NODES", "DETAIL")
    return View([audit_row(entry) for entry in entries], lambda: plain_table(*columns, rows=rows, spare=("NODES",)))


def _names(entry: AuditEntry) -> str | None:
    if len(entry.nodes) <= MAX_NAMES:
        return " ".join(entry.nodes) or None
    return f"{' '.join(entry.nodes[:MAX_NAMES])} and {len(entry.nodes) - MAX_NAMES} more"
