"""Leases: what is held is renewed, what is lost goes to the next, and an old owner can write nothing."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from support.queue_desk import SHORT_S, SOON_S, QueueDesk, a_pending_job, a_report, an_ending, names
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName, Token
from toolkit.model.queue import Claimed, NothingToClaim, Progress


def test_an_expired_lease_goes_to_the_next_claimer(desk: QueueDesk) -> None:
    desk.add("a1")
    first = desk.run(desk.register(a_report("node-1", lease_s=SHORT_S)))
    assert desk.lose("a1") == {"a1": JobState.PENDING}

    waiting = desk.job("a1")
    assert (waiting.state, waiting.node, waiting.pid) == (JobState.PENDING, None, None)
    assert waiting.started_at is None
    assert waiting.reason is not None
    assert "node-1" in waiting.reason
    second = desk.claim(desk.register(a_report("node-2")))
    assert (second.job.id, second.job.attempt, second.job.node) == ("a1", 2, "node-2")
    assert second.token != first.token


def test_a_job_whose_node_gives_signs_of_life_stays_its_own(desk: QueueDesk) -> None:
    report = a_report(lease_s=2 * SHORT_S)
    desk.add("a1")
    claim = desk.run(desk.register(report))
    until = desk.store.now() + timedelta(seconds=6 * SHORT_S)
    settled: list[str] = []

    def three_leases_are_over() -> bool:
        desk.beat(report, claim)
        settled.extend(desk.queue.requeue_expired())
        return desk.store.now() > until

    wait_until(three_leases_are_over, deadline_s=SOON_S, what="three leases to be over")
    assert settled == []
    assert desk.job("a1").token == claim.token


def test_a_sign_of_life_moves_the_end_of_the_lease(desk: QueueDesk) -> None:
    desk.add("a1", "a2")
    report = desk.register(a_report())
    claims = [desk.run(report), desk.run(report)]
    desk.end_leases("a1", "a2")
    desk.beat(report, claims[0])

    assert desk.lease_ends_ms("a1") > desk.store.now().timestamp() * 1000 + 50_000
    assert desk.queue.requeue_expired() == {"a2": JobState.PENDING}


def test_whoever_asks_hears_which_claims_are_over(desk: QueueDesk) -> None:
    desk.add("a1", "a2")
    report = desk.register(a_report())
    claims = [desk.run(report), desk.run(report)]
    desk.end_leases("a1", "a2")
    over: list[tuple[str, str]] = []
    desk.queue.requeue_expired(on_lost=lambda job_id, token: over.append((job_id, token)))

    assert sorted(over) == sorted((claim.job.id, claim.token) for claim in claims)


def test_a_node_that_comes_back_after_its_job_was_given_away_can_write_nothing(desk: QueueDesk) -> None:
    desk.add("a1")
    old_report = desk.register(a_report("node-1"))
    old = desk.claim(old_report)
    desk.end_leases("a1")
    desk.queue.requeue_expired()
    new = desk.run(desk.register(a_report("node-2")))
    before = desk.job("a1")
    lease_ends_ms = desk.lease_ends_ms("a1")

    answer = desk.beat(old_report, old, progress=Progress(JobState.PAUSED, pages=99))
    assert answer.stale == (old.token,)
    assert not desk.queue.started(old.job.id, old.token, pid=99)
    assert desk.finish(old) is None
    assert not desk.queue.give_back(old.job.id, old.token, reason="late")
    assert desk.queue.reconcile(old_report, []) == {}
    assert desk.job("a1") == before
    assert desk.lease_ends_ms("a1") == lease_ends_ms
    assert desk.finish(new) == JobState.FINISHED


def test_an_old_owner_has_its_job_back_as_long_as_nobody_else_has_it(desk: QueueDesk) -> None:
    desk.add("a1", attempts=1 + 1)
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.end_leases("a1")
    assert desk.queue.requeue_expired() == {"a1": JobState.PENDING}

    answer = desk.beat(report, claim)
    assert (answer.stale, answer.taken_up) == ((), (claim.token,))
    assert (desk.job("a1").state, desk.job("a1").attempt) == (JobState.STARTING, 1)
    assert isinstance(desk.look(desk.register(a_report("node-2"))), NothingToClaim)
    assert desk.queue.started(claim.job.id, claim.token, pid=99)
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_an_ending_that_comes_while_the_job_waits_for_another_is_its_outcome(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    desk.end_leases("a1")
    desk.queue.requeue_expired()

    assert desk.finish(claim) == JobState.FINISHED
    assert desk.left_behind() == set()


@pytest.mark.parametrize("change", ["hold", "move"])
def test_an_old_owner_does_not_have_a_job_back_that_an_operator_has_changed(desk: QueueDesk, change: str) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.end_leases("a1")
    desk.queue.requeue_expired()
    if change == "hold":
        desk.queue.hold(names("a1"))
    else:
        desk.queue.move(names("a1"), [NodeName("node-2")])

    assert desk.beat(report, claim).stale == (claim.token,)
    assert desk.finish(claim) is None
    assert desk.states("a1") == ["pending"]


def test_an_old_token_counts_for_nothing_when_the_same_node_has_the_job_again(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    old = desk.run(report)
    desk.end_leases("a1")
    desk.queue.requeue_expired()
    new = desk.run(report)

    assert desk.finish(old, an_ending(JobState.FAILED)) is None
    assert desk.beat(report, old).stale == (old.token,)
    assert desk.beat(report, new).stale == ()
    assert desk.finish(new) == JobState.FINISHED


def test_a_node_that_comes_back_before_its_job_was_given_away_keeps_it(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.end_leases("a1")

    assert desk.beat(report, claim).stale == ()
    assert desk.queue.requeue_expired() == {}
    assert desk.finish(claim) == JobState.FINISHED


def test_no_two_claims_have_the_same_token(desk: QueueDesk) -> None:
    desk.add("a1", attempts=50)
    report = desk.register(a_report())
    tokens = []
    for _ in range(20):
        tokens.append(desk.run(report).token)
        desk.end_leases("a1")
        desk.queue.requeue_expired()
    assert len(set(tokens)) == 20


def test_tokens_are_new_even_where_redis_forgot_its_last_writes(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    as_it_was = {key: desk.redis_bytes.dump(key) for key in desk.redis_bytes.scan_iter()}
    old = desk.run(report)
    desk.redis_bytes.flushall()
    for key, body in as_it_was.items():
        assert body is not None
        desk.redis_bytes.restore(key, 0, body)

    new = desk.claim(report)
    assert new.job.id == old.job.id
    assert new.token != old.token
    assert desk.finish(old) is None
    assert desk.finish(new) == JobState.FINISHED


def test_a_job_whose_attempts_are_used_up_is_lost(desk: QueueDesk) -> None:
    desk.add("a1", attempts=2)
    report = desk.register(a_report())
    for state in (JobState.PENDING, JobState.LOST):
        claim = desk.run(report)
        desk.end_leases("a1")
        assert desk.queue.requeue_expired() == {"a1": state}

    job = desk.job("a1")
    assert job.state == JobState.LOST
    assert (job.attempt, job.node) == (2, "node-1")
    assert job.ended_at is not None
    assert job.reason is not None
    assert "node-1" in job.reason
    assert isinstance(desk.look(report), NothingToClaim)
    assert desk.finish(claim) in {None, JobState.LOST}
    assert desk.job("a1") == job
    assert desk.left_behind() == set()


def test_a_job_of_one_attempt_is_never_run_again(desk: QueueDesk) -> None:
    desk.add("a1", attempts=1)
    desk.claim(desk.register(a_report(lease_s=SHORT_S)))
    assert desk.lose("a1") == {"a1": JobState.LOST}


def test_a_lost_nodes_jobs_go_back_to_their_places(desk: QueueDesk) -> None:
    report = desk.register(a_report())
    desk.add("a", "b", "c")
    desk.add("high", priority=1)
    for _ in range(3):
        desk.claim(report)
    desk.add("d", "e")
    desk.end_leases("b", "a", "high")
    assert set(desk.queue.requeue_expired()) == {"a", "b", "high"}

    assert [desk.queue.position(job_id) for job_id in names("high", "a", "b", "c", "d", "e")] == [0, 1, 2, 3, 4, 5]
    assert desk.take_all(report) == ["high", "a", "b", "c", "d", "e"]


def test_what_a_lost_attempt_had_counted_is_forgotten(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.beat(report, claim, progress=Progress(JobState.RUNNING, pages=7, items=3, memory_mb=12.5))
    assert desk.job("a1").pages == 7
    desk.end_leases("a1")
    desk.queue.requeue_expired()

    assert (desk.job("a1").pages, desk.job("a1").items, desk.job("a1").memory_mb) == (None, None, None)
    assert desk.redis.hlen(desk.keys.progress) == 0


def test_a_hundred_jobs_are_settled_a_call_and_none_is_forgotten(desk: QueueDesk) -> None:
    report = desk.register(a_report(slots=500))
    job_ids = [f"j{number:03}" for number in range(130)]
    desk.add(*job_ids)
    assert desk.take_all(report) == job_ids
    desk.end_leases(*job_ids)

    first = desk.queue.requeue_expired()
    assert len(first) <= 100
    settled = dict(first)
    while more := desk.queue.requeue_expired():
        settled |= more
    assert settled == dict.fromkeys(job_ids, JobState.PENDING)
    assert desk.take_all(report) == job_ids


def test_several_survivors_at_once_settle_a_job_once(desk: QueueDesk) -> None:
    job_ids = [f"j{number}" for number in range(20)]
    desk.add(*job_ids, attempts=5)
    report = desk.register(a_report(slots=500))
    desk.take_all(report)
    desk.end_leases(*job_ids)
    answers: list[str] = []
    survivors = [
        threading.Thread(target=lambda: answers.extend(desk.queue.requeue_expired()), daemon=True) for _ in range(8)
    ]
    for survivor in survivors:
        survivor.start()
    for survivor in survivors:
        survivor.join(SOON_S)

    assert sorted(answers) == sorted(job_ids)
    assert {desk.job(job_id).attempt for job_id in job_ids} == {1}


def test_a_lost_nodes_job_that_was_to_be_cancelled_is_not_run_again(desk: QueueDesk) -> None:
    desk.add("a1", attempts=9)
    report = desk.register(a_report())
    desk.run(report)
    desk.queue.cancel(names("a1"), grace_s=1)
    desk.end_leases("a1")

    (state,) = desk.queue.requeue_expired().values()
    assert state in {JobState.LOST, JobState.CANCELLED}
    assert isinstance(desk.look(report), NothingToClaim)
    assert desk.job("a1").state == state
    assert desk.left_behind() == set()


def test_a_goodbye_leaves_the_leases_as_they_are(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    ends_ms = desk.lease_ends_ms("a1")
    desk.nodes.leave(report)

    assert desk.lease_ends_ms("a1") == ends_ms
    assert desk.job("a1").state == JobState.RUNNING
    again = desk.register(a_report(session="life-2"))
    assert desk.beat(again, claim).stale == ()
    assert desk.finish(claim) == JobState.FINISHED


def test_a_made_up_token_counts_for_nothing(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a1")])
    report = desk.register(a_report())
    for token in ("", "1", "nil"):
        made_up = Claimed(desk.job("a1"), Token(token))
        assert desk.beat(report, made_up).stale == (token,)
        assert desk.finish(made_up) is None
        assert not desk.queue.started(made_up.job.id, made_up.token, pid=1)
        assert not desk.queue.give_back(made_up.job.id, made_up.token, reason="x")
    assert desk.states("a1") == ["pending"]
    assert isinstance(desk.look(report), Claimed)
