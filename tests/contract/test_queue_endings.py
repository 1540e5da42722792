"""Endings: one outcome a claim, whatever is sent twice or late, and what a claim that was never begun costs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, names

from toolkit.model.errors import NotFoundError
from toolkit.model.jobs import JobState
from toolkit.model.queue import Ending, NothingToClaim, Progress


def test_an_outcome_tells_what_was_seen_and_counted(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    progress = Progress(
        state=JobState.FAILED,
        pages=10,
        items=0,
        errors=3,
        retries=1,
        bytes=5_000_000_000,
        pages_per_minute=60.5,
        memory_mb=81.25,
        finish_reason="closespider_errorcount",
        statuses={"200": 9, "404": 1},
    )
    ending = Ending(JobState.FAILED, "it failed: Zürich 北京", exit_code=-9, signal="SIGKILL", progress=progress)

    assert desk.finish(claim, ending) == JobState.FAILED
    job = desk.job("a1")
    assert (job.state, job.reason, job.exit_code, job.signal) == (JobState.FAILED, ending.reason, -9, "SIGKILL")
    assert (job.pages, job.items, job.errors, job.retries, job.bytes) == (10, 0, 3, 1, 5_000_000_000)
    assert (job.pages_per_minute, job.memory_mb, job.statuses) == (60.5, 81.25, {"200": 9, "404": 1})
    assert job.finish_reason == "closespider_errorcount"
    assert (job.node, job.pid, job.attempt) == ("node-1", 4711, 1)
    assert job.scheduled_by == "ann@desk"


def test_an_ending_of_which_little_is_known_is_recorded_too(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    assert desk.finish(claim, Ending(JobState.FAILED, "no word from it")) == JobState.FAILED
    assert (desk.job("a1").exit_code, desk.job("a1").pages) == (None, None)


def test_progress_is_seen_while_a_job_runs(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.beat(report, claim, progress=Progress(JobState.RUNNING, pages=5, pages_per_minute=12.5))
    assert (desk.job("a1").state, desk.job("a1").pages, desk.job("a1").pages_per_minute) == ("running", 5, 12.5)
    desk.beat(report, claim, progress=Progress(JobState.PAUSED, pages=6))
    assert (desk.job("a1").state, desk.job("a1").pages) == (JobState.PAUSED, 6)
    desk.beat(report, claim)
    assert desk.job("a1").pages == 6


def test_no_progress_makes_a_job_final(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.beat(report, claim, progress=Progress(JobState.FINISHED, pages=5, finish_reason="finished"))
    assert desk.job("a1").state.is_active


def test_a_begun_job_tells_its_process_and_when(desk: QueueDesk) -> None:
    desk.add("a1")
    before = desk.store.now()
    claim = desk.claim(desk.register(a_report()))
    assert desk.job("a1").started_at is None
    assert desk.queue.started(claim.job.id, claim.token, pid=123)

    job = desk.job("a1")
    assert (job.state, job.pid) == (JobState.RUNNING, 123)
    assert job.started_at is not None
    assert before - timedelta(seconds=1) <= job.started_at <= desk.store.now()
    assert desk.queue.started(claim.job.id, claim.token, pid=123)
    assert desk.job("a1") == job


def test_an_ending_that_is_told_late_says_when_it_was(desk: QueueDesk) -> None:
    desk.add("a1", "a2")
    report = desk.register(a_report())
    desk.finish(desk.run(report), an_ending(ago_s=3600))
    job = desk.job("a1")
    # It cannot have ended before it began.
    assert job.started_at is not None
    assert job.ended_at == job.started_at

    claim = desk.run(report)
    facts = json.loads(str(desk.redis.hget(desk.keys.jobs, "a2")))
    desk.redis.hset(desk.keys.jobs, "a2", json.dumps({**facts, "started_ms": facts["started_ms"] - 3_600_000}))
    told_at = desk.store.now()
    desk.finish(claim, an_ending(ago_s=60))
    ended_at = desk.job("a2").ended_at
    assert ended_at is not None
    assert abs((told_at - ended_at).total_seconds() - 60) < 5


def test_the_same_ending_twice_is_one(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    assert desk.finish(claim) == JobState.FINISHED
    first = desk.job("a1")

    assert desk.finish(claim) == JobState.FINISHED
    assert desk.job("a1") == first
    assert desk.queue.counts()["ended"] == 1
    assert desk.queue.busy(first.project) == 0
    assert desk.left_behind() == set()


def test_another_ending_afterwards_changes_nothing(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    desk.finish(claim)
    first = desk.job("a1")

    assert desk.finish(claim, an_ending(JobState.FAILED)) in {None, JobState.FINISHED}
    assert desk.finish(claim, an_ending(JobState.LOST)) in {None, JobState.FINISHED}
    assert not desk.queue.give_back(claim.job.id, claim.token, reason="late")
    assert not desk.queue.started(claim.job.id, claim.token, pid=1)
    assert desk.job("a1") == first


def test_an_ended_job_is_stale_to_a_node_that_still_holds_it(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.finish(claim)

    assert desk.beat(report, claim, progress=Progress(JobState.RUNNING, pages=9)).stale == (claim.token,)
    assert desk.redis.hlen(desk.keys.progress) == 0
    assert desk.redis.zcard(desk.keys.leases) == 0


def test_a_failed_job_is_not_repeated_unless_asked(desk: QueueDesk) -> None:
    desk.add("a1", attempts=5)
    report = desk.register(a_report())
    assert desk.finish(desk.run(report), an_ending(JobState.FAILED, exit_code=1)) == JobState.FAILED
    assert isinstance(desk.look(report), NothingToClaim)


def test_a_failed_job_that_is_to_be_repeated_has_its_attempts(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a1", attempts=3, retries_failed=True), a_pending_job("a2")])
    report = desk.register(a_report())
    states = []
    for _ in range(3):
        claim = desk.run(report)
        assert claim.job.id == "a1"
        states.append(desk.finish(claim, an_ending(JobState.FAILED, exit_code=1, finish_reason="shutdown")))
        if states[-1] == JobState.PENDING:
            job = desk.job("a1")
            assert (job.exit_code, job.pages, job.finish_reason, job.ended_at) == (None, None, None, None)
            assert job.reason == "it failed"

    assert states == [JobState.PENDING, JobState.PENDING, JobState.FAILED]
    assert (desk.job("a1").attempt, desk.job("a1").exit_code) == (3, 1)


def test_the_ending_of_an_attempt_before_counts_for_nothing(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a1", attempts=3, retries_failed=True)])
    report = desk.register(a_report())
    first = desk.run(report)
    desk.finish(first, an_ending(JobState.FAILED))
    assert desk.finish(first, an_ending(JobState.FAILED)) in {None, JobState.PENDING}
    second = desk.run(report)
    assert desk.finish(first, an_ending(JobState.FAILED)) is None
    assert desk.job("a1").token == second.token
    assert desk.finish(second) == JobState.FINISHED


def test_a_job_that_ended_with_its_node_runs_again_and_then_is_lost(desk: QueueDesk) -> None:
    desk.add("a1", attempts=2)
    report = desk.register(a_report())
    assert desk.finish(desk.run(report), an_ending(JobState.LOST)) == JobState.PENDING
    claim = desk.run(report)
    assert claim.job.attempt == 2
    assert desk.finish(claim, an_ending(JobState.LOST)) == JobState.LOST
    assert desk.job("a1").ended_at is not None
    assert desk.left_behind() == set()


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.FAILED, JobState.LOST])
def test_a_job_that_somebody_wished_cancelled_becomes_cancelled(desk: QueueDesk, state: JobState) -> None:
    desk.queue.add([a_pending_job("a1", attempts=9, retries_failed=True)])
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.queue.cancel(names("a1"), grace_s=5)

    assert desk.finish(claim, an_ending(state, finish_reason="shutdown")) == JobState.CANCELLED
    assert desk.job("a1").cancel_requested_at is not None
    assert isinstance(desk.look(report), NothingToClaim)
    assert desk.left_behind() == set()


def test_a_job_that_came_to_its_own_end_before_the_cancel_reached_it_is_finished(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    desk.queue.cancel(names("a1"), grace_s=5)
    assert desk.finish(claim, an_ending(finish_reason="finished")) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_a_claim_that_was_never_begun_goes_back_to_its_place_uncounted(desk: QueueDesk) -> None:
    desk.add("a", "b", attempts=1)
    report = desk.register(a_report())
    claim = desk.claim(report)
    desk.add("c")

    assert desk.queue.give_back(claim.job.id, claim.token, reason="no memory")
    job = desk.job("a")
    assert (job.state, job.attempt, job.node, job.token) == (JobState.PENDING, 0, None, None)
    assert job.reason == "no memory"
    assert not desk.queue.give_back(claim.job.id, claim.token, reason="again")
    assert desk.queue.busy(job.project) == 0
    assert desk.take_all(report) == ["a", "b", "c"]
    assert desk.job("a").attempt == 1


def test_a_job_that_is_given_back_after_somebody_cancelled_it_is_cancelled(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.claim(desk.register(a_report()))
    desk.queue.cancel(names("a1"), grace_s=5)

    assert desk.queue.give_back(claim.job.id, claim.token, reason="no memory")
    assert desk.states("a1") == ["cancelled"]
    assert desk.left_behind() == set()


def test_an_ending_that_was_not_heard_is_asked_for_again(desk: QueueDesk) -> None:
    desk.add("a", "b", "c")
    report = desk.register(a_report())
    heard, unheard, other = desk.run(report), desk.run(report), desk.run(report)
    desk.finish(heard)

    answer = desk.nodes.beat(report, [], ended=[(claim.job.id, claim.token) for claim in (heard, unheard)])
    assert answer.unheard == (unheard.token,)
    assert answer.stale == ()
    assert desk.finish(unheard) == JobState.FINISHED
    assert desk.finish(other) == JobState.FINISHED


def test_endings_of_jobs_that_are_not_known_are_told_apart(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    desk.finish(claim)
    desk.queue.drop_old(max_age_s=3600, max_jobs=0)

    assert desk.store.jobs.get(claim.job.id) is None
    with pytest.raises(NotFoundError, match="a1"):
        desk.finish(claim)
    with pytest.raises(NotFoundError, match="a1"):
        desk.queue.give_back(claim.job.id, claim.token, reason="x")
    # Its process may go on: it is nobody else's.
    assert desk.queue.started(claim.job.id, claim.token, pid=1)
    assert desk.store.jobs.get(claim.job.id) is None


def test_a_node_that_is_stopped_in_order_uses_up_no_attempt(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a1", attempts=1)])
    report = desk.register(a_report())
    for _ in range(3):
        claim = desk.run(report)
        assert claim.job.attempt == 1
        ending = replace(an_ending(JobState.LOST, finish_reason="shutdown"), is_counted=False)
        assert desk.queue.finish(claim.job.id, claim.token, ending) is JobState.PENDING

    assert desk.finish(desk.run(report)) is JobState.FINISHED
    assert desk.left_behind() == set()
