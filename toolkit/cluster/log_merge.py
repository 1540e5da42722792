"""Entries of many logs in one order: what is there merged by time, what comes held back a moment and sorted. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit.cluster.log_lines import LogEntry
from toolkit.model.names import JobId, NodeName

WINDOW_S = 1.0
"""So long an entry waits for older ones of other nodes while logs are followed."""

MAX_HELD = 20_000
"""Where more entries wait than this, the oldest go at once."""

MAX_UNTIMED = 100
"""Of so many entries without a time at most it is waited for one that has one."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JobEntry:
    """An entry, and whose it is."""

    job_id: JobId
    node: NodeName
    entry: LogEntry


def merged(streams: Sequence[Iterable[JobEntry]]) -> Iterator[JobEntry]:
    """Yield the entries of all streams in the order of their times; those of one stream keep their own order.

    Of each stream no more is read than the next entry.
    """
    timed = (_timed(stream) for stream in streams)
    return (entry for _, entry in heapq.merge(*timed, key=lambda pair: pair[0]))


def _timed(stream: Iterable[JobEntry]) -> Iterator[tuple[datetime, JobEntry]]:
    """Give each entry a time that is never before that of the one before it, whatever a clock did.

    What comes before the first time, such as the rest of a traceback, goes with that.
    """
    first: list[JobEntry] = []
    at: datetime | None = None
    for entry in stream:
        if at is None and entry.entry.at is None and len(first) < MAX_UNTIMED:
            first.append(entry)
            continue
        at = max(at or entry.entry.at or _LONG_AGO, entry.entry.at or at or _LONG_AGO)
        for each in (*first, entry):
            yield at, each
        first.clear()
    for each in first:
        yield _LONG_AGO, each


class Reorder:
    """Holds entries back for a moment, so that those of a slower node take their place before them.

    An entry that comes later still is late, and goes at once: nothing is lost. `held` is never above `MAX_HELD`.
    """

    def __init__(self, *, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._held: list[tuple[datetime, int, float, JobEntry]] = []
        self._latest: dict[JobId, datetime] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._held)

    def push(self, entry: JobEntry, *, now_s: float) -> None:
        """Take in an entry that came at a time by a clock that only goes forward."""
        latest = self._latest.get(entry.job_id, _LONG_AGO)
        at = self._latest[entry.job_id] = max(latest, entry.entry.at or latest)
        self._count += 1
        heapq.heappush(self._held, (at, self._count, now_s, entry))

    def forget(self, job_id: JobId) -> None:
        """Let go of what is known of a job that is over."""
        self._latest.pop(job_id, None)

    def ready(self, *, now_s: float, is_over: bool = False) -> list[JobEntry]:
        """Return, in order, what has waited long enough, and what is older than that; everything when all `is_over`."""
        waited = [each for each in self._held if is_over or now_s - each[2] >= self._window_s]
        newest = max(waited, default=None)
        out = []
        while self._held and (len(self._held) > MAX_HELD or (newest is not None and self._held[0] <= newest)):
            out.append(heapq.heappop(self._held)[3])
        return out
