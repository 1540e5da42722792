"""Redis comes back as it was before: what nodes hold, have told, and were asked for is not lost, nor done twice."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, names

from toolkit.model.errors import NotFoundError
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, Token
from toolkit.model.nodes import NodeReport
from toolkit.model.queue import BeatAnswer, Claimed, Held, NothingToClaim

LEASE_S = 60.0


def told(desk: QueueDesk, report: NodeReport, *ended: Claimed) -> BeatAnswer:
    """Let a node give a sign of life and say which claims it has told the end of."""
    return desk.nodes.beat(report, [], ended=[(claim.job.id, claim.token) for claim in ended])


def stop_waiting_for_others(desk: QueueDesk) -> None:
    """Let half a lease have passed since Redis came back: those who have not spoken are not waited for any more."""
    desk.redis.hincrby(desk.keys.clock, "back_ms", -round(LEASE_S * 1000 / 2) - 1)


def test_a_claim_that_redis_has_forgotten_is_taken_up_under_the_same_token(desk: QueueDesk) -> None:
    desk.add("a1", attempts=1)
    report = desk.register(a_report("node-1"))
    other = desk.register(a_report("node-2"))
    before = desk.dump()
    claim = desk.run(report)
    desk.come_back(before)
    assert desk.states("a1") == ["pending"]

    desk.beat(other)
    assert isinstance(desk.look(other), NothingToClaim)
    answer = desk.beat(report, claim)
    assert (answer.stale, answer.taken_up) == ((), (claim.token,))
    assert desk.queue.started(claim.job.id, claim.token, pid=4711)
    job = desk.job("a1")
    assert (job.state, job.attempt, job.node, job.token) == (JobState.RUNNING, 1, "node-1", claim.token)
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_an_ending_is_heard_of_a_claim_that_redis_has_forgotten(desk: QueueDesk) -> None:
    desk.add("a1", attempts=1)
    report = desk.register(a_report())
    before = desk.dump()
    claim = desk.run(report)
    desk.come_back(before)

    assert desk.finish(claim) == JobState.FINISHED
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_a_job_whose_claim_and_ending_redis_has_forgotten_is_not_begun_again(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    report = desk.register(a_report())
    before = desk.dump()
    claim = desk.run(report)
    desk.finish(claim)
    desk.come_back(before)

    # Not before the node has told: it would take its own job.
    assert desk.look(report) == NothingToClaim(must_beat=True)
    answer = told(desk, report, claim)
    assert answer.unheard == (claim.token,)
    assert isinstance(desk.look(report), NothingToClaim)
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_an_ending_that_redis_has_forgotten_is_asked_for_again(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    before = desk.dump()
    desk.finish(claim)
    desk.come_back(before)

    assert told(desk, report, claim).unheard == (claim.token,)
    assert desk.finish(claim) == JobState.FINISHED


def test_a_job_that_may_be_begun_only_once_more_waits_for_a_lease_and_others_do_not(desk: QueueDesk) -> None:
    desk.add("last", attempts=1)
    desk.add("other", attempts=2)
    report = desk.register(a_report(lease_s=LEASE_S))
    desk.come_back(desk.dump())
    desk.beat(report)

    assert desk.claim(report).job.id == "other"
    answer = desk.look(report)
    assert isinstance(answer, NothingToClaim)
    assert answer.again_s is not None
    assert 0 < answer.again_s <= LEASE_S + 1

    # A lease later no node may still come back with it.
    desk.redis.hincrby(desk.keys.clock, "back_ms", -round(LEASE_S * 1000) - 1)
    assert desk.claim(report).job.id == "last"


def test_a_finished_job_that_redis_has_forgotten_is_not_begun_by_another_node(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    one, other = desk.register(a_report("node-1", lease_s=LEASE_S)), desk.register(a_report("node-2", lease_s=LEASE_S))
    before = desk.dump()
    claim = desk.run(one)
    desk.finish(claim)
    desk.come_back(before)

    desk.beat(other)
    answer = desk.look(other)
    assert isinstance(answer, NothingToClaim)
    assert answer.again_s is not None
    assert 0 < answer.again_s < 1
    told(desk, one, claim)
    desk.finish(claim)
    assert isinstance(desk.look(other), NothingToClaim)
    desk.add("a2")
    assert desk.claim(other).job.id == "a2"


def test_a_node_that_stays_silent_is_not_waited_for_long(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    desk.register(a_report("silent", lease_s=LEASE_S))
    report = desk.register(a_report(lease_s=LEASE_S))
    desk.come_back(desk.dump())
    desk.beat(report)
    assert isinstance(desk.look(report), NothingToClaim)
    stop_waiting_for_others(desk)
    desk.beat(report)
    assert desk.claim(report).job.id == "a1"


def test_a_node_that_was_gone_before_redis_was_is_not_waited_for(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    desk.register(a_report("gone", lease_s=LEASE_S))
    report = desk.register(a_report(lease_s=LEASE_S))
    desk.redis.zincrby(desk.keys.beats, -round(LEASE_S * 1000) - 60_000, "gone")
    desk.come_back(desk.dump())
    desk.beat(report)
    assert desk.claim(report).job.id == "a1"


def test_a_second_attempt_that_would_be_the_last_waits_as_well(desk: QueueDesk) -> None:
    desk.add("a1", attempts=2)
    report = desk.register(a_report())
    desk.run(report)
    desk.end_leases("a1")
    desk.queue.requeue_expired()
    desk.come_back(desk.dump())
    desk.beat(report)
    assert isinstance(desk.look(report), NothingToClaim)


def test_nothing_waits_on_a_server_that_was_there_all_the_time(desk: QueueDesk) -> None:
    desk.add("a1", attempts=1)
    assert desk.claim(desk.register(a_report())).job.id == "a1"


def test_no_lease_is_judged_for_a_full_term_after_redis_came_back(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report(lease_s=LEASE_S))
    desk.run(report)
    desk.end_leases("a1")
    desk.come_back(desk.dump())
    assert desk.queue.requeue_expired() == {}
    assert desk.states("a1") == ["running"]


def test_who_took_a_forgotten_job_first_keeps_it(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    one, other = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    before = desk.dump()
    forgotten = desk.run(one)
    desk.come_back(before)
    desk.beat(other)
    # It has waited for the one, in vain.
    stop_waiting_for_others(desk)
    claim = desk.run(other)

    assert desk.beat(one, forgotten).stale == (forgotten.token,)
    assert desk.finish(forgotten) is None
    assert desk.finish(claim) == JobState.FINISHED


def test_a_claim_that_redis_has_forgotten_wins_over_an_older_one(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    one, other = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    old = desk.run(one)
    before = desk.dump()
    desk.end_leases("a1")
    desk.queue.requeue_expired()
    new = desk.run(other)
    desk.come_back(before)

    assert desk.beat(other, new).taken_up == (new.token,)
    assert desk.beat(one, old).stale == (old.token,)
    assert desk.queue.busy(new.job.project) == 1
    assert desk.finish(new) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_a_retry_that_redis_has_forgotten_goes_on(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    desk.finish(desk.run(report), an_ending(JobState.FAILED))
    before = desk.dump()
    desk.queue.retry(names("a1"))
    claim = desk.run(report)
    desk.come_back(before)
    assert desk.states("a1") == ["failed"]

    assert desk.beat(report, claim).taken_up == (claim.token,)
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.queue.counts()["ended"] == 1
    assert desk.left_behind() == set()


def test_a_job_that_redis_does_not_know_any_more_is_brought_back_by_its_node(desk: QueueDesk) -> None:
    report = desk.register(a_report())
    before = desk.dump()
    desk.add("a1")
    claim = desk.run(report)
    desk.come_back(before)

    answer = desk.beat(report, claim)
    assert (answer.stale, answer.unknown) == ((), (claim.token,))
    with pytest.raises(NotFoundError):
        desk.finish(claim)
    for _ in range(2):
        desk.queue.readmit(claim.job, claim.token)
    job = desk.job("a1")
    assert (job.state, job.attempt, job.token, job.args) == (JobState.STARTING, 1, claim.token, claim.job.args)
    assert desk.beat(report, claim).unknown == ()
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.queue.counts() == {"pending": 0, "held": 0, "delayed": 0, "active": 0, "ended": 1, "lost_day": 0}
    assert desk.left_behind() == set()


def test_a_job_that_is_brought_back_keeps_its_place_and_settings(desk: QueueDesk) -> None:
    report = desk.register(a_report())
    before = desk.dump()
    desk.queue.add([a_pending_job("a1", on=["node-1"], priority=2.5)])
    claim = desk.run(report)
    desk.come_back(before)
    desk.beat(report)
    desk.queue.readmit(claim.job, claim.token)
    assert desk.queue.give_back(claim.job.id, claim.token, reason="no memory")

    job = desk.job("a1")
    assert (job.on, job.priority, job.settings) == (("node-1",), 2.5, claim.job.settings)
    assert isinstance(desk.look(desk.register(a_report("node-2"))), NothingToClaim)
    assert desk.claim(report).job.id == "a1"


def test_a_cancel_that_its_node_has_heard_of_is_not_forgotten(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    report = desk.register(a_report())
    claim = desk.run(report)
    before = desk.dump()
    desk.queue.cancel(names("a1"), grace_s=7)
    desk.come_back(before)

    answer = desk.nodes.beat(report, [Held(claim.job.id, claim.token, cancel_grace_s=7.0)])
    assert answer.wishes[claim.token].cancel_grace_s == 7.0
    assert desk.job("a1").cancel_requested_at is not None
    assert desk.finish(claim, an_ending(finish_reason="shutdown")) == JobState.CANCELLED


def test_a_cancelled_job_is_cancelled_also_where_the_cancel_is_forgotten(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    report = desk.register(a_report())
    claim = desk.run(report)
    before = desk.dump()
    desk.queue.cancel(names("a1"), grace_s=7)
    desk.finish(claim, an_ending(finish_reason="shutdown"))
    desk.come_back(before)

    ending = replace(an_ending(JobState.FAILED, finish_reason="shutdown"), is_cancelled=True)
    assert desk.finish(claim, ending) == JobState.CANCELLED


def test_a_node_that_was_started_anew_in_a_time_that_is_forgotten_is_no_stranger(desk: QueueDesk) -> None:
    desk.register(a_report(session="life-1"))
    before = desk.dump()
    again = desk.register(a_report(session="life-2"))
    desk.come_back(before)
    assert desk.nodes.beat(again, [], was_registered=True).stale == ()


def test_no_job_is_given_of_which_the_node_still_has_a_process(desk: QueueDesk) -> None:
    desk.add("a1", "a2")
    report = desk.register(a_report())
    lines = [line.name for line in desk.queue.lines()]
    has_process = [JobId("a1")]
    claim = desk.queue.claim(report, lines, running=0, has_process=has_process)
    assert isinstance(claim, Claimed)
    assert claim.job.id == "a2"
    assert isinstance(desk.queue.claim(report, lines, running=0, has_process=has_process), NothingToClaim)
    assert desk.claim(report).job.id == "a1"


def test_a_job_behind_many_that_may_not_be_begun_yet_is_found(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job(f"last-{number}", attempts=1) for number in range(60)])
    desk.add("other", attempts=3)
    report = desk.register(a_report())
    desk.come_back(desk.dump())
    desk.beat(report)
    assert desk.claim(report).job.id == "other"


def test_a_claim_reads_few_jobs_however_many_may_not_be_begun_yet(desk: QueueDesk) -> None:
    for line in range(10):
        desk.queue.add([a_pending_job(f"{line}-{n}", spider=f"spider-{line}", attempts=1) for n in range(100)])
    report = desk.register(a_report())
    desk.come_back(desk.dump())
    desk.beat(report)
    desk.redis.config_resetstat()
    assert isinstance(desk.look(report), NothingToClaim)
    # One look at the head of each line, and at 500 jobs behind them; some reads are of other things.
    assert desk.redis.info("commandstats")["cmdstat_hget"]["calls"] < 10 + 600 + 20


def test_a_job_without_a_record_stops_neither_duty_nor_claims(desk: QueueDesk) -> None:
    desk.add("a1", "a2", "a3")
    report = desk.register(a_report())
    gone = desk.run(report)
    desk.redis.hdel(desk.keys.jobs, gone.job.id, "a2")
    desk.end_leases(gone.job.id)

    assert desk.queue.requeue_expired() == {}
    assert desk.claim(report).job.id == "a3"
    assert desk.redis.zcard(desk.keys.leases) == 1


@pytest.mark.parametrize("given_back", [0, 1, 3])
def test_who_took_a_forgotten_job_later_keeps_it_however_often_it_was_claimed_before(
    desk: QueueDesk, given_back: int
) -> None:
    desk.add("a1", attempts=3)
    one, two, three = (desk.register(a_report(f"node-{number}")) for number in (1, 2, 3))
    before = desk.dump()
    for _ in range(given_back):
        claim = desk.claim(one)
        desk.queue.give_back(claim.job.id, claim.token, reason="no replica")
    forgotten = desk.run(two)
    desk.come_back(before)
    desk.beat(three)
    stop_waiting_for_others(desk)
    later = desk.run(three)

    assert desk.beat(two, forgotten).stale == (forgotten.token,)
    assert desk.finish(later) == JobState.FINISHED
    assert desk.beat(two, forgotten).stale == (forgotten.token,)
    assert desk.finish(forgotten) is None
    assert desk.states("a1") == ["finished"]


def test_a_forgotten_claim_after_a_forgotten_loss_is_the_later_one(desk: QueueDesk) -> None:
    desk.add("a1", attempts=5)
    one, two = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    before = desk.dump()
    first = desk.run(one)
    desk.end_leases("a1")
    desk.queue.requeue_expired()
    second = desk.run(two)
    desk.come_back(before)

    assert desk.beat(one, first).taken_up == (first.token,)
    assert desk.beat(two, second).taken_up == (second.token,)
    assert desk.beat(one, first).stale == (first.token,)


def test_a_later_claim_is_known_as_such_also_where_the_clock_is_behind(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    two, three = desk.register(a_report("node-2")), desk.register(a_report("node-3"))
    ahead_ms = 3_600_000
    # The server that is lost ran an hour ahead: it signed so, and saw its nodes then.
    for name in ("node-2", "node-3"):
        desk.redis.zincrby(desk.keys.beats, ahead_ms, name)
    desk.redis.incrby(desk.keys.tokens, int(desk.redis.zscore(desk.keys.beats, "node-2") or 0) + 1000)
    before = desk.dump()
    forgotten = desk.run(two)
    desk.come_back(before)
    desk.beat(three)
    stop_waiting_for_others(desk)
    later = desk.run(three)

    assert desk.beat(two, forgotten).stale == (forgotten.token,)
    assert desk.finish(later) == JobState.FINISHED


def test_a_new_job_under_the_id_of_a_forgotten_one_is_not_that_one(desk: QueueDesk) -> None:
    report = desk.register(a_report())
    before = desk.dump()
    desk.queue.add([a_pending_job("a1", args={"category": "books"})])
    forgotten = desk.run(report)
    desk.come_back(before)
    desk.queue.add([a_pending_job("a1", args={"category": "lamps"})])

    answer = desk.beat(report, forgotten)
    assert (answer.stale, answer.taken_up) == ((forgotten.token,), ())
    assert desk.finish(forgotten) is None
    assert desk.states("a1") == ["pending"]


def test_a_token_of_another_format_breaks_no_heartbeat(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    old = Token("7.1700000000000:node-1:life-1")
    facts = json.loads(str(desk.redis.hget(desk.keys.jobs, "a1")))
    desk.redis.hset(desk.keys.jobs, "a1", json.dumps({**facts, "token": old}))
    desk.redis.hset(desk.keys.owners, "a1", old)
    held = [Held(claim.job.id, old)]
    assert desk.nodes.beat(report, held).stale == ()
    desk.end_leases("a1")
    desk.queue.requeue_expired()
    assert desk.states("a1") == ["pending"]
    assert desk.nodes.beat(report, held).stale == (old,)
    assert desk.claim(report).job.id == "a1"


@pytest.mark.parametrize("state", ["pending", "active under an older claim"])
def test_a_cancel_is_heeded_that_was_accepted_while_the_claim_was_forgotten(desk: QueueDesk, state: str) -> None:
    desk.add("a1", attempts=3)
    one, other = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    if state != "pending":
        desk.run(one)
    before = desk.dump()
    if state != "pending":
        desk.end_leases("a1")
        desk.queue.requeue_expired()
    claim = desk.run(other)
    desk.come_back(before)
    desk.queue.cancel(names("a1"), grace_s=7)

    answer = desk.beat(other, claim)
    assert answer.wishes[claim.token].cancel_grace_s == 7.0
    assert desk.finish(claim, an_ending(JobState.FAILED, finish_reason="shutdown")) == JobState.CANCELLED
    assert desk.left_behind() == set()


def test_a_cancel_from_before_a_forgotten_retry_is_over(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    first = desk.run(report)
    desk.queue.cancel(names("a1"), grace_s=1)
    cancelled_but_not_ended = desk.dump()
    assert desk.finish(first, an_ending(JobState.FAILED, finish_reason="shutdown")) == JobState.CANCELLED
    ended = desk.dump()
    desk.queue.retry(names("a1"))
    claim = desk.run(report)
    for before in (cancelled_but_not_ended, ended):
        desk.come_back(before)
        answer = desk.beat(report, claim)
        assert (answer.taken_up, answer.wishes) == ((claim.token,), {})
        assert desk.job("a1").cancel_requested_at is None
    assert desk.finish(claim, an_ending(finish_reason="closespider_itemcount")) == JobState.FINISHED
