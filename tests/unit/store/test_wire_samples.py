"""Samples come back as they were laid down, and older ones lie farther apart, however long a job runs."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName
from toolkit.model.queue import Progress
from toolkit.model.samples import JobSample
from toolkit.store.redis_samples import between_ends
from toolkit.store.wire_samples import JOB_BYTES, read_series, thinned, write_counts

BEGIN = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
BEGIN_MS = BEGIN.timestamp() * 1000
COUNTS = st.none() | st.integers(0, 2**32 - 2)


def series(count: int, *, every_s: float = 10.0) -> bytes:
    return b"".join(struct.pack(">dIIIf", BEGIN_MS + n * every_s * 1000, n, n, 0, 80.0) for n in range(count))


def times_s(of: bytes) -> list[float]:
    return [(sample.at - BEGIN).total_seconds() for sample in read_series(of)]


def kept_of(hours: float) -> bytes:
    """Return what is kept of a job that has run for so long, thinned as often as it is."""
    kept, turns = b"", round(hours * 360)
    for at in range(0, turns, 32):
        raw = series(turns)[at * JOB_BYTES : (at + 32) * JOB_BYTES]
        kept = thinned(kept + raw)
    return kept


@given(COUNTS, COUNTS, COUNTS, st.none() | st.integers(0, 10**6).map(lambda tenth: tenth / 10))
def test_counts_come_back_as_they_were_told(
    pages: int | None, items: int | None, errors: int | None, memory_mb: float | None
) -> None:
    told = write_counts(Progress(JobState.RUNNING, pages=pages, items=items, errors=errors, memory_mb=memory_mb))
    if told is None:
        assert (pages, items, errors, memory_mb) == (None, None, None, None)
        return
    (sample,) = read_series(struct.pack(">d", BEGIN_MS) + told)
    assert (sample.at, sample.pages, sample.items, sample.errors) == (BEGIN, pages, items, errors)
    assert (sample.memory_mb is None) == (memory_mb is None)
    assert sample.memory_mb == pytest.approx(memory_mb, abs=0.1) or memory_mb is None or memory_mb > 10**4


@pytest.mark.parametrize("pages", [-1, 2**32, 10**14])
def test_a_count_that_has_no_place_is_the_nearest_that_has(pages: int) -> None:
    told = write_counts(Progress(JobState.RUNNING, pages=pages, memory_mb=1e300))
    assert told is not None
    (sample,) = read_series(struct.pack(">d", BEGIN_MS) + told)
    assert sample.pages in {0, 2**32 - 2}
    assert sample.memory_mb is None


def test_half_a_record_at_the_end_is_no_sample() -> None:
    assert len(read_series(series(3)[:-5])) == 2
    assert read_series(None) == []


def test_the_samples_of_the_last_ten_minutes_are_all_kept() -> None:
    assert thinned(series(60)) == series(60)
    kept = times_s(thinned(series(2000)))
    assert kept[-60:] == times_s(series(2000))[-60:]


@pytest.mark.parametrize(("hours", "most"), [(1, 190), (24, 400), (24 * 7, 540), (24 * 30, 660)])
def test_a_job_of_days_has_some_hundred_samples(hours: float, most: int) -> None:
    kept = times_s(thinned(series(round(hours * 360)))) if hours > 24 else times_s(kept_of(hours))
    assert most / 3 < len(kept) <= most
    assert kept[0] == 0
    assert kept[-1] == (round(hours * 360) - 1) * 10
    gaps = [later - earlier for earlier, later in pairwise(kept)]
    for at, gap in zip(kept, gaps, strict=False):
        assert gap <= max(25, 2.5 * (kept[-1] - at) / 60)


def test_thinning_what_is_thin_changes_nothing() -> None:
    kept = thinned(series(5000))
    assert thinned(kept) == kept


@given(st.lists(st.floats(0, 10**6), min_size=61, max_size=120))
def test_a_clock_that_jumps_breaks_nothing(at_s: list[float]) -> None:
    odd = b"".join(struct.pack(">dIIIf", BEGIN_MS + at * 1000, 1, 1, 1, math.nan) for at in at_s)
    kept = thinned(odd)
    assert len(kept) % JOB_BYTES == 0
    assert (kept[:JOB_BYTES], kept[-JOB_BYTES:]) == (odd[:JOB_BYTES], odd[-JOB_BYTES:])


def test_a_series_begins_with_the_start_and_ends_with_the_last_counts() -> None:
    at = [BEGIN + timedelta(seconds=10 * number) for number in range(4)]
    job = Job(JobId("a"), ProjectName("shop"), SpiderName("books"), JobState.RUNNING, started_at=at[0], pages=7)
    sampled = [JobSample(at[1], 3), JobSample(at[2], 6)]
    assert between_ends(sampled, job) == (JobSample(at[0], 0, 0, 0), *sampled)

    ended = Job(
        *(job.id, job.project, job.spider, JobState.FINISHED),
        started_at=at[0],
        ended_at=at[2],
        pages=7,
        items=2,
        errors=0,
        memory_mb=80.0,
    )
    # It ended at the very moment of a sample: the last word is its own.
    assert between_ends(sampled, ended)[1:] == (JobSample(at[1], 3), JobSample(at[2], 7, 2, 0, 80.0))
    waiting = Job(JobId("a"), ProjectName("shop"), SpiderName("books"), JobState.PENDING)
    assert between_ends([], waiting) == ()
