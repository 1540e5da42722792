"""What every store promises (`toolkit/store/interfaces.py`), tried on each back end: a real Redis, and a local file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.waiting import wait_until

from toolkit.model.errors import ConflictError, LockHeldError, NotFoundError
from toolkit.model.hosts import Secret
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import NodeResult, Release, Rollout, RolloutLock
from toolkit.store.interfaces import MAX_HISTORY, Store
from toolkit.store.local_store import LocalStore
from toolkit.store.open import open_store
from toolkit.store.redis_store import RedisStore

SHOP, NEWS = ProjectName("shop"), ProjectName("news")
V1, V2 = VersionName("20261120-101500-aaaaaaa"), VersionName("20261121-101500-bbbbbbb")
BEGIN = datetime(2026, 11, 20, 10, 15, 0, 123456, tzinfo=UTC)
SOON_S = 10.0

Opener = Callable[[], Store]


@pytest.fixture(params=["redis", "local"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Give what opens the same store again and again, as other processes would."""
    url = Secret(request.getfixturevalue("redis_url")) if request.param == "redis" else None
    with ExitStack() as closing:

        def open_again() -> Store:
            store = open_store(url, tmp_path / "state")
            closing.callback(store.close)
            return store

        yield open_again


@pytest.fixture
def store(opened: Opener) -> Store:
    return opened()


@pytest.fixture(params=["redis", "local"])
def small_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give a store that keeps three final jobs."""
    store: Store
    if request.param == "redis":
        store = RedisStore(Secret(request.getfixturevalue("redis_url")), max_jobs=3)
    else:
        store = LocalStore(tmp_path, max_jobs=3)
    yield store
    store.close()


def a_release(version: VersionName = V1, *, digest: str = "aa", project: ProjectName = SHOP, hours: int = 0) -> Release:
    return Release(
        project=project,
        version=version,
        digest=digest,
        spiders=(SpiderName("books"), SpiderName("prices")),
        size_bytes=12345,
        revision="9f3c2a1",
        created_at=BEGIN + timedelta(hours=hours),
        created_by="ann@desk",
    )


def a_rollout(version: VersionName = V1, *, project: ProjectName = SHOP, minutes: int = 0) -> Rollout:
    return Rollout(
        project=project,
        version=version,
        kind="deploy",
        at=BEGIN + timedelta(minutes=minutes),
        by="ann@desk",
        activated=True,
        results=(
            NodeResult(node=NodeName("node-1"), ok=True, step="read back", seconds=0.7, spiders=2),
            NodeResult(node=NodeName("node-2"), ok=False, step="push", seconds=5.0, error="no answer"),
        ),
    )


def a_job(job_id: str, *, state: JobState = JobState.PENDING, minutes: int | None = 0, spider: str = "books") -> Job:
    return Job(
        id=JobId(job_id),
        project=SHOP,
        spider=SpiderName(spider),
        state=state,
        version=V1,
        node=NodeName("node-1"),
        args={"city": "Zürich", "max": "5"},
        settings={"LOG_LEVEL": "INFO"},
        priority=1.5,
        scheduled_at=None if minutes is None else BEGIN + timedelta(minutes=minutes),
    )


def a_lock(store: Store, project: ProjectName = SHOP, *, ttl_s: float = 60) -> RolloutLock:
    return store.releases.lock(project, who="ann@desk", why="deploy", ttl_s=ttl_s)


def ids(jobs: object) -> list[str]:
    assert isinstance(jobs, tuple)
    return [job.id for job in jobs]


# --- the rollout lock


def test_a_lock_says_who_why_and_until_when(store: Store) -> None:
    before = store.now()
    lock = store.releases.lock(SHOP, who="ann@desk", why="deploy 1.2, für Köln →", ttl_s=60)

    assert (lock.project, lock.who, lock.why) == (SHOP, "ann@desk", "deploy 1.2, für Köln →")
    assert lock.expires_at - lock.since == timedelta(seconds=60)
    assert abs(lock.since - before) < timedelta(seconds=SOON_S)
    assert store.releases.holder(SHOP) == lock


def test_a_held_lock_is_refused_and_names_its_holder(opened: Opener) -> None:
    held = a_lock(opened())

    with pytest.raises(LockHeldError) as caught:
        opened().releases.lock(SHOP, who="bob@laptop", why="hurry", ttl_s=60)

    assert (caught.value.who, caught.value.why, caught.value.since) == ("ann@desk", "deploy", held.since)


def test_the_locks_of_two_projects_do_not_meet(store: Store) -> None:
    assert a_lock(store, SHOP).token != a_lock(store, NEWS).token


def test_nobody_holds_a_lock_that_was_given_back(store: Store) -> None:
    store.releases.unlock(a_lock(store))

    assert store.releases.holder(SHOP) is None
    assert store.releases.holder(NEWS) is None


def test_every_token_is_larger_than_all_before_it(opened: Opener) -> None:
    tokens = []
    for _ in range(20):
        store = opened()
        lock = a_lock(store, SHOP)
        tokens.append(lock.token)
        store.releases.unlock(lock)

    assert tokens == sorted(set(tokens))


def test_an_expired_lock_goes_to_the_next_taker(opened: Opener) -> None:
    store = opened()
    old = a_lock(store, ttl_s=0.2)
    wait_until(lambda: store.releases.holder(SHOP) is None, deadline_s=SOON_S, what="the lock to expire")

    new = a_lock(opened())

    assert new.token > old.token
    assert store.releases.holder(SHOP) == new


def test_a_renewed_lock_outlives_its_first_term(store: Store) -> None:
    lock = a_lock(store, ttl_s=5)
    store.releases.renew(lock, ttl_s=120)

    holder = store.releases.holder(SHOP)
    assert holder is not None
    assert holder.token == lock.token
    assert holder.expires_at > lock.expires_at + timedelta(seconds=60)


def test_an_expired_lock_cannot_be_renewed(store: Store) -> None:
    lock = a_lock(store, ttl_s=0.2)
    wait_until(lambda: store.releases.holder(SHOP) is None, deadline_s=SOON_S, what="the lock to expire")

    with pytest.raises(ConflictError, match="expired or was stolen"):
        store.releases.renew(lock, ttl_s=60)
    assert store.releases.holder(SHOP) is None


def test_a_stolen_lock_refuses_every_write_of_its_former_holder(opened: Opener) -> None:
    store = opened()
    old = a_lock(store)
    store.releases.record(a_release(V1), old)
    new = opened().releases.lock(SHOP, who="bob@laptop", why="stuck", ttl_s=60, steal=True)

    writes: tuple[Callable[[], None], ...] = (
        lambda: store.releases.renew(old, ttl_s=60),
        lambda: store.releases.record(a_release(V2), old),
        lambda: store.releases.activate(a_rollout(V1), old, held_by=[]),
        lambda: store.releases.forget(SHOP, V1, old),
    )
    for write in writes:
        with pytest.raises(ConflictError):
            write()
    store.releases.unlock(old)

    assert store.releases.holder(SHOP) == new
    assert store.releases.releases(SHOP) == (a_release(V1),)
    assert store.releases.active(SHOP) is None
    assert store.releases.history(SHOP) == ()


def test_an_expired_lock_refuses_every_write(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(V1), lock)
    store.releases.unlock(lock)
    short = a_lock(store, ttl_s=0.1)
    wait_until(lambda: store.releases.holder(SHOP) is None, deadline_s=SOON_S, what="the lock to expire")

    with pytest.raises(ConflictError):
        store.releases.record(a_release(V2), short)
    with pytest.raises(ConflictError):
        store.releases.activate(a_rollout(V1), short, held_by=[])
    with pytest.raises(ConflictError):
        store.releases.forget(SHOP, V1, short)


def test_the_lock_of_one_project_does_not_open_another(store: Store) -> None:
    lock = a_lock(store, SHOP)

    with pytest.raises(ConflictError):
        store.releases.record(a_release(project=NEWS), lock)


def test_a_free_lock_may_be_stolen_too(store: Store) -> None:
    lock = store.releases.lock(SHOP, who="bob@laptop", why="careful", ttl_s=60, steal=True)
    assert store.releases.holder(SHOP) == lock


# --- releases


def test_a_recorded_release_is_known_but_not_active(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)

    assert store.releases.get(SHOP, V1) == a_release()
    assert store.releases.active(SHOP) is None
    assert store.releases.actives() == {}
    assert store.releases.projects() == (SHOP,)


def test_the_same_release_twice_is_one_and_stays_as_first_recorded(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.record(replace(a_release(), created_by="bob@laptop"), lock)

    assert store.releases.releases(SHOP) == (a_release(),)


def test_a_version_never_gets_other_bytes(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(digest="aa"), lock)

    with pytest.raises(ConflictError, match="other bytes"):
        store.releases.record(a_release(digest="bb"), lock)
    assert store.releases.get(SHOP, V1) == a_release(digest="aa")


def test_activating_shows_everywhere_at_once(opened: Opener) -> None:
    store, other = opened(), opened()
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[NodeName("node-1"), NodeName("node-3")])

    assert other.releases.active(SHOP) == a_release()
    assert other.releases.actives() == {SHOP: a_release()}
    assert other.releases.holders(SHOP, V1) == {"node-1", "node-3"}
    assert other.releases.history(SHOP) == (a_rollout(),)


def test_activating_again_replaces_the_holders(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[NodeName("node-1")])
    store.releases.activate(a_rollout(minutes=1), lock, held_by=[NodeName("node-2")])

    assert store.releases.holders(SHOP, V1) == {"node-2"}


def test_an_unknown_release_cannot_be_made_active(store: Store) -> None:
    lock = a_lock(store)
    with pytest.raises(NotFoundError, match=V1):
        store.releases.activate(a_rollout(), lock, held_by=[])

    assert store.releases.history(SHOP) == ()
    assert store.releases.holders(SHOP, V1) == frozenset()


def test_going_back_makes_the_earlier_release_active_again(store: Store) -> None:
    lock = a_lock(store)
    for version, minutes in ((V1, 0), (V2, 1), (V1, 2)):
        store.releases.record(a_release(version, digest=version), lock)
        store.releases.activate(a_rollout(version, minutes=minutes), lock, held_by=[])

    active = store.releases.active(SHOP)
    assert active is not None
    assert active.version == V1
    assert [rollout.version for rollout in store.releases.history(SHOP)] == [V1, V2, V1]


def test_a_rollout_sent_twice_stands_once_in_the_history(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    for _ in range(2):
        store.releases.activate(a_rollout(), lock, held_by=[])
    for _ in range(2):
        store.releases.note(a_rollout(V2))

    assert store.releases.history(SHOP) == (a_rollout(V2), a_rollout(V1))


def test_a_failed_rollout_is_noted_and_changes_nothing_else(store: Store) -> None:
    failed = replace(a_rollout(), activated=False)
    store.releases.note(failed)

    assert store.releases.history(SHOP) == (failed,)
    assert store.releases.active(SHOP) is None
    assert store.releases.projects() == ()


def test_the_history_keeps_its_newest_entries(store: Store) -> None:
    for minutes in range(MAX_HISTORY + 5):
        store.releases.note(a_rollout(minutes=minutes))
    store.releases.note(a_rollout(project=NEWS))

    history = store.releases.history(SHOP, limit=1000)
    assert history[0] == a_rollout(minutes=MAX_HISTORY + 4)
    assert history[-1] == a_rollout(minutes=5)
    assert store.releases.history(SHOP, limit=2) == history[:2]
    assert len(store.releases.history(SHOP)) == 50
    assert store.releases.history(SHOP, limit=0) == ()
    assert store.releases.history(NEWS) == (a_rollout(project=NEWS),)


def test_releases_come_newest_first_and_are_found_by_their_bytes(store: Store) -> None:
    lock = a_lock(store)
    old, newer, newest = (
        a_release(VersionName("b"), digest="same", hours=1),
        a_release(VersionName("c"), digest="same", hours=2),
        a_release(VersionName("a"), digest="other", hours=3),
    )
    for release in (newer, newest, old):
        store.releases.record(release, lock)

    assert store.releases.releases(SHOP) == (newest, newer, old)
    assert store.releases.with_digest(SHOP, "same") == newer
    assert store.releases.with_digest(SHOP, "none") is None
    assert store.releases.with_digest(NEWS, "same") is None


def test_a_forgotten_release_is_gone_and_its_project_with_the_last(store: Store) -> None:
    lock = a_lock(store)
    for version in (V1, V2):
        store.releases.record(a_release(version, digest=version), lock)

    store.releases.forget(SHOP, V1, lock)
    assert store.releases.get(SHOP, V1) is None
    assert store.releases.holders(SHOP, V1) == frozenset()
    assert store.releases.projects() == (SHOP,)

    store.releases.forget(SHOP, V2, lock)
    store.releases.forget(SHOP, V2, lock)
    assert store.releases.projects() == ()


def test_the_active_release_is_never_forgotten(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[NodeName("node-1")])

    with pytest.raises(ConflictError, match="active"):
        store.releases.forget(SHOP, V1, lock)
    assert store.releases.active(SHOP) == a_release()
    assert store.releases.holders(SHOP, V1) == {"node-1"}


def test_a_forgotten_version_may_come_back_with_other_bytes(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(digest="aa"), lock)
    store.releases.forget(SHOP, V1, lock)
    store.releases.record(a_release(digest="bb"), lock)

    assert store.releases.get(SHOP, V1) == a_release(digest="bb")


def test_projects_are_sorted_and_each_has_its_own_active_release(store: Store) -> None:
    for project in (SHOP, NEWS):
        lock = a_lock(store, project)
        store.releases.record(a_release(project=project), lock)
        store.releases.activate(a_rollout(project=project), lock, held_by=[])

    assert store.releases.projects() == (NEWS, SHOP)
    assert list(store.releases.actives()) == [NEWS, SHOP]


def test_a_rollout_that_died_between_its_steps_leaves_the_former_release_active(opened: Opener) -> None:
    store = opened()
    lock = a_lock(store, ttl_s=0.2)
    store.releases.record(a_release(V1), lock)
    store.releases.activate(a_rollout(V1), lock, held_by=[NodeName("node-1")])
    store.releases.record(a_release(V2, digest="bb", hours=1), lock)
    store.close()

    survivor = opened()
    wait_until(lambda: survivor.releases.holder(SHOP) is None, deadline_s=SOON_S, what="the dead one's lock to expire")
    lock = a_lock(survivor)
    assert survivor.releases.active(SHOP) == a_release(V1)
    survivor.releases.activate(a_rollout(V2), lock, held_by=[])
    assert survivor.releases.active(SHOP) == a_release(V2, digest="bb", hours=1)


# --- jobs


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


# --- the store itself


def test_the_clock_is_aware_and_runs(store: Store) -> None:
    first = store.now()
    assert first.tzinfo is UTC
    wait_until(lambda: store.now() > first, deadline_s=SOON_S, what="the clock to go on")


def test_closing_twice_is_harmless(opened: Opener) -> None:
    store = opened()
    store.close()
    store.close()


def test_clusters_do_not_see_each_other(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    for url in (Secret(request.getfixturevalue("redis_url")), None):
        with ExitStack() as closing:
            one, other = (open_store(url, tmp_path, cluster=name) for name in ("eu", "us"))
            closing.callback(one.close)
            closing.callback(other.close)
            a_lock(one)
            one.jobs.add([a_job("a")])

            assert other.releases.holder(SHOP) is None
            assert other.jobs.unfinished() == ()
