"""The audit fits a terminal of 80 columns: who, what and with what result are whole."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from rich.console import Console

from toolkit.model.audit import AuditEntry
from toolkit.model.names import NodeName
from toolkit.views.audit import audit_view


def test_audit_is_read_on_eighty_columns() -> None:
    entry = AuditEntry(
        at=datetime(2026, 11, 21, 16, 48, 36, tzinfo=UTC),
        who="root@vm:31234",
        action="deploy",
        subject="shop 20261121-164831-a0b0473",
        nodes=tuple(NodeName(f"node-{number}") for number in range(6)),
        result="interrupted",
        detail="held in wave 2 of 3",
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(audit_view([entry]).table())
    shown = console.file.getvalue()  # type: ignore[attr-defined]

    for word in ("root@vm:31234", "interrupted", "20261121-164831-a0b0473", "2026-11-21T16:48:36Z"):
        assert word in shown
    assert "node-3 and 2 more: held in wave 2 of 3" in " ".join(line[49:].strip() for line in shown.splitlines())
