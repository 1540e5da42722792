"""When a node takes its turns at the duties: as usual, as a turn wishes, or soon, and never twice at a time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.hand_machine import HandMachine
from twisted.internet.defer import Deferred

from toolkit.model.errors import StoreUnreachableError, StoreUnreadableError
from toolkit.node import housekeeping as module
from toolkit.node.housekeeping import Housekeeping
from toolkit.node.turns import Pace, Turn

USUAL_S = 10.0


class Desk:
    """One duty on a clock of the test's own; `answers` are the turns under way."""

    def __init__(self) -> None:
        machine = HandMachine()
        self.clock = machine.clock
        self.answers: list[Deferred[Any]] = []
        self.paces: list[Pace] = []
        member: Any = SimpleNamespace(settings=SimpleNamespace(lease_s=15.0), tend=self._tend, machine=machine)
        duty = Turn("look", self._usual_s, lambda _: None)
        self.housekeeping = Housekeeping(member, duties=[duty])
        self.housekeeping.live_nodes = 3
        self.housekeeping.startService()

    def _usual_s(self, pace: Pace) -> float:
        self.paces.append(pace)
        return USUAL_S

    def _tend(self, _: Callable[..., object]) -> Deferred[Any]:
        self.answers.append(Deferred())
        return self.answers[-1]

    def pass_s(self, seconds: float) -> int:
        """Let time pass; return how many turns were taken by now."""
        self.clock.advance(seconds)
        return len(self.answers)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_turn_follows_another_after_the_usual_wait_once_it_is_over(desk: Desk) -> None:
    assert desk.pass_s(USUAL_S - 1) == 0
    assert desk.pass_s(1) == 1
    assert desk.pass_s(USUAL_S * 5) == 1
    desk.answers[0].callback(None)
    assert desk.pass_s(USUAL_S) == len(desk.answers) == len(desk.paces) == 2
    assert desk.paces[0] == Pace(3, 15.0, 0.5)


def test_a_turn_may_say_when_it_wants_the_next(desk: Desk) -> None:
    desk.pass_s(USUAL_S)
    desk.answers[0].callback(0.25)
    assert desk.pass_s(0.25) == 2


def test_a_turn_that_fails_is_followed_by_the_next(desk: Desk) -> None:
    desk.pass_s(USUAL_S)
    desk.answers[0].errback(StoreUnreachableError("away"))
    assert desk.pass_s(USUAL_S) == 2


def test_why_turns_fail_is_said_once_and_a_redis_that_is_away_is_left_to_the_heartbeat(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(module, "_log", SimpleNamespace(warn=lambda _, **fields: said.append(fields["why"])))
    unreadable = StoreUnreadableError("of a newer crawlctl")
    for error in (StoreUnreachableError("away"), unreadable, unreadable, None, unreadable):
        desk.pass_s(USUAL_S)
        desk.answers[-1].callback(None) if error is None else desk.answers[-1].errback(error)
    assert said == ["of a newer crawlctl"] * 2


def test_no_turn_is_taken_while_redis_is_away(desk: Desk) -> None:
    desk.housekeeping.live_nodes = 0
    assert desk.pass_s(USUAL_S * 3) == 0
    desk.housekeeping.live_nodes = 1
    assert desk.pass_s(USUAL_S) == 1


def test_a_turn_that_is_wanted_soon_is_taken_soon_and_after_the_one_under_way(desk: Desk) -> None:
    desk.housekeeping.soon("look", in_s=1)
    assert desk.pass_s(1) == 1
    desk.housekeeping.soon("look")
    assert desk.pass_s(1) == 1
    desk.answers[0].callback(5.0)
    assert desk.pass_s(0) == 2
    desk.answers[1].callback(None)
    desk.housekeeping.soon("look", in_s=99)
    assert desk.pass_s(USUAL_S) == 3
    desk.housekeeping.soon("nobody's")


def test_after_the_end_nothing_is_begun(desk: Desk) -> None:
    desk.housekeeping.stopService()
    assert desk.pass_s(USUAL_S) == 0
