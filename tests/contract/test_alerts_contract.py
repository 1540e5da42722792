"""What the store promises about alerts (`AlertStore` in `toolkit/store/interfaces_alerts.py`), on a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest
from support.queue_desk import SOON_S
from support.waiting import wait_until

from toolkit.model.alerts import (
    Alerts,
    Failed,
    HeldEvent,
    InQuiet,
    MailTls,
    Progressed,
    Quiet,
    Rule,
    RuleKind,
    Severity,
    Sink,
    SinkKind,
    SinkLease,
)
from toolkit.model.events import Event, EventKind
from toolkit.model.hosts import Secret
from toolkit.store.interfaces import Shared
from toolkit.store.open import open_store

HOOK = Sink("hook", SinkKind.WEBHOOK, url=Secret("https://hooks.example/T0P"), secret=Secret("s3cret"), ca="PEM\nPEM")
MAIL = Sink(
    *("mail", SinkKind.EMAIL),
    server="mail.example",
    port=465,
    tls=MailTls.IMPLICIT,
    username="crawl",
    password=Secret("hunter2"),
    sender="crawl@example",
    recipients=("ann@example", "bob@example"),
)
FAILURES = Rule("failures", ("hook",), events=("job.*",), project="shop", severity=Severity.CRITICAL, every_s=60)
SLOW = Rule(
    *("slow", ("hook", "mail"), RuleKind.PROGRESS),
    within_s=900,
    quiet=Quiet(time(22), time(7), "Europe/Berlin"),
    in_quiet=InQuiet.DROP,
)
ALERTS = Alerts({"hook": HOOK, "mail": MAIL}, {"failures": FAILURES, "slow": SLOW})
TERM_S = 60.0


@pytest.fixture
def shared(redis_url: str, tmp_path: Path) -> Iterator[Shared]:
    store = open_store(Secret(redis_url), tmp_path)
    assert store.shared is not None
    yield store.shared
    store.close()


def failed(subject: str = "j1") -> Event:
    return Event(EventKind.JOB_FAILED, subject, {"project": "shop", "spider": "books"})


def leased(shared: Shared, sink: str = "hook", *, term_s: float = TERM_S) -> SinkLease:
    lease = shared.alerts.take([sink], holder="node-1", term_s=term_s)
    assert lease is not None
    return lease


def test_rules_and_sinks_come_back_as_they_were_put(shared: Shared) -> None:
    assert shared.alerts.read() == Alerts()
    assert shared.alerts.revision() == 0
    assert shared.alerts.put(ALERTS, by="ann@desk") == 1
    found = shared.alerts.read()
    assert (found.sinks, found.rules) == (ALERTS.sinks, ALERTS.rules)
    assert (found.revision, found.by) == (1, "ann@desk")
    assert shared.alerts.put(ALERTS, by="bob@desk") == shared.alerts.revision() == 2


def test_a_sink_has_one_teller_at_a_time_and_an_old_one_changes_nothing(shared: Shared) -> None:
    shared.alerts.put(ALERTS, by="ann")
    first = leased(shared)
    assert shared.alerts.take(["hook"], holder="node-2", term_s=TERM_S) is None
    assert shared.alerts.renew(first, term_s=0.2) is not None
    second = wait_until(
        lambda: shared.alerts.take(["hook"], holder="node-2", term_s=TERM_S), deadline_s=SOON_S, what="the lease"
    )
    assert second.token > first.token
    assert shared.alerts.advance(first, Progressed(cursor="9-9"), term_s=TERM_S) is None
    assert shared.alerts.renew(first, term_s=TERM_S) is None
    renewed = shared.alerts.renew(second, term_s=TERM_S)
    assert renewed is not None
    assert renewed.cursor == second.cursor != "9-9"
    assert shared.alerts.states(["hook"])["hook"].by == "node-2"
    shared.alerts.give_back(second)
    assert shared.alerts.states(["hook"])["hook"].by is None
    assert leased(shared).token > second.token


def test_a_new_sink_begins_with_what_comes_after_it_and_a_gone_one_is_forgotten(shared: Shared) -> None:
    shared.events.note(failed("before"))
    shared.alerts.put(replace(ALERTS, sinks={"hook": HOOK}), by="ann")
    shared.events.note(failed("after"))
    cursor = leased(shared).cursor
    assert [event.subject for event in shared.alerts.news(cursor, wait_s=0.01)[1]] == ["after"]
    shared.alerts.put(Alerts(), by="ann")
    shared.alerts.put(replace(ALERTS, sinks={"hook": HOOK}), by="ann")
    assert shared.alerts.news(leased(shared).cursor, wait_s=0.01)[1] == ()


def test_a_teller_that_learned_late_that_a_sink_is_gone_leaves_no_cursor_behind(shared: Shared) -> None:
    shared.alerts.put(replace(ALERTS, sinks={"hook": HOOK}), by="ann")
    lease = leased(shared)
    shared.alerts.put(Alerts(), by="ann")
    assert shared.alerts.renew(lease, term_s=TERM_S) is None
    assert shared.alerts.take(["hook"], holder="node-2", term_s=TERM_S) is None
    shared.events.note(failed("while it was not there"))
    shared.alerts.put(replace(ALERTS, sinks={"hook": HOOK}), by="ann")
    assert shared.alerts.news(leased(shared).cursor, wait_s=0.01)[1] == ()


def test_news_wait_for_a_first_event_and_say_how_far_was_looked(shared: Shared) -> None:
    newest = shared.events.newest()
    assert shared.alerts.news(newest, wait_s=0.01) == (newest, ())
    first, second = shared.events.note(failed("a")), shared.events.note(failed("b"))
    looked, events = shared.alerts.news(newest, wait_s=5.0)
    assert (looked, [event.id for event in events]) == (second, [first, second])


def test_a_step_is_noted_whole(shared: Shared) -> None:
    shared.alerts.put(ALERTS, by="ann")
    event = replace(failed(), id=shared.events.note(failed()))
    lease = leased(shared)
    held = HeldEvent(event, "slow", lease.now + timedelta(hours=1))
    step = Progressed(cursor=event.id, hold=[held], told=["failures"], tries=2, pause_s=30, error="HTTP 500")
    lease = shared.alerts.advance(lease, step, term_s=TERM_S) or pytest.fail("the lease is ours")
    assert (lease.cursor, lease.tries, lease.told) == (event.id, 2, {"failures": lease.now})
    assert lease.not_before is not None
    assert lease.not_before - lease.now == timedelta(seconds=30)
    (waiting,) = lease.held
    assert (waiting.event.subject, waiting.event.about, waiting.rule) == ("j1", event.about, "slow")
    assert abs(waiting.due - held.due) < timedelta(milliseconds=1)
    assert shared.alerts.states(["hook"])["hook"].error == "HTTP 500"
    shared.alerts.hurry(["hook"])
    lease = shared.alerts.renew(lease, term_s=TERM_S) or pytest.fail("the lease is ours")
    assert (lease.tries, lease.not_before) == (2, datetime.fromtimestamp(0, UTC))
    given_up = Failed("hook", "main/1-1", "j1", ("failures",), "HTTP 500", count=3)
    step = Progressed(drop=lease.held, failed=[given_up], is_delivered=True, tries=0)
    lease = shared.alerts.advance(lease, step, term_s=TERM_S) or pytest.fail("the lease is ours")
    assert (lease.cursor, lease.held) == (event.id, ())
    state = shared.alerts.states(["hook"])["hook"]
    assert (state.delivered, state.error, state.held, state.tries) == (1, None, 0, 0)
    (told,) = shared.alerts.failed()
    assert replace(told, at=None) == given_up


def test_a_silence_ends_by_itself_or_when_taken_back(shared: Shared) -> None:
    shared.alerts.put(ALERTS, by="ann")
    shared.alerts.silence("slow", for_s=3600, by="ann@desk")
    shared.alerts.silence("failures", for_s=-5, by="ann@desk")
    assert [(each.rule, each.by) for each in shared.alerts.silences()] == [("slow", "ann@desk")]
    assert leased(shared).silences["slow"] > shared.alerts.silences()[0].until - timedelta(seconds=1)
    assert shared.alerts.unsilence("slow")
    assert not shared.alerts.unsilence("slow")
    assert shared.alerts.silences() == ()
