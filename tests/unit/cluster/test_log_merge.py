"""Many logs in one order: by time where they are there, after a moment's wait where they are followed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from toolkit.cluster import log_merge
from toolkit.cluster.log_lines import LogEntry
from toolkit.cluster.log_merge import JobEntry, Reorder, merged
from toolkit.model.names import JobId, NodeName

BEGIN = datetime(2026, 11, 21, 7, tzinfo=UTC)


def entry(second: float | None, text: str, job: str = "a") -> JobEntry:
    at = None if second is None else BEGIN + timedelta(seconds=second)
    return JobEntry(JobId(job), NodeName("node-1"), LogEntry((text,), text, at, "INFO", "shop"))


def texts(entries: list[JobEntry]) -> str:
    return " ".join(each.entry.text for each in entries)


def test_what_is_there_is_merged_by_time() -> None:
    streams = [
        [entry(1, "a1"), entry(4, "a4")],
        [entry(2, "b2"), entry(3, "b3"), entry(5, "b5")],
        [],
    ]
    assert texts(list(merged(streams))) == "a1 b2 b3 a4 b5"


def test_no_clock_that_jumps_back_turns_the_lines_of_one_job_round() -> None:
    streams = [[entry(5, "a5"), entry(1, "a1"), entry(6, "a6")], [entry(3, "b3"), entry(5.5, "b5")]]
    assert texts(list(merged(streams))) == "b3 a5 a1 b5 a6"


def test_what_comes_before_the_first_time_goes_with_that() -> None:
    streams = [[entry(None, "rest"), entry(4, "a4")], [entry(3, "b3")], [entry(None, "lone")]]
    assert texts(list(merged(streams))) == "lone b3 rest a4"


def test_nothing_is_read_further_ahead_than_needed() -> None:
    read = []

    def stream(name: str) -> object:
        for second in range(1000):
            read.append(name)
            yield entry(second, name)

    whole = merged([stream("a"), stream("b")])  # type: ignore[list-item]
    assert [next(whole).entry.text for _ in range(4)] == ["a", "b", "a", "b"]
    assert len(read) <= 8


def test_an_entry_waits_for_older_ones_of_other_nodes() -> None:
    reorder = Reorder(window_s=1.0)
    reorder.push(entry(2, "a2", "a"), now_s=10.0)
    assert reorder.ready(now_s=10.5) == []
    reorder.push(entry(1, "b1", "b"), now_s=10.6)
    reorder.push(entry(3, "b3", "b"), now_s=10.6)
    # What is older than one that has waited goes with it, in its place before it.
    assert texts(reorder.ready(now_s=11.0)) == "b1 a2"
    assert texts(reorder.ready(now_s=11.6)) == "b3"


def test_a_late_entry_is_shown_and_not_lost() -> None:
    reorder = Reorder(window_s=1.0)
    reorder.push(entry(9, "a9", "a"), now_s=0.0)
    assert texts(reorder.ready(now_s=1.0)) == "a9"
    reorder.push(entry(2, "b2", "b"), now_s=1.1)
    assert texts(reorder.ready(now_s=2.1)) == "b2"


def test_at_the_end_nothing_waits() -> None:
    reorder = Reorder(window_s=60.0)
    for second in (3, 1, 2):
        reorder.push(entry(second, str(second), f"job-{second}"), now_s=0.0)
    assert texts(reorder.ready(now_s=0.0, is_over=True)) == "1 2 3"
    assert len(reorder) == 0


def test_a_flood_does_not_wait() -> None:
    reorder = Reorder(window_s=60.0)
    for second in range(log_merge.MAX_HELD + 5):
        reorder.push(entry(second, str(second)), now_s=0.0)
    assert texts(reorder.ready(now_s=0.0)) == "0 1 2 3 4"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20))), max_size=40))
def test_whatever_comes_each_job_keeps_its_order_and_nothing_is_lost(arrivals: list[tuple[str, int | None]]) -> None:
    reorder = Reorder(window_s=2.0)
    shown: list[JobEntry] = []
    for now, (job, second) in enumerate(arrivals):
        reorder.push(entry(second, str(now), job), now_s=float(now))
        shown += reorder.ready(now_s=float(now))
    shown += reorder.ready(now_s=0.0, is_over=True)
    for job in "abc":
        own = [str(now) for now, (whose, _) in enumerate(arrivals) if whose == job]
        assert [each.entry.text for each in shown if each.job_id == job] == own
