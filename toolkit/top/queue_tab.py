"""The table of what waits: the pending jobs by spider, version and the nodes that may take them, and why they wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit.cluster.membership import PLUG_IN, TAKERS
from toolkit.cluster.node_life import NodeRow
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import LineName
from toolkit.top.columns import Cell, Column, Sorting
from toolkit.top.seen import Seen, Tab
from toolkit.top.sparklines import count_text
from toolkit.views.jobs import age_text

STUCK, WAITING = "yellow", ""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LineRow:
    """The jobs of one line: how many may be taken, are held or due later; the oldest, and why none is taken."""

    line: LineName
    oldest: Job
    jobs: tuple[Job, ...]
    held: int
    delayed: int
    why: str
    is_stuck: bool


def line_rows(seen: Seen) -> Sequence[LineRow]:
    """Gather the pending jobs of the queue by their lines."""
    lines: dict[LineName, list[Job]] = {}
    for job in seen.board.jobs.values():
        if job.state is JobState.PENDING and job.line is not None:
            lines.setdefault(job.line, []).append(job)
    return [_line_row(line, jobs, seen.nodes, seen.at) for line, jobs in lines.items()]


def _line_row(line: LineName, jobs: Sequence[Job], nodes: Sequence[NodeRow], now: datetime) -> LineRow:
    held = sum(job.is_held for job in jobs)
    delayed = sum(not job.is_held and job.due_at is not None and job.due_at > now for job in jobs)
    oldest = min(jobs, key=lambda job: (job.scheduled_at or _LONG_AGO, job.id))
    if held + delayed == len(jobs):
        why, is_stuck = "held" if held else "due later", False
    else:
        why, is_stuck = why_waiting(oldest, nodes)
    return LineRow(line, oldest, tuple(jobs), held, delayed, why, is_stuck)


def why_waiting(job: Job, nodes: Sequence[NodeRow]) -> tuple[str, bool]:
    """Say why a pending job is not taken, and whether that will not change by itself. Pure."""
    takers = [node for node in nodes if node.kind == PLUG_IN and node.state in TAKERS and not node.error]
    if not takers:
        return "no node is there to take it", True
    if job.on is not None:
        takers = [node for node in takers if node.name in job.on]
        if not takers:
            return "none of the nodes of --on is there", True
    holding = [node for node in takers if job.version in (node.versions or {}).get(job.project, ())]
    if not holding:
        return f"no node holds {job.project} {job.version}", True
    free = sum(max(0, (node.slots or 0) - (node.running or 0)) for node in holding)
    if not free:
        return f"{len(holding)} node(s) may take it, all are full", False
    return f"{free} slot(s) are free: it is its turn soon, or a cap is reached", False


def _why(row: LineRow, _now: datetime) -> Cell:
    return Cell(row.why, STUCK if row.is_stuck else WAITING)


COLUMNS: tuple[Column[LineRow], ...] = (
    Column("SPIDER", 12, lambda row, _: row.oldest.spider, lambda row: row.oldest.spider, most=18),
    Column("PROJECT", 8, lambda row, _: row.oldest.project, lambda row: row.oldest.project, most=16, spare=4),
    Column("VERSION", 20, lambda row, _: row.oldest.version, lambda row: row.oldest.version, most=26, spare=3),
    Column(
        "PENDING",
        8,
        lambda row, _: count_text(len(row.jobs)),
        lambda row: len(row.jobs),
        is_right=True,
        falls=True,
    ),
    Column("HELD", 5, lambda row, _: str(row.held or ""), lambda row: row.held, is_right=True, falls=True, spare=2),
    Column("LATER", 6, lambda row, _: str(row.delayed or ""), lambda row: row.delayed, is_right=True, spare=1),
    Column(
        "OLDEST",
        7,
        lambda row, now: age_text(row.oldest.scheduled_at, now=now),
        lambda row: row.oldest.scheduled_at,
        is_right=True,
    ),
    Column(
        "ON",
        5,
        lambda row, _: "all" if row.oldest.on is None else str(len(row.oldest.on)),
        lambda row: len(row.oldest.on or ()),
        is_right=True,
    ),
    Column("WHY", 24, _why, lambda row: row.why, most=90),
)


def _texts(row: LineRow) -> Sequence[object]:
    return (row.oldest.spider, row.oldest.project, row.oldest.version, row.why, *(row.oldest.on or ()))


TAB: Tab[LineRow] = Tab(
    name="queue",
    columns=COLUMNS,
    sorting=Sorting("PENDING", falls=True),
    rows=line_rows,
    key=lambda row: row.line,
    texts=_texts,
    empty="nothing waits",
    empty_without_queue="jobs wait on the stock nodes themselves: a queue needs a Redis, and the inventory names none",
)
