"""How samples look at rest: records of fixed size, big-endian, since a cluster keeps a million of them. Pure.

| record | bytes | holds |
|---|---|---|
| of a job | 24 | time in milliseconds (double); pages, items, errors (32 bits each, all ones: not known); MB (single) |
| of the cluster | 48 | time (double); pending, active, nodes, slots (32 bits each); three rates a second (doubles) |

A job's series is one string, a record behind the other; `lua/sample_jobs.lua` reads and writes the same records.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime

from toolkit.model.queue import Progress
from toolkit.model.samples import ClusterSample, JobSample

EVERY_S = 10.0
"""How far apart samples are taken."""

FINEST = 60
"""Samples lie no nearer to each other than their age divided by this."""

_COUNTS = struct.Struct(">IIIf")
_JOB = struct.Struct(">dIIIf")
_CLUSTER = struct.Struct(">dIIIIddd")
_UNKNOWN = 0xFFFFFFFF
_MOST = _UNKNOWN - 1

JOB_BYTES = _JOB.size


def write_counts(progress: Progress) -> bytes | None:
    """Return a job's record without its time, which the store adds; `None` when the spider has told nothing yet."""
    counts = [_count(number) for number in (progress.pages, progress.items, progress.errors)]
    memory_mb = progress.memory_mb
    if memory_mb is None and all(count == _UNKNOWN for count in counts):
        return None
    try:
        return _COUNTS.pack(*counts, math.nan if memory_mb is None else memory_mb)
    except OverflowError:
        return _COUNTS.pack(*counts, math.nan)


def read_series(series: bytes | None) -> list[JobSample]:
    """Return a job's samples, oldest first; what is no whole record at the end is left out."""
    return [
        JobSample(_moment(at_ms), _known(pages), _known(items), _known(errors), _memory(memory_mb))
        for at_ms, pages, items, errors, memory_mb in _JOB.iter_unpack(_whole(series or b""))
    ]


def read_cluster_sample(record: bytes) -> ClusterSample:
    """Return the sample that `lua/sample_cluster.lua` wrote."""
    at_ms, *rest = _CLUSTER.unpack(record)
    return ClusterSample(_moment(at_ms), *rest)


def thinned(series: bytes) -> bytes:
    """Return a job's series without those records that lie too near to the one before for their age.

    The distance is `EVERY_S` for the last ten minutes, and grows with age: a day takes about 300 samples, a week 400.
    The first and the last one always stay.
    """
    times = [at_ms for at_ms, *_ in _JOB.iter_unpack(_whole(series))]
    if len(times) <= FINEST:
        return series
    newest, last = times[-1], len(times) - 1
    kept = [0]
    # From the oldest on: whatever was kept before stays until it is too near to what lies before it.
    for at in range(1, last):
        # A tenth is left to turns that came a little early.
        wanted_ms = 0.9 * max(EVERY_S * 1000, (newest - times[at]) / FINEST)
        if times[at] - times[kept[-1]] >= wanted_ms:
            kept.append(at)
    return b"".join(series[at * JOB_BYTES : (at + 1) * JOB_BYTES] for at in [*kept, last])


def _whole(series: bytes) -> bytes:
    return series[: len(series) // JOB_BYTES * JOB_BYTES]


def _count(number: int | None) -> int:
    return _UNKNOWN if number is None else min(max(number, 0), _MOST)


def _known(number: int) -> int | None:
    return None if number == _UNKNOWN else number


def _memory(memory_mb: float) -> float | None:
    return round(memory_mb, 1) if math.isfinite(memory_mb) else None


def _moment(at_ms: float) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
