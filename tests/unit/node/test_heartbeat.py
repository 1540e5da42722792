"""When the next sign of life is given: before the leases are at their end, also when the last one was lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from support.hand_machine import HandMachine
from twisted.internet.defer import Deferred, fail, succeed

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.queue import BeatAnswer
from toolkit.node.heartbeat import Heartbeat

LEASE_S = 15.0
ANSWER_TIMEOUT_S = 5.0
ANSWER = BeatAnswer(now=datetime.now(UTC), is_draining=False, releases=1, live_nodes=1)


def ignore(*_: object) -> None:
    """Do nothing."""


class Desk:
    """A heartbeat whose Redis answers, or does not, as told."""

    def __init__(self, chance: float) -> None:
        self.is_away = False
        self.machine = HandMachine(chance=chance)
        member = SimpleNamespace(
            settings=SimpleNamespace(lease_s=LEASE_S, name="node-1"),
            unready=None,
            is_registered=False,
            machine=self.machine,
            ask=self._ask,
            report=lambda: None,
            when_woken=ignore,
        )
        delivery = SimpleNamespace(taken=list, held=list, retry=ignore, tell_again=ignore)
        launcher = SimpleNamespace(
            processes={}, delivery=delivery, touch=ignore, drop=ignore, heed=ignore, tell_starts=ignore
        )
        poller = SimpleNamespace(look=ignore, poll=ignore)
        parts: Any = {"launcher": launcher, "poller": poller, "look_for_eggs": ignore}
        self.heartbeat = Heartbeat(member, **parts)  # type: ignore[arg-type]

    def _ask(self, _: Callable[[Any], BeatAnswer]) -> Deferred[BeatAnswer]:
        return fail(StoreUnreachableError("away")) if self.is_away else succeed(ANSWER)

    def next_in_s(self) -> float:
        (wait_s,) = self.machine.waits()
        return wait_s


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
