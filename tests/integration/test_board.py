"""The board of jobs on a real Redis: whatever happens is on it after a look, however little was read for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.busy_cluster import BusyCluster
from support.queue_desk import QueueDesk, names, queue_desk
from support.stores import a_job

from toolkit.cluster import board as board_module
from toolkit.cluster.board import Board
from toolkit.cluster.desk import Desk
from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId
from toolkit.store.open import open_store


@pytest.fixture
def queue(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path) as desk:
        yield desk


@pytest.fixture
def cluster(queue: QueueDesk) -> BusyCluster:
    busy = BusyCluster(queue, nodes=3, slots=2)
    busy.schedule(20)
    busy.start()
    busy.end(2)
    return busy


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def states(jobs: dict[JobId, Job]) -> dict[str, str]:
    return {job_id: job.state.value for job_id, job in jobs.items()}


def recorded(queue: QueueDesk) -> dict[str, str]:
    keys = queue.keys
    ids = [str(job_id) for key in (keys.unfinished_jobs, keys.final_jobs) for job_id in queue.redis.zrange(key, 0, -1)]
    return states(dict(queue.store.jobs.get_many(names(*ids))))


def test_each_look_shows_what_happened_since(cluster: BusyCluster, queue: QueueDesk) -> None:
    board = Board(cluster.desk)
    first = board.look()
    assert first.is_anew
    assert states(dict(first.jobs)) == recorded(queue)

    cluster.start()
    cluster.end(1, JobState.FAILED)
    new = cluster.schedule(3)
    queue.queue.cancel(names(new[0]), grace_s=0)
    second = board.look()
    assert not second.is_anew
    assert states(dict(second.jobs)) == recorded(queue)
    assert [event.kind.value for event in second.events][-2:] == ["job.failed", "job.cancelled"]
    assert second.counts["pending"] == sum(job.state is JobState.PENDING for job in second.jobs.values())


def test_a_look_at_nothing_new_changes_nothing(cluster: BusyCluster) -> None:
    board = Board(cluster.desk)
    first, second = board.look(), board.look()
    assert second.jobs == first.jobs
    assert not second.events


def test_speed_is_told_from_what_nodes_said_in_between(cluster: BusyCluster) -> None:
    clock = Clock()
    board = Board(cluster.desk, clock=clock)
    cluster.start()
    cluster.beat(pages=10)
    board.look()
    clock.now_s += 10
    cluster.beat(pages=50)
    view = board.look()
    assert view.totals.pages == pytest.approx(6 * 5.0)
    assert set(view.rates) == {job.id for job in view.jobs.values() if job.state.is_active}


def test_whoever_schedules_by_a_slow_clock_is_seen_too(cluster: BusyCluster, queue: QueueDesk) -> None:
    clock = Clock()
    board = Board(cluster.desk, clock=clock)
    newest = max(job.scheduled_at for job in board.look().jobs.values() if job.scheduled_at)
    job = next(iter(queue.store.jobs.unfinished()))
    queue.queue.add([replace(job, id=JobId("slow"), state=JobState.PENDING, scheduled_at=newest - timedelta(hours=9))])
    for _ in range(3):
        clock.now_s += 5
        view = board.look()
    assert JobId("slow") in view.jobs


def test_what_no_event_told_of_is_found_by_the_counts(cluster: BusyCluster, queue: QueueDesk) -> None:
    clock = Clock()
    board = Board(cluster.desk, clock=clock)
    board.look()
    gone = queue.queue.open(limit=1)
    queue.queue.cancel(gone, grace_s=0)
    board._last_event = queue.store.shared.events.newest()  # type: ignore[union-attr]
    for _ in range(3):
        clock.now_s += 5
        view = board.look()
    assert view.jobs[gone[0]].state is JobState.CANCELLED


def test_a_look_that_failed_half_way_loses_nothing(cluster: BusyCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(cluster.desk)
    board.look()
    (ended,) = cluster.end(1)
    with monkeypatch.context() as patched:
        patched.setattr(board, "_read", _gone)
        with pytest.raises(StoreUnreachableError):
            board.look()
    view = board.look()
    assert view.jobs[JobId(ended)].state is JobState.FINISHED
    assert [event.subject for event in view.events] == [ended]


def _gone(*_: object) -> None:
    raise StoreUnreachableError("Redis went away")


@pytest.mark.parametrize("what", ["too many events", "an older Redis"])
def test_everything_is_read_anew_when_the_events_do_not_tell_all(
    cluster: BusyCluster, queue: QueueDesk, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    board = Board(cluster.desk)
    board.look()
    if what == "too many events":
        monkeypatch.setattr(board_module, "EVENTS_A_CALL", 1)
        monkeypatch.setattr(board_module, "MAX_EVENT_CALLS", 2)
        cluster.end(3)
    else:
        queue.redis.flushall()
        cluster = BusyCluster(queue, nodes=1, slots=1)
        cluster.schedule(2)
    view = board.look()
    assert view.is_anew
    assert states(dict(view.jobs)) == recorded(queue)
    assert not board.look().is_anew


def test_a_queue_too_long_to_keep_is_counted_and_what_runs_is_known(
    cluster: BusyCluster, queue: QueueDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "MAX_OPEN", 5)
    monkeypatch.setattr(board_module, "MAX_ENDED", 1)
    cluster.schedule(30)
    view = Board(cluster.desk).look()
    active = {job_id for job_id, job in view.jobs.items() if job.state.is_active}
    assert active == set(queue.queue.active())
    assert view.counts["pending"] == 44
    assert len(view.jobs) == len(active) + 5 + 1


def test_without_a_redis_the_jobs_are_those_that_the_file_knows(tmp_path: Path) -> None:
    with_store = open_store(None, tmp_path)
    with_store.jobs.add([a_job("a1", state=JobState.FINISHED)])
    view = Board(Desk(Nodes.of([]), lambda: with_store)).look()
    with_store.close()
    assert list(view.jobs) == ["a1"]
    assert (view.counts, view.events, view.is_anew) == ({}, (), True)
