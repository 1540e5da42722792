"""How redials are shown: which node has which address now, or why it has no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from toolkit.cluster.redialling import RedialRow


def redial_row(row: RedialRow) -> dict[str, Any]:
    """Show one node's redial; `error` is why its address is not another."""
    return {"node": row.node, "old": row.old, "new": row.new, "seconds": row.seconds, "error": row.why}


def redials_view(rows: Sequence[RedialRow]) -> View:
    """Show what became of each node's redial."""
    shown = [
        (
            row.node,
            row.old,
            row.new,
            None if row.seconds is None else f"{row.seconds:.1f}s",
            None if row.why is None else Styled(row.why, "red"),
        )
        for row in rows
    ]
    return View(
        {"nodes": [redial_row(row) for row in rows]},
        lambda: plain_table("NODE", "OLD", "NEW", "TOOK", "WHY", rows=shown, right=("TOOK",), optional=("WHY",)),
    )
