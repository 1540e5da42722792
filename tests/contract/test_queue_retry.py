"""Retry: what did not finish well runs again as if it had never begun, and an old owner cannot spoil it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, names

from toolkit.model.jobs import JobState
from toolkit.model.queue import Claimed


def ended(desk: QueueDesk, state: JobState, job_id: str = "a1") -> Claimed:
    """Let a job end in this state."""
    desk.queue.add([a_pending_job(job_id, attempts=1)])
    claim = desk.run(desk.register(a_report()))
    if state == JobState.CANCELLED:
        desk.queue.cancel(names(job_id), grace_s=1)
    desk.finish(claim, an_ending(JobState.FAILED if state == JobState.CANCELLED else state, finish_reason="shutdown"))
    assert desk.job(job_id).state == state
    return claim


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.LOST, JobState.CANCELLED])
def test_a_retried_job_is_as_new(desk: QueueDesk, state: JobState) -> None:
    ended(desk, state)
    assert desk.queue.retry(names("a1", "missing")) == {"a1"}

    job = desk.job("a1")
    assert (job.state, job.attempt, job.attempts) == (JobState.PENDING, 0, 1)
    assert (job.node, job.token, job.pid, job.exit_code, job.signal) == (None, None, None, None, None)
    assert (job.started_at, job.ended_at, job.cancel_requested_at) == (None, None, None)
    assert (job.pages, job.items, job.finish_reason) == (None, None, None)
    assert job.args == {"number": "a1"}
    assert desk.queue.counts() == {"pending": 1, "held": 0, "delayed": 0, "active": 0, "ended": 0, "lost_day": 0}
    claim = desk.run(desk.register(a_report("node-2")))
    assert claim.job.attempt == 1
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_a_retried_job_waits_behind_the_others_of_its_priority(desk: QueueDesk) -> None:
    ended(desk, JobState.FAILED)
    desk.add("b", "c")
    desk.queue.retry(names("a1"))
    desk.add("d")
    assert desk.take_all(desk.register(a_report())) == ["b", "c", "a1", "d"]


def test_a_retried_job_keeps_its_priority(desk: QueueDesk) -> None:
    desk.add("a", priority=2)
    desk.queue.cancel(names("a"), grace_s=0)
    desk.add("b", priority=1)
    desk.queue.retry(names("a"))
    assert desk.take_all(desk.register(a_report())) == ["a", "b"]


def test_a_job_that_finished_or_goes_on_is_not_retried(desk: QueueDesk) -> None:
    desk.add("done", "active", "pending")
    report = desk.register(a_report())
    desk.finish(desk.run(report))
    active = desk.run(report)

    assert desk.queue.retry(names("done", "active", "pending")) == frozenset()
    assert desk.states("done", "active", "pending") == ["finished", "running", "pending"]
    assert desk.finish(active) == JobState.FINISHED


def test_a_job_named_twice_is_retried_once(desk: QueueDesk) -> None:
    ended(desk, JobState.LOST)
    assert desk.queue.retry(names("a1", "a1")) == {"a1"}
    assert desk.queue.retry(names("a1")) == frozenset()
    assert desk.take_all(desk.register(a_report())) == ["a1"]


def test_a_cancelled_job_that_was_held_or_delayed_goes_at_once_when_retried(desk: QueueDesk) -> None:
    desk.queue.add(
        [
            a_pending_job("held", is_held=True),
            a_pending_job("late", due_at=desk.store.now() + timedelta(hours=1)),
        ]
    )
    desk.queue.cancel(names("held", "late"), grace_s=0)
    assert desk.queue.retry(names("held", "late")) == {"held", "late"}
    assert desk.take_all(desk.register(a_report())) == ["held", "late"]


def test_an_old_owner_cannot_end_a_retried_job(desk: QueueDesk) -> None:
    old = ended(desk, JobState.FAILED)
    desk.queue.retry(names("a1"))
    assert desk.finish(old, an_ending(JobState.FAILED)) is None
    report = desk.register(a_report())
    new = desk.run(report)
    assert desk.finish(old, an_ending(JobState.FAILED)) is None
    assert not desk.queue.started(old.job.id, old.token, pid=1)
    assert desk.beat(report, old).stale == (old.token,)
    assert desk.finish(new) == JobState.FINISHED
    assert desk.finish(old, an_ending(JobState.FAILED)) is None
    assert desk.states("a1") == ["finished"]


def test_a_cancel_before_a_retry_is_forgotten(desk: QueueDesk) -> None:
    ended(desk, JobState.CANCELLED)
    desk.queue.retry(names("a1"))
    report = desk.register(a_report())
    claim = desk.run(report)
    assert desk.beat(report, claim).wishes == {}
    assert desk.finish(claim, an_ending(JobState.FAILED)) == JobState.FAILED


def test_a_retried_job_can_be_cancelled_and_retried_again(desk: QueueDesk) -> None:
    ended(desk, JobState.LOST)
    for _ in range(3):
        assert desk.queue.retry(names("a1")) == {"a1"}
        assert desk.queue.cancel(names("a1"), grace_s=0) == {"a1": JobState.PENDING}
    assert desk.states("a1") == ["cancelled"]
    assert desk.left_behind() == set()
