"""Calls outlast an absence of Redis, and no mistake in dealing with an answer leaves a worker mute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from toolkit.model.errors import RefusedError, StoreUnreachableError
from toolkit.spider.calls import Calls
from toolkit.spider.clock import Clock
from toolkit.spider.courier import Call, Courier, Outcome
from toolkit.store.interfaces_crawls import Frontier


class Timers:
    """A clock that stands still; whoever is to be called later is called by `pass_time`."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def later(self, delay_s: float, call: Callable[[], object]) -> Callable[[], object]:
        self.at += delay_s
        self.waiting.append(call)
        return call

    def chance(self) -> float:
        return 0.5

    def pass_time(self) -> None:
        self.waiting.pop(0)()


class Answers:
    """A courier that brings prepared outcomes, one a call."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)

    def send(self, _: Call, then: Callable[[Outcome], object]) -> None:
        then(self.outcomes.pop(0))


def make(
    answers: Answers, clock: Timers, then: Callable[[Any, float], object], failed: Callable[[Exception], object]
) -> Calls:
    calls = Calls(cast("Courier", answers), cast("Clock", clock), lambda _: None)

    def nothing(_: Frontier) -> None:
        return None

    calls.make(lambda: nothing, then, failed)
    return calls


def test_a_call_is_made_again_until_redis_answers(caplog: pytest.LogCaptureFixture) -> None:
    away = Outcome(error=StoreUnreachableError("nobody there"))
    clock, heard = Timers(), []
    calls = make(Answers(away, away, Outcome("answer")), clock, lambda result, _: heard.append(result), heard.append)
    assert calls.away_s() >= 0
    assert calls.is_busy
    clock.pass_time()
    clock.pass_time()
    assert heard == ["answer"]
    assert not calls.is_busy
    assert calls.away_s() == 0
    assert caplog.text.count("waits for Redis") == 1


def test_an_error_that_waiting_does_not_mend_is_told_at_once() -> None:
    told: list[object] = []
    make(
        Answers(Outcome(error=RefusedError("not yours"))), Timers(), lambda result, _: told.append(result), told.append
    )
    assert [str(each) for each in told] == ["not yours"]


def test_a_mistake_in_dealing_with_an_answer_ends_the_worker_instead_of_leaving_it_mute() -> None:
    told: list[Exception] = []

    def stumble(*_: object) -> None:
        raise ZeroDivisionError

    make(Answers(Outcome("answer")), Timers(), stumble, told.append)
    assert [type(each) for each in told] == [ZeroDivisionError]
