"""The records of queued jobs among all others: listed, kept, dropped; and no key outlives what it was for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, names
from support.stores import BEGIN, V1, a_job

from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobFilter, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.queue import Cap, Ending, Progress
from toolkit.store.connect import RedisDoor
from toolkit.store.redis_store import RedisStore

DAY_S = 86_400


def run_to_the_end(desk: QueueDesk, *job_ids: str, spider: str = "books") -> None:
    """Let these jobs finish, one after the other."""
    desk.add(*job_ids, spider=spider)
    report = desk.register(a_report())
    for _ in job_ids:
        desk.finish(desk.run(report))


def test_queued_and_stock_jobs_are_listed_together(desk: QueueDesk) -> None:
    desk.store.jobs.add([a_job("stock-1", minutes=-1), a_job("stock-2", state=JobState.FINISHED, minutes=1)])
    run_to_the_end(desk, "done")
    desk.add("waiting")

    found = desk.store.jobs.recent(JobFilter(), limit=10)
    assert [job.id for job in found][::3] == ["stock-2", "stock-1"]
    assert {job.id for job in found} == {"stock-1", "stock-2", "done", "waiting"}
    assert [job.is_queued for job in found] == [job.id in {"done", "waiting"} for job in found]
    finished = desk.store.jobs.recent(JobFilter(states=frozenset({JobState.FINISHED})), limit=10)
    assert [job.id for job in finished] == ["stock-2", "done"]
    assert {job.id for job in desk.store.jobs.unfinished()} == {"stock-1", "waiting"}


def test_the_states_of_running_jobs_are_found_by_a_filter(desk: QueueDesk) -> None:
    desk.add("a", "b")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.beat(report, claim, progress=Progress(JobState.PAUSED))
    paused = desk.store.jobs.recent(JobFilter(states=frozenset({JobState.PAUSED})), limit=10)
    assert [job.id for job in paused] == ["a"]


def test_a_stock_update_cannot_change_a_queued_job(desk: QueueDesk) -> None:
    desk.add("a1")
    before = desk.job("a1")
    desk.store.jobs.update([replace(before, state=JobState.FINISHED, line=None)])
    assert desk.job("a1") == before
    claim = desk.run(desk.register(a_report()))
    desk.store.jobs.update([replace(desk.job("a1"), state=JobState.LOST)])
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_the_oldest_beyond_a_number_are_dropped(desk: QueueDesk) -> None:
    run_to_the_end(desk, "a", "b", "c")
    desk.add("waiting")
    desk.run(desk.register(a_report()))
    desk.add("pending")

    assert desk.queue.drop_old(max_age_s=1e9, max_jobs=3) == 0
    assert desk.queue.drop_old(max_age_s=1e9, max_jobs=1) == 2
    assert desk.queue.drop_old(max_age_s=1e9, max_jobs=1) == 0
    assert desk.queue.drop_old(max_age_s=1e9, max_jobs=0) == 1
    assert desk.store.jobs.get_many(names("a", "b", "c")) == {}
    assert desk.states("waiting", "pending") == ["running", "pending"]
    assert desk.queue.counts()["ended"] == 0


def test_jobs_beyond_an_age_are_dropped_and_younger_ones_stay(desk: QueueDesk) -> None:
    now = desk.store.now()
    old = replace(a_job("old", state=JobState.FINISHED), scheduled_at=now - timedelta(days=40))
    old = replace(old, ended_at=now - timedelta(days=39))
    young = replace(old, id=JobId("young"), scheduled_at=now - timedelta(days=2), ended_at=now - timedelta(days=1))
    desk.store.jobs.add([old, young])
    desk.queue.add([replace(a_pending_job("new"), scheduled_at=now)])
    desk.finish(desk.run(desk.register(a_report())))

    assert desk.queue.drop_old(max_age_s=30 * DAY_S, max_jobs=1000) == 1
    assert set(desk.store.jobs.get_many(names("old", "young", "new"))) == {"young", "new"}


def test_a_job_that_has_just_ended_is_not_dropped_because_it_was_scheduled_long_ago(desk: QueueDesk) -> None:
    long_ago = desk.store.now() - timedelta(days=400)
    desk.queue.add([replace(a_pending_job("a1"), scheduled_at=long_ago)])
    desk.finish(desk.run(desk.register(a_report())))

    desk.queue.drop_old(max_age_s=30 * DAY_S, max_jobs=1000)
    assert desk.states("a1") == ["finished"]


def test_a_thousand_are_dropped_a_call(desk: QueueDesk) -> None:
    jobs = [
        replace(a_job(f"j{number:04}", state=JobState.FINISHED), scheduled_at=BEGIN - timedelta(days=9000))
        for number in range(1200)
    ]
    desk.store.jobs.add(jobs)
    assert desk.queue.drop_old(max_age_s=DAY_S, max_jobs=10_000) == 1000
    assert desk.queue.drop_old(max_age_s=DAY_S, max_jobs=10_000) == 200


def test_a_dropped_job_leaves_nothing_and_its_id_is_free_again(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a1", attempts=1)])
    claim = desk.run(desk.register(a_report()))
    desk.finish(claim, an_ending(JobState.LOST))
    assert desk.queue.drop_old(max_age_s=1e9, max_jobs=0) == 1

    keys = desk.keys
    assert (
        desk.redis.exists(keys.jobs, keys.orders, keys.final_jobs, keys.job_ids, keys.unfinished_jobs, keys.lost) == 0
    )
    assert desk.queue.retry(names("a1")) == frozenset()
    desk.add("a1")
    assert desk.claim(desk.register(a_report())).job.id == "a1"


def test_scheduling_on_a_stock_node_leaves_the_history_to_the_plug_in_nodes(desk: QueueDesk, redis_url: str) -> None:
    run_to_the_end(desk, "a", "b")
    small = RedisStore(RedisDoor(Secret(redis_url)), max_jobs=1)
    try:
        small.jobs.add([a_job("stock", state=JobState.FINISHED, minutes=60)])
    finally:
        small.close()
    assert set(desk.store.jobs.get_many(names("a", "b", "stock"))) == {"a", "b", "stock"}


def test_stock_jobs_push_out_old_ones_in_steps(desk: QueueDesk, redis_url: str) -> None:
    ended = [a_job(f"j{number:04}", state=JobState.FINISHED, minutes=number) for number in range(1200)]
    desk.store.jobs.add(ended)
    small = RedisStore(RedisDoor(Secret(redis_url)), max_jobs=1)
    try:
        for left in (201, 1):
            small.jobs.add([a_job(f"stock-{left}", minutes=2000)])
            assert desk.redis.zcard(desk.keys.final_jobs) == max(left - 1, 1)
    finally:
        small.close()


def test_stock_jobs_that_push_out_old_ones_leave_no_orders_behind(desk: QueueDesk, redis_url: str) -> None:
    run_to_the_end(desk, "a", "b")
    desk.redis.delete(desk.keys.beats)
    small = RedisStore(RedisDoor(Secret(redis_url)), max_jobs=1)
    try:
        small.jobs.add([a_job("stock", state=JobState.FINISHED, minutes=60)])
    finally:
        small.close()
    assert set(desk.store.jobs.get_many(names("a", "b", "stock"))) == {"stock"}
    assert desk.redis.hlen(desk.keys.orders) == 0


def test_no_key_outlives_what_it_was_for(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(a_job("x").project, cluster=50, per_node=50))
    soon = desk.store.now() + timedelta(seconds=0.05)
    jobs = [a_pending_job(f"j{number:02}", spider=f"spider {number % 3}", attempts=3) for number in range(20)]
    desk.queue.add([replace(job, retries_failed=True) for job in jobs])
    desk.queue.add([a_pending_job("held", is_held=True), a_pending_job("late", due_at=soon)])
    desk.queue.add([a_pending_job("picked", on=["node-1", "node-7"]), a_pending_job("late-2", due_at=soon)])
    desk.queue.move(names("j01", "j02", "held"), [NodeName("node-1")])
    desk.queue.reprioritise(names("j03", "held", "late"), 2)
    report = desk.register(a_report(slots=100))
    turn = 0
    while pending := [job for job in desk.store.jobs.unfinished() if job.state == JobState.PENDING]:
        turn += 1
        assert turn < 200
        desk.queue.release([pending[0].id])
        claim = desk.claim(report)
        desk.queue.pause(claim.job.id, is_paused=True)
        desk.queue.tune(claim.job.id, concurrency=turn, delay_s=1)
        match turn % 8:
            case 0:
                desk.queue.give_back(claim.job.id, claim.token, reason="no memory")
            case 1:
                desk.queue.started(claim.job.id, claim.token, pid=1)
                desk.beat(report, claim, progress=Progress(JobState.RUNNING, pages=turn))
                desk.finish(claim, an_ending(JobState.FAILED))
            case 2:
                desk.beat(report, claim, progress=Progress(JobState.RUNNING, pages=turn))
                desk.end_leases(claim.job.id)
                desk.queue.requeue_expired()
            case 3:
                desk.queue.cancel([claim.job.id], grace_s=1)
                desk.finish(claim, an_ending(JobState.FAILED))
            case 4:
                desk.queue.cancel([claim.job.id], grace_s=1)
                desk.end_leases(claim.job.id)
                desk.queue.requeue_expired()
            case 5:
                desk.queue.cancel([claim.job.id], grace_s=1)
                desk.queue.reconcile(report, [])
            case 6:
                desk.queue.cancel([pending[0].id], grace_s=1)
                desk.queue.retry([pending[0].id])
                desk.finish(claim)
            case _:
                desk.finish(claim)

    assert all(job.state.is_final for job in desk.store.jobs.recent(JobFilter(), limit=100))
    assert len(desk.store.jobs.recent(JobFilter(), limit=100)) == 24
    assert desk.left_behind() == set()
    assert {line.version for line in desk.queue.lines()} <= {V1}
    assert list(desk.queue.lines()) == []


def test_a_cluster_with_stock_nodes_too_counts_what_it_forgets(desk: QueueDesk, redis_url: str) -> None:
    desk.add("a", attempts=1)
    claim = desk.run(desk.register(a_report()))
    desk.finish(claim, Ending(JobState.LOST, "its node was lost"))
    assert (desk.queue.counts()["ended"], desk.queue.counts()["lost_day"]) == (1, 1)

    desk.redis.delete(desk.keys.beats)
    small = RedisStore(RedisDoor(Secret(redis_url)), cluster=desk.keys.cluster, max_jobs=1)
    sent = a_job("sent", state=JobState.FINISHED, minutes=60)
    small.jobs.add([sent])
    small.close()
    assert {job.id for job in desk.store.jobs.recent(JobFilter(), limit=9)} == {"sent"}
    assert (desk.queue.counts()["ended"], desk.queue.counts()["lost_day"]) == (0, 0)
