"""The table of nodes: those with trouble first, then by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from toolkit.cluster.node_life import NodeRow
from toolkit.model.snapshot import NodeState
from toolkit.top.columns import Cell, Column, Sorting
from toolkit.top.seen import Tab
from toolkit.top.sparklines import meter
from toolkit.views.jobs import span_text
from toolkit.views.nodes import STYLES

_RANK = {
    state: place
    for place, state in enumerate(
        (
            *(NodeState.LOST, NodeState.UNREACHABLE, NodeState.UNAUTHORIZED),
            *(NodeState.STALE, NodeState.DRAINING, NodeState.LIVE),
        )
    )
}
METER = 6


def _state(row: NodeRow, _now: datetime) -> Cell:
    return Cell(row.state.value, STYLES[row.state])


def _share(row: NodeRow) -> float | None:
    return None if row.slots is None or row.running is None else row.running / max(1, row.slots)


def _slots(row: NodeRow, _now: datetime) -> str | None:
    if (share := _share(row)) is None:
        return None if row.running is None else str(row.running)
    return f"{row.running}/{row.slots} {meter(share, METER)}"


def _why(row: NodeRow, _now: datetime) -> Cell | str:
    if row.error:
        return Cell(row.error, "red")
    if row.behind:
        return Cell("lacks " + ", ".join(sorted(row.behind)), "yellow")
    return f"drained by {row.drained_by}" if row.is_draining and row.drained_by else ""


def _room(megabytes: int | None) -> str | None:
    return None if megabytes is None else f"{megabytes / 1000:.1f}G"


COLUMNS: tuple[Column[NodeRow], ...] = (
    Column("NODE", 12, lambda row, _: row.name, lambda row: row.name, most=24),
    Column("STATE", 12, _state, lambda row: (_RANK[row.state], row.name)),
    Column("KIND", 5, lambda row, _: row.kind, lambda row: row.kind, spare=5),
    Column("RUNNING", 13, _slots, _share, falls=True),
    Column(
        "LOAD",
        5,
        lambda row, _: None if row.load is None else f"{row.load:.2f}",
        lambda row: row.load,
        is_right=True,
        falls=True,
    ),
    Column("MEMORY", 7, lambda row, _: _room(row.memory_free_mb), lambda row: row.memory_free_mb, is_right=True),
    Column("DISK", 7, lambda row, _: _room(row.disk_free_mb), lambda row: row.disk_free_mb, is_right=True, spare=3),
    Column(
        "HEARD",
        6,
        lambda row, _: None if row.heartbeat_age_s is None else span_text(row.heartbeat_age_s),
        lambda row: row.heartbeat_age_s,
        is_right=True,
        falls=True,
        spare=2,
    ),
    Column("ADDRESS", 16, lambda row, _: row.address, lambda row: row.address, most=24, spare=4),
    Column("WHY", 24, _why, lambda row: row.error or None, most=80, spare=1),
)


def _texts(row: NodeRow) -> Sequence[object]:
    labels = (f"{name}={value}" for name, value in row.labels.items())
    return (row.name, row.state.value, row.kind, row.address, row.error, *labels)


TAB: Tab[NodeRow] = Tab(
    name="nodes",
    columns=COLUMNS,
    sorting=Sorting("STATE"),
    rows=lambda seen: seen.nodes,
    key=lambda row: row.name,
    texts=_texts,
    empty="no node: crawlctl nodes add brings one",
)
