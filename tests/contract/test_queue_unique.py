"""`is_unique`: one job of a kind that is not final, whatever odd path the others of its kind have taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, names
from support.stores import NEWS

from toolkit.model.errors import ConflictError
from toolkit.model.jobs import Job, JobState

ARGS = {"city": "Zürich", "max": "5"}
Way = Callable[[QueueDesk], None]


def alike(job_id: str, *, is_held: bool = False, retries_failed: bool = False) -> Job:
    return a_pending_job(job_id, args=ARGS, is_held=is_held, retries_failed=retries_failed)


def is_room_for_one(desk: QueueDesk, job_id: str = "probe") -> bool:
    """Tell whether a unique job is let in now; it is taken out again."""
    try:
        desk.queue.add([alike(job_id)], is_unique=True)
    except ConflictError:
        return False
    desk.queue.cancel(names(job_id), grace_s=0)
    return True


def test_a_like_job_that_is_not_final_keeps_a_unique_one_out(desk: QueueDesk) -> None:
    desk.queue.add([alike("a1")], is_unique=True)

    with pytest.raises(ConflictError, match="a"):
        desk.queue.add([alike("a2")], is_unique=True)
    with pytest.raises(ConflictError):
        desk.queue.add([a_pending_job("other"), alike("a3")], is_unique=True)
    assert desk.store.jobs.get_many(names("a2", "a3", "other")) == {}
    assert desk.queue.counts()["pending"] == 1


def test_a_unique_job_heeds_those_that_were_not_asked_to_be_unique(desk: QueueDesk) -> None:
    desk.queue.add([alike("a1"), alike("a2")])
    assert not is_room_for_one(desk)
    desk.queue.cancel(names("a1"), grace_s=0)
    assert not is_room_for_one(desk)
    desk.queue.cancel(names("a2"), grace_s=0)
    assert is_room_for_one(desk)


def test_two_alike_in_one_call_are_not_unique(desk: QueueDesk) -> None:
    with pytest.raises(ConflictError, match="two of these jobs"):
        desk.queue.add([alike("a1"), alike("a2")], is_unique=True)
    assert desk.queue.counts()["pending"] == 0
    assert desk.left_behind() == set()


def test_other_arguments_spiders_and_projects_are_others(desk: QueueDesk) -> None:
    desk.queue.add([alike("a1")], is_unique=True)
    desk.queue.add([a_pending_job("a2", args={**ARGS, "max": "6"})], is_unique=True)
    desk.queue.add([a_pending_job("a3", args={})], is_unique=True)
    desk.queue.add([a_pending_job("a4", args=ARGS, spider="prices")], is_unique=True)
    desk.queue.add([a_pending_job("a5", args=ARGS, project=NEWS)], is_unique=True)
    assert desk.queue.counts()["pending"] == 5


def test_arguments_in_another_order_are_the_same(desk: QueueDesk) -> None:
    desk.queue.add([alike("a1")], is_unique=True)
    with pytest.raises(ConflictError):
        desk.queue.add([a_pending_job("a2", args=dict(reversed(ARGS.items())))], is_unique=True)


def test_held_and_delayed_jobs_count_as_there(desk: QueueDesk) -> None:
    desk.queue.add([alike("held", is_held=True)])
    assert not is_room_for_one(desk)
    desk.queue.cancel(names("held"), grace_s=0)
    desk.queue.add([a_pending_job("late", args=ARGS, due_at=desk.store.now() + timedelta(hours=1))])
    assert not is_room_for_one(desk)
    desk.queue.cancel(names("late"), grace_s=0)
    assert is_room_for_one(desk)


def given_back(desk: QueueDesk) -> None:
    claim = desk.claim(desk.register(a_report()))
    desk.queue.give_back(claim.job.id, claim.token, reason="no memory")


def given_back_and_cancelled(desk: QueueDesk) -> None:
    claim = desk.claim(desk.register(a_report()))
    desk.queue.cancel([claim.job.id], grace_s=1)
    desk.queue.give_back(claim.job.id, claim.token, reason="no memory")


def lost_once(desk: QueueDesk) -> None:
    claim = desk.run(desk.register(a_report()))
    desk.end_leases(claim.job.id)
    desk.queue.requeue_expired()


def lost_twice(desk: QueueDesk) -> None:
    lost_once(desk)
    lost_once(desk)


def lost_twice_and_retried(desk: QueueDesk) -> None:
    lost_twice(desk)
    desk.queue.retry(names("a1"))


def cancelled_and_retried_and_cancelled(desk: QueueDesk) -> None:
    desk.queue.cancel(names("a1"), grace_s=0)
    desk.queue.retry(names("a1", "a1"))
    desk.queue.cancel(names("a1", "a1"), grace_s=0)


def failed_and_repeated(desk: QueueDesk) -> None:
    claim = desk.run(desk.register(a_report()))
    desk.finish(claim, an_ending(JobState.FAILED))


def failed_twice(desk: QueueDesk) -> None:
    failed_and_repeated(desk)
    failed_and_repeated(desk)


def finished_twice(desk: QueueDesk) -> None:
    claim = desk.run(desk.register(a_report()))
    desk.finish(claim)
    desk.finish(claim)


def forgotten_by_its_node(desk: QueueDesk) -> None:
    desk.claim(desk.register(a_report()))
    desk.queue.reconcile(a_report(), [])


def moved_and_held(desk: QueueDesk) -> None:
    desk.queue.move(names("a1"), [a_report().name])
    desk.queue.hold(names("a1"))
    desk.queue.hold(names("a1"))


def released_twice_and_finished(desk: QueueDesk) -> None:
    desk.queue.hold(names("a1"))
    desk.queue.release(names("a1"))
    desk.queue.release(names("a1"))
    finished_twice(desk)


@pytest.mark.parametrize(
    ("way", "is_over"),
    [
        (given_back, False),
        (given_back_and_cancelled, True),
        (lost_once, False),
        (lost_twice, True),
        (lost_twice_and_retried, False),
        (cancelled_and_retried_and_cancelled, True),
        (failed_and_repeated, False),
        (failed_twice, True),
        (finished_twice, True),
        (forgotten_by_its_node, False),
        (moved_and_held, False),
        (released_twice_and_finished, True),
    ],
)
def test_a_like_job_is_let_in_exactly_when_the_first_is_final(desk: QueueDesk, way: Way, *, is_over: bool) -> None:
    desk.queue.add([alike("a1", retries_failed=True)])
    way(desk)

    assert desk.job("a1").state.is_final == is_over
    assert is_room_for_one(desk, "first") == is_over
    desk.queue.cancel(names("a1"), grace_s=0)
    assert is_room_for_one(desk, "second")
    assert desk.redis.hlen(desk.keys.same) == 0
