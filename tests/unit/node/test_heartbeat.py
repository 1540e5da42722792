"""When the next sign of life is given: before the leases are at their end, also when the last one was lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.hand_machine import HandMachine
from support.queue_desk import a_report
from twisted.internet.defer import Deferred, fail, succeed

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.names import JobId, Token
from toolkit.model.nodes import Whereabouts
from toolkit.model.queue import BeatAnswer, Held
from toolkit.node.heartbeat import Heartbeat
from toolkit.node.present import Present
from toolkit.runs.folder import RunFolder

LEASE_S = 15.0
ANSWER_TIMEOUT_S = 5.0
TOKEN = Token("1.1.1.1:node-1:life")
ANSWER = BeatAnswer(now=datetime.now(UTC), is_draining=False, releases=1, live_nodes=1)


def ignore(*_: object) -> None:
    """Do nothing."""


class Desk:
    """A heartbeat whose Redis answers, or does not, as told."""

    def __init__(self, chance: float) -> None:
        self.is_away = False
        self.answer = ANSWER
        self.redis: Any = None
        self.looks_for_eggs = 0
        self.starts_told_again: list[frozenset[Token]] = []
        self.machine = HandMachine(chance=chance)
        self.member = member = SimpleNamespace(
            settings=SimpleNamespace(lease_s=LEASE_S, name="node-1"),
            unready=None,
            is_registered=False,
            returned_ms=None,
            machine=self.machine,
            ask=self._ask,
            report=a_report,
            present=Present("0.0.0.0:6800"),
            when_woken=ignore,
        )
        delivery = SimpleNamespace(taken=list, held=list, retry=ignore, tell_again=ignore)
        launcher = SimpleNamespace(
            processes={0: SimpleNamespace(held=Held(JobId("a"), TOKEN), folder=RunFolder(Path("nowhere")))},
            delivery=delivery,
            departures=SimpleNamespace(retry=ignore),
            **dict.fromkeys(("touch", "drop", "heed", "readmit"), ignore),
            tell_starts=lambda again: self.starts_told_again.append(frozenset(again)),
        )
        poller = SimpleNamespace(look=ignore, poll=ignore, doubt=ignore)
        parts: Any = {"launcher": launcher, "poller": poller, "look_for_eggs": self._look_for_eggs}
        self.heartbeat = Heartbeat(member, **parts)  # type: ignore[arg-type]

    def _ask(self, work: Callable[[Any], BeatAnswer]) -> Deferred[BeatAnswer]:
        if self.redis is not None:
            return succeed(work(self.redis))
        return fail(StoreUnreachableError("away")) if self.is_away else succeed(self.answer)

    def _look_for_eggs(self) -> None:
        self.looks_for_eggs += 1

    def next_in_s(self) -> float:
        (wait_s,) = self.machine.waits()
        return wait_s


def test_what_a_redis_that_came_back_may_have_forgotten_is_told_and_asked_for_again() -> None:
    desk = Desk(0.5)
    desk.heartbeat.beat()
    desk.heartbeat.beat()
    assert (desk.looks_for_eggs, desk.starts_told_again) == (0, [frozenset(), frozenset()])

    # A release of the time that is forgotten and one since may have the same number.
    desk.answer = replace(ANSWER, returned_ms=1_000)
    desk.heartbeat.beat()
    assert (desk.looks_for_eggs, desk.starts_told_again[-1]) == (1, frozenset({TOKEN}))

    desk.heartbeat.beat()
    assert (desk.looks_for_eggs, desk.starts_told_again[-1]) == (1, frozenset())


def test_starts_are_told_again_when_an_answer_was_lost() -> None:
    desk = Desk(0.5)
    desk.heartbeat.beat()
    desk.is_away = True
    desk.heartbeat.beat()
    desk.is_away = False
    desk.heartbeat.beat()
    desk.heartbeat.beat()
    assert desk.starts_told_again == [frozenset(), frozenset({TOKEN}), frozenset()]


def test_what_was_taken_up_is_heard_also_when_the_machine_has_a_new_address_by_then() -> None:
    desk = Desk(0.5)
    desk.heartbeat.beat()
    old, new = Whereabouts("10.0.0.1", "1.1.1.1"), Whereabouts("10.0.0.1", "2.2.2.2")
    # The sign of life goes over a connection that is made for it.
    seen = iter([old, old, new])
    answers = iter([replace(ANSWER, taken_up=(TOKEN,)), replace(ANSWER, live_nodes=2)])
    nodes = SimpleNamespace(whereabouts=lambda: next(seen), beat=lambda *_, **__: next(answers))
    desk.member.present.learn(SimpleNamespace(nodes=nodes))
    desk.redis = SimpleNamespace(nodes=nodes)
    desk.heartbeat.beat()
    assert desk.starts_told_again[-1] == frozenset({TOKEN})
    assert list(answers) == []


def test_redis_is_told_of_the_last_return_that_the_node_has_heard_of() -> None:
    desk, told = Desk(0.5), []
    heartbeat: Any = desk.heartbeat
    heartbeat._launcher.processes = {}
    heartbeat._member.present = SimpleNamespace(of=lambda report: report, learn=ignore)

    def beat(*_: object, returned_ms: int | None, **__: object) -> BeatAnswer:
        told.append(returned_ms)
        return ANSWER

    for returned_ms in (0, 1_000):
        heartbeat._question()[1](SimpleNamespace(nodes=SimpleNamespace(beat=beat)))
        desk.answer = replace(ANSWER, returned_ms=returned_ms)
        heartbeat.beat()
    heartbeat._question()[1](SimpleNamespace(nodes=SimpleNamespace(beat=beat)))
    assert told == [None, 0, 1_000]


CHANCES = pytest.mark.parametrize("chance", [0.0, 0.25, 0.5, 1.0])


@CHANCES
def test_three_signs_of_life_are_given_within_a_lease(chance: float) -> None:
    desk = Desk(chance)
    desk.heartbeat.beat()
    assert LEASE_S / 4 < desk.next_in_s() <= LEASE_S / 3


@CHANCES
def test_a_sign_of_life_that_was_lost_is_soon_given_again(chance: float) -> None:
    desk = Desk(chance)
    desk.heartbeat.beat()
    before = desk.next_in_s()
    desk.is_away = True
    desk.heartbeat.beat()
    # So long may the next answer take, after one that never came, before the lease ends.
    left_s = LEASE_S - before - ANSWER_TIMEOUT_S - desk.next_in_s()
    assert left_s > 0.6 * ANSWER_TIMEOUT_S
