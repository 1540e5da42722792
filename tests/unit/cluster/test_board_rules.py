"""What a board reads next, lets go, and when it must have missed something."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.stores import BEGIN, a_job

from toolkit.cluster.board_rules import MAX_SLICE, Counted, Drift, drift_of, ended_to_drop, next_slice, slice_size
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, LineName

IDS = [JobId(f"{number:03}") for number in range(10)]


def test_slices_go_round_all_jobs() -> None:
    first = next_slice(IDS, after=None, size=4)
    second = next_slice(IDS, after=first[-1], size=4)
    third = next_slice(IDS, after=second[-1], size=4)
    assert (*first, *second, *third) == (*IDS, *IDS[:2])


def test_a_slice_goes_on_behind_a_job_that_is_gone() -> None:
    assert next_slice(IDS[5:], after=IDS[2], size=2) == [IDS[5], IDS[6]]
    assert next_slice([], after=IDS[2], size=2) == []


@given(st.integers(0, 100_000))
def test_a_slice_is_never_more_than_there_is_nor_than_one_look_may_read(count: int) -> None:
    assert min(count, 1) <= slice_size(count, share=1.0) <= min(count, MAX_SLICE)
    assert slice_size(count, share=0.2) <= slice_size(count, share=1.0)


def drifting(*counts: tuple[Counted, Counted], most: int = 1_000) -> Drift:
    drift = Drift()
    for known, counted in counts:
        drift = drift_of(drift, known=known, counted=counted, most=most)
    return drift


def test_what_was_missed_shows_in_counts_that_differ_for_a_while() -> None:
    missed = (Counted(3, 1), Counted(4, 1))
    assert not drifting(missed, missed).is_lasting
    assert drifting(missed, missed, missed).is_lasting


def test_a_busy_queue_whose_counts_differ_now_so_now_so_is_no_drift() -> None:
    more, fewer, same = (Counted(3, 1), Counted(4, 1)), (Counted(3, 1), Counted(2, 1)), (Counted(3, 1), Counted(3, 1))
    assert not drifting(more, fewer, more, fewer).is_lasting
    assert not drifting(more, more, same, more).is_lasting


def test_of_a_queue_too_long_to_be_kept_only_what_runs_is_compared() -> None:
    longer = (Counted(1_000, 5), Counted(90_000, 5))
    assert not drifting(longer, longer, longer).is_lasting
    lost = (Counted(1_000, 5), Counted(90_000, 6))
    assert drifting(lost, lost, lost).is_lasting


def test_the_jobs_that_ended_first_go_when_there_are_clearly_too_many() -> None:
    ended = [
        replace(a_job(f"e{number}", state=JobState.FINISHED), line=LineName("l"), ended_at=BEGIN + timedelta(number))
        for number in range(12)
    ]
    pending = replace(a_job("p1"), line=LineName("l"))
    assert ended_to_drop([pending, *ended], most=11) == []
    assert ended_to_drop([*reversed(ended), pending], most=10) == ["e0", "e1"]
