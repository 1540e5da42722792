"""How nodes are shown: the list, one node, and what became of a drain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolkit.model.names import NodeName
from toolkit.model.snapshot import NodeState
from toolkit.views.contract import node_object, nodes_row
from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from toolkit.cluster.node_life import Drained, NodeRow
    from toolkit.views.view import FittedTable

STYLES = {
    NodeState.LIVE: "green",
    NodeState.DRAINING: "magenta",
    NodeState.STALE: "yellow",
    NodeState.LOST: "bold red",
    NodeState.UNREACHABLE: "red",
    NodeState.UNAUTHORIZED: "yellow",
}
SPARE = ("DISK", "MEMORY", "LOAD", "OUTSIDE", "ADDRESS", "VERSIONS", "KIND")
MAX_ERROR_CHARS = 100


def nodes_view(rows: Sequence[NodeRow]) -> View:
    """Show a list of nodes."""
    return View([nodes_row(row) for row in rows], lambda: _table(rows))


def node_view(row: NodeRow) -> View:
    """Show all that is known of one node."""
    data = node_object(row)
    shown = [(name, _flat(value)) for name, value in data.items() if value not in (None, False, [], {})]
    return View(data, lambda: plain_table("NODE", "", rows=shown))


def drained_view(drained: Sequence[Drained]) -> View:
    """Show which nodes take no new job now, and what they still run."""
    data = [
        {"name": each.name, "running": each.running, "error": str(each.error) if each.error else None}
        for each in drained
    ]
    rows = [(each.name, each.running, _drain_text(each)) for each in drained]
    return View({"nodes": data}, lambda: plain_table("NODE", "RUNNING", "", rows=rows, right=("RUNNING",)))


def names_view(names: Sequence[NodeName], what: str) -> View:
    """Show the nodes with which something was done: `resumed` or `forgotten`."""
    rows = [(name, Styled(what, "green")) for name in names]
    return View(
        {"nodes": [{"name": name, "action": what} for name in names]}, lambda: plain_table("NODE", "", rows=rows)
    )


def _drain_text(drained: Drained) -> Styled:
    if drained.error is not None:
        return Styled(str(drained.error), "red")
    return Styled("takes no new job", "magenta") if drained.running else Styled("takes no new job, runs none", "green")


def _table(rows: Sequence[NodeRow]) -> FittedTable:
    shown = [
        (
            row.name,
            row.address,
            _elsewhere(row),
            Styled(row.state.value, STYLES[row.state]),
            row.kind,
            row.slots,
            row.running,
            None if row.load is None else f"{row.load:.2f}",
            _megabytes(row.memory_free_mb),
            _megabytes(row.disk_free_mb),
            None if row.versions is None else sum(map(len, row.versions.values())),
            None if row.heartbeat_age_s is None else f"{row.heartbeat_age_s:.0f}s",
            None if row.error is None else Styled(row.error[:MAX_ERROR_CHARS], "red"),
        )
        for row in rows
    ]
    columns = (
        "NODE",
        "ADDRESS",
        "OUTSIDE",
        "STATE",
        "KIND",
        "SLOTS",
        "RUNNING",
        "LOAD",
        "MEMORY",
        "DISK",
        "VERSIONS",
        "HEARD",
        "WHY",
    )
    return plain_table(*columns, rows=shown, right=columns[5:-1], spare=SPARE, optional=("OUTSIDE", "WHY", "HEARD"))


def _elsewhere(row: NodeRow) -> str | None:
    """Return from where Redis sees the node come, if that is not where it listens."""
    return None if row.outside is None or row.address.rpartition(":")[0].strip("[]") == row.outside else row.outside


def _megabytes(count: int | None) -> str | None:
    """Show free room in the unit that people read it in."""
    if count is None:
        return None
    return f"{count} MB" if count < 10_000 else f"{count / 1000:.0f} GB"  # noqa: PLR2004 - four digits are still read


def _flat(value: object) -> object:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_flat(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value
