"""What a board of jobs reads next, what it lets go, and when it must have missed something. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit.model.jobs import Job
from toolkit.model.names import JobId

MIN_SLICE, MAX_SLICE = 100, 600
LOOKS_A_LAP = 6
"""After about so many looks each active job was read once, unless there are very many."""
LOOKS_TO_BELIEVE = 3
SPARE_SHARE = 0.1
"""Ended jobs are dropped when there are so many more than are kept: not one at each look."""

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Counted:
    """How many jobs of the queue wait, and how many a node has."""

    pending: int = 0
    active: int = 0

    @property
    def open(self) -> int:
        """How many have not ended."""
        return self.pending + self.active


@dataclass(frozen=True, slots=True)
class Drift:
    """By how much the queue's own counts differ from the board, and at how many looks in a row in this direction."""

    sign: int = 0
    looks: int = 0

    @property
    def is_lasting(self) -> bool:
        """It is no mere change between two reads: something was missed."""
        return self.looks >= LOOKS_TO_BELIEVE


def drift_of(before: Drift, *, known: Counted, counted: Counted, most: int) -> Drift:
    """Compare a board with what the queue counts; of a queue longer than `most` only what is active is compared."""
    active = counted.active - known.active
    difference = active or (0 if counted.open > most else counted.open - known.open)
    sign = (difference > 0) - (difference < 0)
    if sign == 0:
        return Drift()
    return Drift(sign, before.looks + 1 if sign == before.sign else 1)


def slice_size(count: int, *, share: float) -> int:
    """Return how many of so many jobs to read at one look; `share` makes it fewer."""
    whole = min(MAX_SLICE, max(MIN_SLICE, -(-count // LOOKS_A_LAP)))
    return min(count, max(1, round(whole * share)))


def next_slice(ids: Collection[JobId], *, after: JobId | None, size: int) -> Sequence[JobId]:
    """Return the next ids in their order, from the one after the last that was read, and round again."""
    ordered = sorted(ids)
    begin = 0 if after is None else bisect_right(ordered, after)
    return (ordered[begin:] + ordered[:begin])[:size]


def ended_to_drop(jobs: Iterable[Job], *, most: int) -> list[JobId]:
    """Return the jobs of the queue that ended first, when there are clearly more than are kept."""
    ended = [job for job in jobs if job.state.is_final and job.is_queued]
    if len(ended) <= most * (1 + SPARE_SHARE):
        return []
    ended.sort(key=lambda job: job.ended_at or job.scheduled_at or _LONG_AGO)
    return [job.id for job in ended[: len(ended) - most]]
