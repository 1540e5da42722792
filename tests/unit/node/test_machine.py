"""A clock that somebody sets stops no timer of a node."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.selectreactor import SelectReactor

from toolkit.node.machine import Machine


class Aside(Machine):
    """This machine, with a reactor that is not installed."""

    def __init__(self) -> None:
        super().__init__()
        self._own = SelectReactor()
        self.passed_s = 0.0

    @property
    def reactor(self) -> Any:
        return self._own

    def monotonic(self) -> float:
        return self.passed_s


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_timers_go_by_the_time_that_passed(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    machine = Aside()
    wall_s = 1_800_000_000.0
    monkeypatch.setattr(machine.reactor, "seconds", lambda: wall_s)
    rung: list[str] = []
    machine.later(1.0, rung.append, "set before")
    machine.keep_time()
    machine.later(2.0, rung.append, "set after")
    assert machine.reactor.seconds() == wall_s

    wall_s += step_s
    machine.reactor.runUntilCurrent()
    assert rung == []
    machine.passed_s = 1.5
    machine.reactor.runUntilCurrent()
    assert rung == ["set before"]
    machine.passed_s = 2.5
    machine.reactor.runUntilCurrent()
    assert rung == ["set before", "set after"]
