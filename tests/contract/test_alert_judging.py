"""Thresholds fire once and are over once, whoever judges, on a real Redis; and the job is paused or cancelled."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from support.crawl_desk import CrawlDesk, a_plan
from support.queue_desk import SOON_S, QueueDesk, a_report, an_ending, queue_desk
from support.redis_server import RedisServer
from support.waiting import wait_until

from toolkit.cluster.alerts import overview
from toolkit.duties.judge import judge
from toolkit.model.alerts import Action, Alerts, HeldEvent, Progressed, Rule, RuleKind, Sink, SinkKind
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.events import Event, EventKind
from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobState
from toolkit.model.names import default_crawl
from toolkit.model.queue import Claimed, Ending, Progress
from toolkit.store.acl import Role, users_of

ERRORS = Rule("errors", (), RuleKind.ERRORS, threshold=10, within_s=2.0, do=Action.PAUSE)
IDLE = Rule("idle", (), RuleKind.PROGRESS, within_s=0.2, spider="b*", do=Action.CANCEL)
FEW = Rule("few", (), RuleKind.ITEMS, threshold=0.5, of_last=3)
WAITING = Rule("waiting", (), RuleKind.WAITING, within_s=0.1, spider="books")


def rules(desk: QueueDesk, *wanted: Rule) -> None:
    desk.shared.alerts.put(Alerts({}, {rule.name: rule for rule in wanted}), by="ann")


def judged(desk: QueueDesk) -> int:
    """Judge as the next node would, some seconds later."""
    desk.redis.delete(desk.keys.duty("judge"))
    return judge(desk.store, desk.shared)


def told(desk: QueueDesk) -> list[tuple[str, str]]:
    """Return what was told of alerts, oldest first."""
    alerts = (EventKind.ALERT_FIRING, EventKind.ALERT_OVER)
    return [(each.kind.value, each.subject) for each in desk.shared.events.after("0-0") if each.kind in alerts]


def says(
    desk: QueueDesk,
    claim: Claimed,
    *,
    pages: int = 0,
    items: int = 0,
    errors: int = 0,
    state: JobState = JobState.RUNNING,
) -> None:
    """Let a job's spider tell how far it is, and a node sample it."""
    progress = Progress(state=state, pages=pages, items=items, errors=errors)
    desk.beat(a_report(), claim, progress=progress)
    turn = wait_until(lambda: desk.shared.samples.begin(every_s=0.02), deadline_s=SOON_S, what="a turn of sampling")
    desk.shared.samples.sample_jobs(turn)


@pytest.fixture
def claim(desk: QueueDesk) -> Claimed:
    desk.register(a_report())
    desk.add("j1")
    return desk.run(a_report())


def test_too_many_errors_pause_the_job_and_are_told_once(desk: QueueDesk, claim: Claimed) -> None:
    rules(desk, ERRORS)
    says(desk, claim, errors=0)
    assert judged(desk) == 0
    counted = 0

    def fires() -> bool:
        # They go on: on a slow machine a look may see but the last ones.
        nonlocal counted
        counted += 100
        says(desk, claim, errors=counted)
        return judged(desk) == 1

    wait_until(fires, deadline_s=SOON_S, what="the rule to fire")
    assert told(desk) == [("alert.firing", "errors j1")]
    (event,) = (each for each in desk.shared.events.after("0-0") if each.kind is EventKind.ALERT_FIRING)
    assert event.about["rule"] == "errors"
    assert (event.about["spider"], event.about["node"], event.about["done"]) == ("books", "node-1", "pause")
    assert "errors a minute, more than 10; it shall pause" in event.about["reason"]
    assert desk.beat(a_report(), claim).wishes[claim.token].is_paused
    assert judged(desk) == 0
    # A rule that is gone leaves nothing behind.
    rules(desk, replace(IDLE, within_s=3600.0))
    judged(desk)
    assert [name for name in desk.shared.events.states() if name.startswith("alert:")] == []


def test_a_job_without_progress_is_cancelled_and_its_end_ends_the_alert(desk: QueueDesk, claim: Claimed) -> None:
    rules(desk, IDLE)

    def fires() -> bool:
        says(desk, claim, pages=7)
        return judged(desk) == 1

    wait_until(fires, deadline_s=SOON_S, what="the rule to fire")
    assert desk.job("j1").cancel_requested_at is not None
    assert judged(desk) == 0
    desk.finish(claim, an_ending(JobState.FAILED))
    assert judged(desk) == 1
    assert judged(desk) == 0
    assert told(desk) == [("alert.firing", "idle j1"), ("alert.over", "idle j1")]


def test_a_job_that_was_paused_for_long_is_given_its_time_when_it_goes_on(desk: QueueDesk, claim: Claimed) -> None:
    rules(desk, replace(IDLE, within_s=3.0))
    says(desk, claim, pages=7)
    begin = desk.store.now()

    def is_paused_for_longer_than_the_rule_allows() -> bool:
        says(desk, claim, pages=7, state=JobState.PAUSED)
        assert judged(desk) == 0
        return (desk.store.now() - begin).total_seconds() > 3.5

    wait_until(is_paused_for_longer_than_the_rule_allows, deadline_s=SOON_S, what="a pause")
    says(desk, claim, pages=7)
    assert judged(desk) == 0
    assert desk.job("j1").cancel_requested_at is None

    def fires() -> bool:
        says(desk, claim, pages=7)
        return judged(desk) == 1

    wait_until(fires, deadline_s=SOON_S, what="the rule to fire all the same")
    desk.finish(claim, an_ending(JobState.FAILED))
    judged(desk)
    assert [name for name in desk.shared.events.states() if name.startswith("alert:")] == []


def test_an_alert_of_no_progress_names_the_entry_that_a_worker_has_had_in_hand(
    desk: QueueDesk, claim: Claimed, crawl: CrawlDesk
) -> None:
    name = default_crawl("books", claim.job.args or {})
    worker = crawl.worker("job-1~7:node-1:life", plan=a_plan(name))
    worker.push("https://example.com/")
    entry = worker.take_one().entry.hex()
    rules(desk, replace(IDLE, do=Action.NONE))

    def fires() -> bool:
        says(desk, claim, pages=7)
        return judged(desk) == 1

    wait_until(fires, deadline_s=SOON_S, what="the rule to fire")
    assert f"job job-1 has had entry {entry} in hand" in desk.shared.events.after("0-0")[-1].about["reason"]


def test_a_paused_crawl_lets_its_jobs_make_no_progress(desk: QueueDesk, claim: Claimed, crawl: CrawlDesk) -> None:
    name = default_crawl("books", claim.job.args or {})
    crawl.worker("w1", plan=a_plan(name)).push("https://example.com/")
    crawl.crawls.control(name, is_paused=True)
    rules(desk, IDLE)
    begin = desk.store.now()

    def is_idle_for_longer_than_the_rule_allows() -> bool:
        says(desk, claim, pages=7)
        assert judged(desk) == 0
        return (desk.store.now() - begin).total_seconds() > 0.5

    wait_until(is_idle_for_longer_than_the_rule_allows, deadline_s=SOON_S, what="a pause")
    crawl.crawls.control(name, is_paused=False)

    def fires() -> bool:
        says(desk, claim, pages=7)
        return judged(desk) == 1

    wait_until(fires, deadline_s=SOON_S, what="the rule to fire")


def test_what_ends_while_it_is_paused_leaves_nothing_behind(desk: QueueDesk, claim: Claimed) -> None:
    rules(desk, IDLE)
    says(desk, claim, state=JobState.PAUSED)
    judged(desk)
    assert [state.partition(" ")[0] for state in desk.shared.events.states().values()] == ["paused"]
    desk.finish(claim, an_ending(JobState.FAILED))
    assert judged(desk) == 0
    assert desk.shared.events.states() == {}


def test_a_silent_rule_does_nothing_to_the_job(desk: QueueDesk, claim: Claimed) -> None:
    rules(desk, IDLE)
    desk.shared.alerts.silence("idle", for_s=3600, by="ann")

    def fires() -> bool:
        says(desk, claim, pages=7)
        return judged(desk) == 1

    wait_until(fires, deadline_s=SOON_S, what="the rule to fire")
    assert desk.job("j1").cancel_requested_at is None


def run(desk: QueueDesk, job_id: str, *, items: int) -> None:
    desk.add(job_id)
    progress = Progress(state=JobState.FINISHED, pages=1, items=items, finish_reason="finished")
    desk.finish(desk.run(a_report()), Ending(JobState.FINISHED, "it finished", exit_code=0, progress=progress))
    # Ends are known to the millisecond: on a fast machine the next run would end in the same one.
    next_ms = desk.store.now() + timedelta(milliseconds=2)
    wait_until(lambda: desk.store.now() > next_ms, deadline_s=SOON_S, what="the next millisecond", pause_s=0.001)


def test_a_run_with_few_items_fires_until_one_is_as_usual(desk: QueueDesk) -> None:
    desk.register(a_report())
    rules(desk, FEW)
    run(desk, "before the rule was judged at all", items=0)
    judged(desk)
    for number, items in enumerate((100, 110, 90, 60, 40, 30, 100)):
        run(desk, f"run {number}", items=items)
    assert judged(desk) == 2
    assert told(desk) == [("alert.firing", "few shop/books"), ("alert.over", "few shop/books")]
    (event, _) = (each for each in desk.shared.events.after("0-0") if each.kind.value.startswith("alert."))
    assert event.about["job"] == "run 4"
    assert event.about["reason"] == "40 items, of the last runs' 90 less than 50%"
    assert judged(desk) == 0


def test_a_job_that_nobody_takes_fires_until_it_is_taken(desk: QueueDesk) -> None:
    desk.register(a_report())
    rules(desk, WAITING, replace(WAITING, name="others", spider="prices"))
    desk.add("j1")
    wait_until(lambda: judged(desk) == 1, deadline_s=SOON_S, what="the rule to fire")
    desk.run(a_report())
    assert judged(desk) == 1
    assert told(desk) == [("alert.firing", "waiting queue"), ("alert.over", "waiting queue")]


def test_one_node_in_a_while_judges_and_none_where_there_are_no_alerts(desk: QueueDesk) -> None:
    assert judge(desk.store, desk.shared) == 0
    assert desk.redis.exists(desk.keys.duty("judge")) == 0
    rules(desk, WAITING)
    judge(desk.store, desk.shared)
    assert desk.redis.exists(desk.keys.duty("judge")) == 1


def test_a_node_with_its_own_rights_judges_and_tells_and_a_spider_reads_nothing(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    redis_server.flush()
    users = {user.role: user for user in users_of("main")}
    urls = {role: f"redis://{user.name}:hunter2@127.0.0.1:{redis_server.port}/0" for role, user in users.items()}
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as admin:
        for user in users.values():
            admin.execute_command("ACL", "SETUSER", user.name, *user.rules(), ">hunter2")
        admin.execute_command("ACL", "LOG", "RESET")
        with queue_desk(urls[Role.OPERATOR], tmp_path) as operator, queue_desk(urls[Role.NODE], tmp_path) as node:
            sink = Sink("hook", SinkKind.WEBHOOK, url=Secret("https://hooks.example/T0P"))
            threshold_rules = {rule.name: rule for rule in (ERRORS, IDLE, FEW, WAITING)}
            operator.shared.alerts.put(Alerts({"hook": sink}, threshold_rules), by="ann")
            operator.register(a_report())
            operator.add("j1", "j2")
            claim = node.run(a_report())
            judge(node.store, node.shared)
            node.finish(claim)
            lease = node.shared.alerts.take(["hook"], holder="node-1", term_s=60)
            assert lease is not None
            held = HeldEvent(Event(EventKind.NODE_LOST, "n", id="1-1"), "errors", lease.now)
            assert node.shared.alerts.advance(lease, Progressed(hold=[held], told=["errors"], tries=1), term_s=60)
            assert node.shared.alerts.read().sinks["hook"] == sink
            node.shared.alerts.news("0-0", wait_s=0.01)
            node.shared.alerts.give_back(lease)
            assert overview(operator.shared).sinks["hook"].held == 1
            operator.shared.alerts.silence("idle", for_s=60, by="ann")
            assert operator.shared.alerts.unsilence("idle")
            operator.shared.alerts.put(Alerts(), by="ann")
        assert admin.execute_command("ACL", "LOG") == []
        with queue_desk(urls[Role.SPIDER], tmp_path) as spider, pytest.raises(StoreUnreachableError, match="may not"):
            spider.shared.alerts.read()
        for user in users.values():
            admin.execute_command("ACL", "DELUSER", user.name)
