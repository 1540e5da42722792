"""Logs that nodes brought to another place before they are thrown away: which parts lie there, and what comes next.

A shipped log keeps the offsets of the file on the node, so that a reader goes on at the same byte wherever he reads.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName

IN_REDIS = "redis"
"""The place of a log whose parts lie in the cluster's Redis; any other place is a folder or an `s3://` address."""

SMALL_BYTES = 32 * 1024
"""A last part below this is laid anew together with what follows, so that a slow log does not become a thousand."""

MAX_PART_BYTES = 256 * 1024
HEAD_SHARE = 4
"""Of a log that is too long, one part in so many is kept of its begin, the rest of its end."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A run of bytes of a log: `length` of them, from the offset `begin` on."""

    begin: int
    length: int

    @property
    def end(self) -> int:
        """The offset of the first byte after it."""
        return self.begin + self.length

    @property
    def name(self) -> str:
        """The name of its file; names sort as the parts do."""
        return f"{self.begin:015d}-{self.length}.log.gz"


@dataclass(frozen=True, slots=True)
class LogName:
    """Whose log it is, and which node wrote it."""

    project: ProjectName
    spider: SpiderName
    job_id: JobId
    node: NodeName


@dataclass(frozen=True, slots=True)
class ShippedLog:
    """What was shipped of the log that one node wrote of a job.

    `place` is `IN_REDIS`, a folder, or an `s3://` address. `written_at` is when the job last wrote, `is_complete` says
    that its process is gone and all is there. `revision` counts the changes; 0 is of a log that is not known yet.
    """

    node: NodeName
    place: str
    parts: tuple[LogPart, ...]
    written_at: datetime
    is_complete: bool = False
    revision: int = 0

    @property
    def size_bytes(self) -> int:
        """How long the log was when its end was shipped, with what was left out."""
        return self.parts[-1].end if self.parts else 0


@dataclass(frozen=True, slots=True)
class Shipment:
    """The next thing to do: bring `part`, and take away `gone`, among which may be one that `part` begins like."""

    part: LogPart
    gone: tuple[LogPart, ...] = ()

    def applied(self, parts: Sequence[LogPart]) -> tuple[LogPart, ...]:
        """Return the parts that lie there afterwards."""
        return (*(each for each in parts if each not in self.gone), self.part)


def next_shipment(parts: Sequence[LogPart], size_bytes: int, *, max_bytes: int) -> Shipment | None:
    """Return what to ship next of a log that is so long now; `None` when all of it that is kept lies there.

    Of a longer log than `max_bytes` a quarter is kept of its begin and the rest of its end: what nobody will read is
    not sent. A log that is shorter than what was shipped of it was begun anew, and replaces that.
    """
    end = parts[-1].end if parts else 0
    if size_bytes < end:
        first = LogPart(0, min(size_bytes, MAX_PART_BYTES))
        return Shipment(first, tuple(parts))
    if size_bytes == end:
        return None
    head_bytes = max_bytes // HEAD_SHARE
    tail_bytes = max_bytes - head_bytes
    begin = end
    grown: tuple[LogPart, ...] = ()
    if end >= head_bytes and size_bytes - end > tail_bytes:
        begin = size_bytes - tail_bytes
    elif parts and _may_grow(parts[-1], size_bytes, head_bytes=head_bytes, tail_bytes=tail_bytes):
        begin, grown = parts[-1].begin, (parts[-1],)
    until = min(size_bytes, begin + MAX_PART_BYTES, *((head_bytes,) if begin < head_bytes else ()))
    part = LogPart(begin, until - begin)
    kept = [each for each in parts if each not in grown]
    return Shipment(part, (*grown, *_too_many(kept, part, head_bytes=head_bytes, max_bytes=max_bytes)))


def _may_grow(last: LogPart, size_bytes: int, *, head_bytes: int, tail_bytes: int) -> bool:
    """Tell whether the last part is to be laid anew with what follows.

    Not over the end of the head: the tail's parts go one by one, and nothing of the head may go with them.
    """
    is_within_head = last.end < head_bytes
    return last.length < SMALL_BYTES and (
        is_within_head or (last.begin >= head_bytes and size_bytes - last.begin <= tail_bytes)
    )


def _too_many(parts: Sequence[LogPart], new: LogPart, *, head_bytes: int, max_bytes: int) -> list[LogPart]:
    kept = new.length + sum(part.length for part in parts)
    gone = []
    for part in parts:
        if kept <= max_bytes:
            break
        if part.begin >= head_bytes:
            gone.append(part)
            kept -= part.length
    return gone


def part_at(parts: Sequence[LogPart], begin: int) -> LogPart | None:
    """Return the part that holds the byte at an offset, or else the next one; `None` behind the last."""
    return next((part for part in parts if part.end > begin), None)


def left_out_bytes(parts: Sequence[LogPart]) -> int:
    """Return how many bytes of the log were not kept."""
    return (parts[-1].end if parts else 0) - sum(part.length for part in parts)
