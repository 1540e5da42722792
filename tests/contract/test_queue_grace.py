"""Grace: nobody is declared lost because Redis, or the way to it, was away for all."""

from __future__ import annotations

from datetime import timedelta

from support.queue_desk import SHORT_S, SOON_S, QueueDesk, a_report
from support.redis_server import RedisServer
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import JobId


def test_nobody_is_declared_lost_when_nobody_had_asked(desk: QueueDesk) -> None:
    report = a_report(lease_s=SHORT_S)
    desk.add("a1")
    desk.run(desk.register(report))
    desk.queue.requeue_expired()
    silent_until = desk.store.now() + timedelta(seconds=2 * SHORT_S)
    wait_until(lambda: desk.store.now() > silent_until, deadline_s=SOON_S, what="two leases of silence")

    asked_at = desk.store.now()
    assert desk.queue.requeue_expired() == {}
    assert desk.lose("a1") == {"a1": JobState.PENDING}
    assert desk.store.now() - asked_at >= timedelta(seconds=SHORT_S * 0.9)


def test_nobody_is_declared_lost_by_the_very_first_that_asks(desk: QueueDesk) -> None:
    desk.add("a1")
    desk.run(desk.register(a_report(lease_s=SHORT_S)))
    silent_until = desk.store.now() + timedelta(seconds=2 * SHORT_S)
    wait_until(lambda: desk.store.now() > silent_until, deadline_s=SOON_S, what="two leases of silence")

    assert desk.queue.requeue_expired() == {}
    assert desk.lose("a1") == {"a1": JobState.PENDING}


def test_whoever_renews_within_the_grace_keeps_its_job(desk: QueueDesk) -> None:
    reports = [a_report("back", lease_s=2 * SHORT_S), a_report("gone", lease_s=2 * SHORT_S)]
    desk.add("a1", "a2")
    claims = [desk.run(desk.register(report)) for report in reports]
    desk.redis.hset(desk.keys.clock, "asked_ms", 1)
    until = desk.store.now() + timedelta(seconds=6 * SHORT_S)
    settled: dict[JobId, JobState] = {}

    def three_leases_are_over() -> bool:
        desk.beat(reports[0], claims[0])
        settled.update(desk.queue.requeue_expired())
        # A slow machine may be so late that all have grace anew.
        return desk.store.now() > until and bool(settled)

    wait_until(three_leases_are_over, deadline_s=SOON_S, what="three leases to be over")
    assert settled == {claims[1].job.id: JobState.PENDING}


def test_jobs_survive_a_redis_that_was_away_for_longer_than_a_lease(desk: QueueDesk, redis_server: RedisServer) -> None:
    report = a_report(lease_s=1.0)
    desk.add("a1", "a2")
    claim = desk.run(desk.register(report))
    desk.queue.requeue_expired()
    redis_server.stop()
    redis_server.start()
    # It was away for a minute: all that was noted before is that much older now.
    desk.redis.hincrby(desk.keys.clock, "asked_ms", -60_000)
    desk.redis.zincrby(desk.keys.leases, -60_000, "a1")

    assert desk.queue.requeue_expired() == {}
    assert desk.states("a1", "a2") == ["running", "pending"]
    answer = desk.beat(report, claim)
    assert answer.stale == ()
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.claim(report).job.id == "a2"
