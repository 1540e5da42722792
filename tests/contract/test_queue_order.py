"""What the shared queue promises about adding and claiming: nothing twice, nothing lost, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, names
from support.stores import NEWS, V1, V2, a_job, a_lock

from toolkit.model.errors import ConflictError, CrawlctlError, UsageError
from toolkit.model.jobs import MAX_PRIORITY, Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.queue import NothingToClaim, line_name
from toolkit.store import redis_queue

MEGABYTE = 1_000_000


def as_queued(job: Job) -> Job:
    """Return the job as the queue shows it: in its line, begun by nobody yet, its times to the millisecond."""
    assert job.version is not None
    assert job.scheduled_at is not None
    line = line_name(job.project, job.version, job.spider, None)
    scheduled_at = job.scheduled_at.replace(microsecond=job.scheduled_at.microsecond // 1000 * 1000)
    return replace(job, line=line, attempt=0, scheduled_at=scheduled_at)


def test_an_added_job_comes_back_as_it_was(desk: QueueDesk) -> None:
    job = replace(a_pending_job("a1", priority=1.5, args={"city": "Zürich 北京", "q": 'a "b" \\ \n'}), timeout_s=90.5)
    desk.queue.add([job])

    assert desk.job("a1") == as_queued(job)
    assert desk.store.jobs.get_many(names("a1")) == {"a1": as_queued(job)}
    assert desk.store.jobs.matching("a") == (as_queued(job),)
    assert desk.store.jobs.unfinished() == (as_queued(job),)
    assert desk.store.jobs.recent(JobFilter(), limit=5) == (as_queued(job),)


def test_a_job_that_ran_still_shows_what_was_asked_of_it(desk: QueueDesk) -> None:
    job = a_pending_job("a1", priority=0.1 + 0.2, args={"city": "Zürich"})
    desk.queue.add([job])
    pending = desk.job("a1")
    desk.finish(desk.run(desk.register(a_report())))

    found = desk.job("a1")
    assert (found.args, found.settings, found.scheduled_by) == (job.args, job.settings, job.scheduled_by)
    assert found.priority == pending.priority == 0.3
    assert found.scheduled_at == pending.scheduled_at


def test_a_claimed_job_is_the_nodes_under_a_token(desk: QueueDesk) -> None:
    job = a_pending_job("a1", args={"city": "Zürich"})
    desk.queue.add([job])
    claim = desk.claim(desk.register(a_report()))

    assert claim.job.id == "a1"
    assert claim.job.args == {"city": "Zürich"}
    assert claim.job.settings == {"LOG_LEVEL": "INFO"}
    assert (claim.job.state, claim.job.node, claim.job.attempt) == (JobState.STARTING, "node-1", 1)
    assert claim.job.token == claim.token
    assert desk.job("a1") == claim.job


def test_a_job_is_given_once(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    desk.claim(report)

    assert desk.look(report) == NothingToClaim()
    assert desk.look(desk.register(a_report("node-2"))) == NothingToClaim()
    line = desk.job("a1").line
    assert line is not None
    assert desk.queue.claim(report, [line], running=0) == NothingToClaim()


def test_the_higher_priority_goes_first_then_the_older(desk: QueueDesk) -> None:
    priorities = {"a": 0, "b": 2.5, "c": -1, "d": 2.5, "e": 2.25, "f": -0.5, "g": 0, "h": 1000, "i": -1000}
    desk.queue.add([a_pending_job(name, priority=priority) for name, priority in priorities.items()])

    assert desk.take_all(desk.register(a_report())) == ["h", "b", "d", "e", "a", "g", "f", "c", "i"]


def test_the_order_holds_across_projects_spiders_and_calls(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a", spider="prices"), a_pending_job("b", project=NEWS)])
    desk.queue.add([a_pending_job("c"), a_pending_job("d", project=NEWS, priority=1)])
    desk.queue.add([a_pending_job("e", spider="prices")])
    report = desk.register(a_report(versions={a_job("x").project: (V1,), NEWS: (V1,)}))

    assert desk.take_all(report) == ["d", "a", "b", "c", "e"]


@pytest.mark.parametrize("priority", [MAX_PRIORITY, -MAX_PRIORITY, 0.1, -999.999])
def test_age_decides_at_every_priority(desk: QueueDesk, priority: float) -> None:
    job_ids = [f"j{number:03}" for number in range(60)]
    for job_id in job_ids:
        desk.add(job_id, priority=priority)

    assert desk.take_all(desk.register(a_report())) == job_ids


def test_priorities_a_thousandth_apart_are_kept_apart_when_many_jobs_went_before(desk: QueueDesk) -> None:
    desk.redis.hset(desk.keys.clock, "seq", 900_000_000)
    desk.add("low", priority=0.001)
    desk.redis.hincrby(desk.keys.clock, "seq", 900_000)
    desk.add("high", priority=0.002)

    assert desk.take_all(desk.register(a_report())) == ["high", "low"]


@pytest.mark.parametrize("priority", [1 / 3, 1e-4, 1000.001, float("nan")])
def test_a_priority_that_could_not_be_kept_apart_is_refused(desk: QueueDesk, priority: float) -> None:
    with pytest.raises(UsageError, match=r"too fine|out of range"):
        desk.add("a1", priority=priority)
    desk.add("a2")
    with pytest.raises(UsageError, match=r"too fine|out of range"):
        desk.queue.reprioritise(names("a2"), priority)
    assert desk.job("a2").priority == 0
    assert desk.states("a2") == ["pending"]


def test_priorities_count_more_than_age_across_a_rollout(desk: QueueDesk) -> None:
    desk.add("low", "middle", priority=-1)
    desk.queue.reprioritise(names("middle"), 0)
    desk.store.releases.unlock(a_lock(desk.store))
    desk.add("high", priority=1)
    assert desk.take_all(desk.register(a_report())) == ["high", "middle", "low"]


def test_what_is_done_to_many_jobs_is_done_to_some_at_a_time(desk: QueueDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_queue, "MAX_JOBS_A_CALL", 2)
    ids = names("a", "b", "c", "d", "e")
    for job_id in ids:
        desk.add(job_id)
    desk.queue.hold(ids)
    before = desk.redis.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert desk.queue.hold([*ids, ids[0]]) == set(ids)
    assert desk.redis.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 3
    assert desk.queue.cancel(ids, grace_s=1) == dict.fromkeys(ids, JobState.PENDING)
    assert desk.queue.retry(ids) == set(ids)
    assert desk.queue.cancel([], grace_s=1) == {}


def test_only_the_lines_that_are_named_are_looked_at(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("old", version=V2), a_pending_job("new")])
    report = desk.register(a_report())

    assert {(line.version, line.spider) for line in desk.queue.lines()} == {(V1, "books"), (V2, "books")}
    assert desk.take_all(report) == ["new"]
    assert desk.queue.claim(report, [], running=0) == NothingToClaim()
    assert desk.states("old") == ["pending"]


def test_a_line_that_nobody_knows_gives_nothing(desk: QueueDesk) -> None:
    desk.add("a1")
    line = line_name(NEWS, V1, a_job("x").spider, None)
    assert desk.queue.claim(desk.register(a_report()), [line], running=0) == NothingToClaim()


@pytest.mark.parametrize("spider", ["bücher", "with space", 'quo"ted', "a@node-1", "emoji 🕷", "back\\slash", "a:b,c"])
def test_a_spider_of_any_name_is_claimed(desk: QueueDesk, spider: str) -> None:
    desk.add("a1", spider=spider)

    assert [line.spider for line in desk.queue.lines()] == [spider]
    claim = desk.claim(desk.register(a_report()))
    assert claim.job.spider == spider
    assert desk.queue.busy(claim.job.project, claim.job.spider) == 1
    assert desk.finish(claim) == JobState.FINISHED
    assert desk.left_behind() == set()


def test_only_the_picked_nodes_see_a_job(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a1", on=["node-2", "node-3"]), a_pending_job("a2", on=["node-3", "node-2"])])
    (line,) = desk.queue.lines()

    assert line.on == frozenset({NodeName("node-2"), NodeName("node-3")})
    assert desk.job("a1").on is not None
    assert set(desk.job("a1").on or ()) == {"node-2", "node-3"}
    assert isinstance(desk.look(desk.register(a_report())), NothingToClaim)
    assert desk.claim(desk.register(a_report("node-2"))).job.id == "a1"
    assert desk.claim(desk.register(a_report("node-3"))).job.id == "a2"


def test_a_thousand_jobs_are_added_in_one_call(desk: QueueDesk) -> None:
    job_ids = [f"j{number:04}" for number in range(1000)]
    desk.add(*job_ids)

    assert desk.queue.counts()["pending"] == 1000
    assert desk.queue.position(JobId("j0999")) == 999
    assert desk.claim(desk.register(a_report())).job.id == "j0000"


def test_arguments_of_a_megabyte_come_to_the_node(desk: QueueDesk) -> None:
    args = {"page": "ä" * (MEGABYTE // 2)}
    desk.queue.add([a_pending_job("big", args=args)])
    claim = desk.claim(desk.register(a_report()))

    assert claim.job.args == args
    desk.finish(claim)
    assert desk.job("big").args == args


def test_jobs_are_added_all_or_none(desk: QueueDesk) -> None:
    desk.add("b")

    with pytest.raises(ConflictError, match="b"):
        desk.add("a", "b", "c")
    with pytest.raises(CrawlctlError, match="d"):
        desk.add("d", "d")
    assert desk.queue.counts()["pending"] == 1
    assert desk.take_all(desk.register(a_report())) == ["b"]


def test_an_id_that_a_stock_node_has_is_known(desk: QueueDesk) -> None:
    desk.store.jobs.add([a_job("a1")])

    with pytest.raises(ConflictError, match="a1"):
        desk.add("a1")
    desk.add("a2")
    with pytest.raises(ConflictError, match="a2"):
        desk.store.jobs.add([a_job("a2")])


def test_an_id_stays_known_when_its_job_has_ended(desk: QueueDesk) -> None:
    desk.add("a1")
    desk.finish(desk.claim(desk.register(a_report())))
    with pytest.raises(ConflictError, match="a1"):
        desk.add("a1")


def test_nothing_is_a_fine_number_of_jobs(desk: QueueDesk) -> None:
    desk.queue.add([])
    assert desk.queue.lines() in ([], ())
    assert not desk.queue.cancel([], grace_s=1)
    assert desk.queue.retry([]) == frozenset()
    assert desk.queue.hold([]) == frozenset()


def test_positions_count_the_jobs_of_all_lines(desk: QueueDesk) -> None:
    desk.queue.add(
        [
            a_pending_job("a"),
            a_pending_job("b", spider="prices"),
            a_pending_job("c", priority=1),
            a_pending_job("held", priority=9, is_held=True),
            a_pending_job("late", priority=9, due_at=desk.store.now() + timedelta(hours=1)),
        ]
    )
    assert [desk.queue.position(JobId(name)) for name in "cab"] == [0, 1, 2]
    assert [desk.queue.position(JobId(name)) for name in ("held", "late", "missing")] == [None, None, None]

    claim = desk.claim(desk.register(a_report()))
    assert [desk.queue.position(JobId(name)) for name in "cab"] == [None, 0, 1]
    desk.finish(claim)
    assert desk.queue.position(JobId("c")) is None


def test_counts_tell_where_the_jobs_are(desk: QueueDesk) -> None:
    assert desk.queue.counts() == {"pending": 0, "held": 0, "delayed": 0, "active": 0, "ended": 0, "lost_day": 0}

    desk.add("a", "b", "c")
    desk.queue.add([a_pending_job("held", is_held=True)])
    desk.queue.add([a_pending_job("late", due_at=desk.store.now() + timedelta(hours=1))])
    report = desk.register(a_report())
    desk.finish(desk.claim(report))
    desk.run(report)

    assert desk.queue.counts() == {"pending": 3, "held": 1, "delayed": 1, "active": 1, "ended": 1, "lost_day": 0}
    desk.end_leases("b")
    desk.queue.cancel(names("b"), grace_s=1)
    desk.queue.requeue_expired()
    assert desk.queue.counts()["lost_day"] == (desk.states("b") == ["lost"])


def test_scripts_that_the_server_forgot_are_sent_again(desk: QueueDesk) -> None:
    desk.add("a1")
    desk.redis.script_flush()
    claim = desk.claim(desk.register(a_report()))
    desk.redis.script_flush()
    assert desk.queue.started(claim.job.id, claim.token, pid=1)
    desk.redis.script_flush()
    assert desk.queue.finish(claim.job.id, claim.token, an_ending()) == JobState.FINISHED
