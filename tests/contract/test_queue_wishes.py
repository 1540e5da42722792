"""What operators wish of jobs: cancel, hold, release, move, re-prioritise, pause, tune and retry, at any moment."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, names
from support.stores import a_job

from toolkit.model.errors import UsageError
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.queue import NothingToClaim, Progress, Wish

HOUR = timedelta(hours=1)


def test_a_pending_job_is_cancelled_when_the_call_returns(desk: QueueDesk) -> None:
    desk.add("a", "b")
    assert desk.queue.cancel(names("a"), grace_s=5) == {"a": JobState.PENDING}

    job = desk.job("a")
    assert job.state == JobState.CANCELLED
    assert job.ended_at is not None
    assert job.cancel_requested_at is not None
    assert job.attempt == 0
    assert desk.take_all(desk.register(a_report())) == ["b"]


def test_held_and_delayed_jobs_are_cancelled_and_never_come_back(desk: QueueDesk) -> None:
    soon = desk.store.now() + timedelta(seconds=0.1)
    desk.queue.add([a_pending_job("held", is_held=True), a_pending_job("late", due_at=soon)])
    desk.queue.cancel(names("held", "late"), grace_s=5)

    assert desk.queue.release(names("held", "late")) == frozenset()
    assert isinstance(desk.look(desk.register(a_report())), NothingToClaim)
    assert desk.states("held", "late") == ["cancelled", "cancelled"]
    assert desk.left_behind() == set()


def test_an_active_job_is_asked_to_end_and_its_node_hears_of_it(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    assert desk.queue.cancel(names("a1"), grace_s=7.5) == {"a1": JobState.RUNNING}

    job = desk.job("a1")
    assert job.state == JobState.RUNNING
    assert job.cancel_requested_at is not None
    for _ in range(2):
        wish = desk.beat(report, claim).wishes[claim.token]
        assert wish == Wish(cancel_grace_s=7.5)
        assert wish.is_cancel
    assert desk.finish(claim, an_ending(finish_reason="shutdown")) == JobState.CANCELLED


def test_a_job_is_cancelled_while_it_is_being_claimed(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.claim(report)
    assert desk.queue.cancel(names("a1"), grace_s=0) == {"a1": JobState.STARTING}

    assert desk.job("a1").state == JobState.STARTING
    assert desk.queue.started(claim.job.id, claim.token, pid=1)
    assert desk.beat(report, claim).wishes[claim.token].cancel_grace_s == 0
    assert desk.finish(claim, an_ending(JobState.FAILED)) == JobState.CANCELLED


def test_the_shorter_grace_counts(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    for grace_s in (30, 2, 60):
        desk.queue.cancel(names("a1"), grace_s=grace_s)
    assert desk.beat(report, claim).wishes[claim.token].cancel_grace_s == 2


def test_the_state_before_is_told_for_each_known_job_even_if_named_twice(desk: QueueDesk) -> None:
    desk.add("active", "done", "pending")
    report = desk.register(a_report())
    active = desk.run(report)
    desk.finish(desk.run(report))
    desk.store.jobs.add([a_job("stock", state=JobState.RUNNING)])
    desk.beat(report, active, progress=Progress(JobState.PAUSED))

    wanted = names("pending", "active", "done", "stock", "missing", "pending")
    before = {job_id: job.state for job_id, job in desk.store.jobs.get_many(wanted).items()}
    told = desk.queue.cancel(wanted, grace_s=1)
    assert told == before
    assert desk.states("stock", "active", "done", "pending") == ["running", "paused", "finished", "cancelled"]


def test_ended_jobs_are_left_alone_by_a_cancel(desk: QueueDesk) -> None:
    desk.add("a1")
    desk.finish(desk.run(desk.register(a_report())))
    before = desk.job("a1")
    assert desk.queue.cancel(names("a1"), grace_s=1) == {"a1": JobState.FINISHED}
    assert desk.job("a1") == before
    assert desk.left_behind() == set()


def test_a_held_job_is_not_taken_until_it_is_released(desk: QueueDesk) -> None:
    desk.add("a", "b", "c")
    report = desk.register(a_report())
    assert desk.queue.hold(names("a", "missing")) == {"a"}
    assert desk.queue.hold(names("a")) == {"a"}
    assert desk.job("a").is_held
    assert desk.job("a").state == JobState.PENDING
    assert desk.claim(report).job.id == "b"

    assert desk.queue.release(names("a", "missing")) == {"a"}
    assert not desk.job("a").is_held
    # It is older than c, so it goes first.
    assert desk.take_all(report) == ["a", "c"]


def test_a_job_that_was_added_held_waits_at_its_place(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a", is_held=True), a_pending_job("b")])
    assert desk.job("a").is_held
    desk.queue.release(names("a"))
    assert desk.take_all(desk.register(a_report())) == ["a", "b"]


def test_a_delayed_job_is_released_to_its_old_place(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a", due_at=desk.store.now() + HOUR)])
    desk.add("b")
    assert desk.queue.release(names("a", "b")) == {"a", "b"}
    assert desk.job("a").due_at is None
    assert desk.take_all(desk.register(a_report())) == ["a", "b"]
    assert desk.redis.exists(desk.keys.delayed) == 0


def test_a_delayed_job_that_was_held_meanwhile_waits_for_its_release(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a", due_at=desk.store.now() + HOUR)])
    assert desk.queue.hold(names("a")) == {"a"}
    assert desk.redis.exists(desk.keys.delayed) == 0
    assert desk.queue.counts()["held"] == 1
    desk.queue.release(names("a"))
    assert desk.claim(desk.register(a_report())).job.id == "a"


def test_only_pending_jobs_are_held_moved_and_reprioritised(desk: QueueDesk) -> None:
    desk.add("active", "done")
    report = desk.register(a_report())
    desk.run(report)
    desk.finish(desk.run(report))
    desk.store.jobs.add([a_job("stock")])
    wanted = names("active", "done", "stock", "missing")
    before = desk.store.jobs.get_many(wanted)

    assert desk.queue.hold(wanted) == frozenset()
    assert desk.queue.release(wanted) == frozenset()
    assert desk.queue.reprioritise(wanted, 5) == frozenset()
    assert desk.queue.move(wanted, [NodeName("node-2")]) == frozenset()
    assert desk.queue.retry(wanted) == frozenset()
    assert desk.store.jobs.get_many(wanted) == before


def test_another_priority_gives_another_place_and_keeps_the_age(desk: QueueDesk) -> None:
    desk.add("a", "b", "c", "d")
    assert desk.queue.reprioritise(names("d", "c"), 2.5) == {"c", "d"}
    assert desk.queue.reprioritise(names("a"), -0.25) == {"a"}
    assert (desk.job("d").priority, desk.job("a").priority) == (2.5, -0.25)
    assert desk.take_all(desk.register(a_report())) == ["c", "d", "b", "a"]


def test_a_priority_comes_back_to_where_it_was(desk: QueueDesk) -> None:
    desk.add("a", "b", "c")
    desk.queue.reprioritise(names("b"), 9)
    desk.queue.reprioritise(names("b"), 0)
    assert desk.take_all(desk.register(a_report())) == ["a", "b", "c"]


def test_held_and_delayed_jobs_keep_a_new_priority_for_later(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a"), a_pending_job("held", is_held=True)])
    desk.queue.add([a_pending_job("late", due_at=desk.store.now() + HOUR)])
    assert desk.queue.reprioritise(names("held", "late"), 3) == {"held", "late"}
    report = desk.register(a_report())
    desk.queue.add([a_pending_job("b")])
    assert desk.claim(report).job.id == "a"
    desk.queue.release(names("held", "late"))
    assert desk.take_all(report) == ["held", "late", "b"]


@pytest.mark.parametrize("priority", [1000.5, -1e9, float("inf"), float("nan")])
def test_a_priority_without_a_place_in_the_order_is_refused(desk: QueueDesk, priority: float) -> None:
    desk.add("a")
    with pytest.raises(UsageError):
        desk.queue.reprioritise(names("a"), priority)
    with pytest.raises(UsageError):
        desk.add("b", priority=priority)
    assert desk.take_all(desk.register(a_report())) == ["a"]


@pytest.mark.parametrize("spider", ["books", "bücher", "a b", 'q"uote', "a\\b"])
def test_moved_jobs_are_taken_by_the_named_nodes_only(desk: QueueDesk, spider: str) -> None:
    desk.add("a", "b", spider=spider)
    one, other = desk.register(a_report("node-1")), desk.register(a_report("nöde/2"))
    assert desk.queue.move(names("a", "missing"), [other.name]) == {"a"}

    assert desk.job("a").on == (other.name,)
    assert desk.take_all(one) == ["b"]
    assert desk.take_all(other) == ["a"]
    assert desk.redis.exists(desk.keys.lines) == 0


def test_a_moved_job_is_let_go_to_all_again_at_its_old_place(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a", on=["node-9"], spider="bücher"), a_pending_job("b", spider="bücher")])
    assert desk.queue.move(names("a"), None) == {"a"}
    assert desk.job("a").on is None
    assert len(desk.queue.lines()) == 1
    assert desk.take_all(desk.register(a_report())) == ["a", "b"]


def test_a_held_job_is_moved_and_stays_held(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a", is_held=True)])
    assert desk.queue.move(names("a"), [NodeName("node-1")]) == {"a"}
    report = desk.register(a_report())
    assert isinstance(desk.look(report), NothingToClaim)
    desk.queue.release(names("a"))
    assert isinstance(desk.look(desk.register(a_report("node-2"))), NothingToClaim)
    assert desk.claim(report).job.id == "a"


def test_a_move_outlives_a_lost_node(desk: QueueDesk) -> None:
    desk.add("a")
    desk.queue.move(names("a"), [NodeName("node-1")])
    report = desk.register(a_report())
    desk.run(report)
    desk.end_leases("a")
    desk.queue.requeue_expired()
    assert isinstance(desk.look(desk.register(a_report("node-2"))), NothingToClaim)
    assert desk.claim(report).job.on == ("node-1",)


def test_wishes_are_told_at_every_beat_and_to_the_next_life(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    assert desk.beat(report, claim).wishes == {}

    assert desk.queue.pause(JobId("a1"), is_paused=True) == JobState.RUNNING
    assert desk.queue.tune(JobId("a1"), concurrency=4, delay_s=0.5) == JobState.RUNNING
    assert desk.queue.tune(JobId("a1"), concurrency=None, delay_s=0.25) == JobState.RUNNING
    wish = Wish(is_paused=True, concurrency=4, delay_s=0.25)
    assert desk.beat(report, claim).wishes == {claim.token: wish}
    again = desk.register(a_report(session="life-2"))
    assert desk.beat(again, claim).wishes == {claim.token: wish}

    desk.queue.pause(JobId("a1"), is_paused=False)
    assert desk.beat(again, claim).wishes == {claim.token: Wish(concurrency=4, delay_s=0.25)}
    desk.queue.cancel(names("a1"), grace_s=1)
    assert desk.beat(again, claim).wishes == {claim.token: Wish(cancel_grace_s=1, concurrency=4, delay_s=0.25)}


def test_nobody_wishes_anything_of_a_job_that_does_not_run(desk: QueueDesk) -> None:
    desk.add("a1")
    assert desk.queue.pause(JobId("missing"), is_paused=True) is None
    assert desk.queue.tune(JobId("missing"), concurrency=1, delay_s=None) is None
    assert desk.queue.pause(JobId("a1"), is_paused=True) == JobState.PENDING
    report = desk.register(a_report())
    claim = desk.run(report)
    assert desk.beat(report, claim).wishes == {}
    desk.finish(claim)
    assert desk.queue.pause(JobId("a1"), is_paused=True) == JobState.FINISHED
    assert desk.redis.exists(desk.keys.wishes) == 0
