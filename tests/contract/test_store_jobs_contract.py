"""What every store promises about job records (`toolkit/store/interfaces.py`), on each back end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.stores import (
    BACK_ENDS,
    BEGIN,
    NEWS,
    SHOP,
    Opener,
    a_job,
    ids,
    redis_of,
)

from toolkit.model.errors import ConflictError
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName, SpiderName
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces import Store
from toolkit.store.local_store import LocalStore
from toolkit.store.redis_store import RedisStore


@pytest.fixture(params=BACK_ENDS)
def small_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give a store that keeps three final jobs."""
    redis = redis_of(request)
    store = RedisStore(RedisDoor(redis), max_jobs=3) if redis else LocalStore(tmp_path, max_jobs=3)
    yield store
    store.close()


def test_an_added_job_comes_back_as_it_was(opened: Opener) -> None:
    job = replace(
        a_job("a1", state=JobState.FINISHED),
        started_at=BEGIN,
        ended_at=BEGIN + timedelta(seconds=5),
        cancel_requested_at=BEGIN,
        finish_reason="finished",
        pages=10,
        items=0,
        errors=3,
    )
    opened().jobs.add([job])

    assert opened().jobs.get(job.id) == job
    assert opened().jobs.get(JobId("a")) is None


def test_a_job_of_which_little_is_known_comes_back_so(store: Store) -> None:
    job = Job(id=JobId("bare"), project=SHOP, spider=SpiderName("books"), state=JobState.PENDING)
    store.jobs.add([job])

    assert store.jobs.get(job.id) == job
    assert store.jobs.recent(JobFilter(), limit=5) == (job,)


def test_several_jobs_are_asked_for_at_once(store: Store) -> None:
    jobs = [a_job(f"j{number}") for number in range(5)]
    store.jobs.add(jobs)

    found = store.jobs.get_many([JobId("j3"), JobId("missing"), JobId("j1"), JobId("j3")])
    assert found == {"j3": jobs[3], "j1": jobs[1]}
    assert store.jobs.get_many([]) == {}


def test_jobs_are_added_all_or_none(store: Store) -> None:
    store.jobs.add([a_job("b")])

    with pytest.raises(ConflictError, match="job b is known"):
        store.jobs.add([a_job("a"), a_job("b", minutes=9), a_job("c")])
    assert store.jobs.recent(JobFilter(), limit=10) == (a_job("b"),)
    assert ids(store.jobs.matching("")) == ["b"]
    assert ids(store.jobs.unfinished()) == ["b"]


def test_one_call_cannot_add_an_id_twice(store: Store) -> None:
    with pytest.raises(ConflictError, match="job a is known"):
        store.jobs.add([a_job("a"), a_job("a", minutes=9)])
    assert store.jobs.unfinished() == ()


def test_adding_or_updating_nothing_is_nothing(store: Store) -> None:
    store.jobs.add([])
    store.jobs.update([])
    assert store.jobs.recent(JobFilter(), limit=10) == ()


def test_an_update_replaces_the_record_and_leaves_strangers_alone(store: Store) -> None:
    store.jobs.add([a_job("a")])
    running = replace(a_job("a", state=JobState.RUNNING), started_at=BEGIN, pages=7)
    store.jobs.update([running, a_job("stranger")])

    assert store.jobs.get(JobId("a")) == running
    assert store.jobs.get(JobId("stranger")) is None
    assert ids(store.jobs.matching("")) == ["a"]
    assert ids(store.jobs.recent(JobFilter(), limit=10)) == ["a"]


@pytest.mark.parametrize("final", [state for state in JobState if state.is_final])
def test_a_final_state_is_never_overwritten_by_one_that_is_not(store: Store, final: JobState) -> None:
    store.jobs.add([a_job("a")])
    store.jobs.update([a_job("a", state=final)])
    store.jobs.update([a_job("a", state=JobState.RUNNING)])
    store.jobs.update([a_job("a", state=JobState.PENDING)])

    assert store.jobs.get(JobId("a")) == a_job("a", state=final)
    assert store.jobs.unfinished() == ()


def test_a_final_state_may_be_told_more_exactly(store: Store) -> None:
    store.jobs.add([a_job("a", state=JobState.LOST)])
    better = replace(a_job("a", state=JobState.FINISHED), pages=12)
    store.jobs.update([better])

    assert store.jobs.recent(JobFilter(), limit=10) == (better,)


def test_unfinished_jobs_come_oldest_first(store: Store) -> None:
    store.jobs.add(
        [
            a_job("late", minutes=3),
            a_job("done", state=JobState.FINISHED),
            a_job("early", minutes=1),
            a_job("middle", state=JobState.RUNNING, minutes=2),
        ]
    )
    assert ids(store.jobs.unfinished()) == ["early", "middle", "late"]

    store.jobs.update([a_job("middle", state=JobState.FAILED, minutes=2)])
    assert ids(store.jobs.unfinished()) == ["early", "late"]


def test_jobs_are_found_by_the_beginning_of_their_id(store: Store) -> None:
    store.jobs.add([a_job(job_id) for job_id in ("ab2", "ab1", "abc", "ac", "b", "a", "ABC")])

    assert ids(store.jobs.matching("ab")) == ["ab1", "ab2", "abc"]
    assert ids(store.jobs.matching("ab", limit=2)) == ["ab1", "ab2"]
    assert ids(store.jobs.matching("abc")) == ["abc"]
    assert ids(store.jobs.matching("")) == ["ABC", "a", "ab1", "ab2", "abc", "ac", "b"]
    assert ids(store.jobs.matching("abcd")) == []
    assert ids(store.jobs.matching("a", limit=0)) == []


@pytest.mark.parametrize("prefix", ["%", "_", "*", "a%", "?", "[", "(", "-", "+", "é", "\U0010ffff", "' OR 1=1 --"])
def test_a_prefix_means_itself(store: Store, prefix: str) -> None:
    store.jobs.add([a_job("a1"), a_job("b1")])
    assert ids(store.jobs.matching(prefix)) == []


def test_recent_jobs_come_newest_first_and_undated_ones_last(store: Store) -> None:
    store.jobs.add(
        [
            a_job("b", minutes=2),
            a_job("undated", minutes=None),
            a_job("a", minutes=1, state=JobState.FINISHED),
            a_job("c2", minutes=3),
            a_job("c1", minutes=3, state=JobState.FAILED),
        ]
    )

    assert ids(store.jobs.recent(JobFilter(), limit=10)) == ["c2", "c1", "b", "a", "undated"]
    assert ids(store.jobs.recent(JobFilter(), limit=2)) == ["c2", "c1"]
    assert ids(store.jobs.recent(JobFilter(), limit=0)) == []


def test_jobs_a_microsecond_apart_keep_their_order(store: Store) -> None:
    moments = [BEGIN + timedelta(microseconds=step) for step in (1, 0, 2)]
    store.jobs.add([replace(a_job(f"j{at.microsecond}"), scheduled_at=at) for at in moments])

    assert ids(store.jobs.recent(JobFilter(), limit=3)) == ["j123458", "j123457", "j123456"]


def test_filters_choose_by_state_spider_project_node_and_age(store: Store) -> None:
    jobs = [
        a_job("a", minutes=1),
        a_job("b", minutes=2, state=JobState.RUNNING, spider="prices"),
        a_job("c", minutes=3, state=JobState.FINISHED),
        replace(a_job("d", minutes=4, state=JobState.FAILED), node=NodeName("node-2")),
        replace(a_job("e", minutes=5, state=JobState.LOST), project=NEWS),
        a_job("undated", minutes=None),
    ]
    store.jobs.add(jobs)

    def chosen(wanted: JobFilter, *, limit: int = 10) -> list[str]:
        found = ids(store.jobs.recent(wanted, limit=limit))
        assert set(found) <= {job.id for job in jobs if wanted.admits(job)}
        return found

    assert chosen(JobFilter(states=frozenset({JobState.PENDING}))) == ["a", "undated"]
    assert chosen(JobFilter(states=frozenset({JobState.FINISHED, JobState.RUNNING}))) == ["c", "b"]
    assert chosen(JobFilter(states=frozenset({JobState.FAILED, JobState.LOST}))) == ["e", "d"]
    assert chosen(JobFilter(spider="prices")) == ["b"]
    assert chosen(JobFilter(project="news")) == ["e"]
    assert chosen(JobFilter(nodes=frozenset({NodeName("node-2")}))) == ["d"]
    assert chosen(JobFilter(since=BEGIN + timedelta(minutes=3))) == ["e", "d", "c", "undated"]
    assert chosen(JobFilter(since=BEGIN + timedelta(minutes=3), project="shop"), limit=1) == ["d"]
    assert chosen(JobFilter(since=datetime(1960, 1, 1, tzinfo=UTC)), limit=3) == ["e", "d", "c"]


def test_a_filter_looks_through_all_jobs_until_enough_have_passed(store: Store) -> None:
    store.jobs.add([a_job(f"j{number:04}", minutes=number) for number in range(1500)])
    store.jobs.add([a_job("old", minutes=-1, spider="prices"), a_job("older", minutes=-2, spider="prices")])

    assert ids(store.jobs.recent(JobFilter(spider="prices"), limit=1)) == ["old"]
    assert ids(store.jobs.recent(JobFilter(spider="prices"), limit=9)) == ["old", "older"]


def test_only_the_newest_final_jobs_are_kept_and_every_unfinished_one(small_store: Store) -> None:
    jobs = small_store.jobs
    jobs.add([a_job(f"old{number}", minutes=number) for number in range(5)])
    jobs.add([a_job(f"end{number}", minutes=10 + number, state=JobState.FINISHED) for number in range(5)])

    assert ids(jobs.recent(JobFilter(), limit=20)) == ["end4", "end3", "end2", "old4", "old3", "old2", "old1", "old0"]
    assert jobs.get(JobId("end1")) is None
    assert ids(jobs.matching("end")) == ["end2", "end3", "end4"]

    jobs.update([a_job("old0", minutes=99, state=JobState.CANCELLED)])
    jobs.add([a_job("new", minutes=100)])
    assert ids(jobs.matching("end")) == ["end3", "end4"]
    assert ids(jobs.unfinished()) == ["old1", "old2", "old3", "old4", "new"]


def test_threads_may_share_a_store(store: Store) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(10):
                store.jobs.add([a_job(f"t{number}-{step}")])
                store.jobs.update([a_job(f"t{number}-{step}", state=JobState.RUNNING)])
                assert store.jobs.get(JobId(f"t{number}-{step}"))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert failures == []
    assert len(store.jobs.unfinished()) == 40
