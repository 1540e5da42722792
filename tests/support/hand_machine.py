"""A node's machine whose clock stands still until the test moves it, and whose chance is always the same."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from toolkit.node.machine import Machine

BEGIN_S = 1000.0


class HandMachine(Machine):
    """Both of its clocks are that of `clock`."""

    def __init__(self, *, chance: float = 0.5) -> None:
        super().__init__()
        self.clock = Clock()
        self.clock.advance(BEGIN_S)
        self._chance = chance

    @property
    def reactor(self) -> Any:
        return self.clock

    def time(self) -> float:
        return float(self.clock.seconds())

    def monotonic(self) -> float:
        return float(self.clock.seconds())

    def chance(self) -> float:
        return self._chance

    def soon(self, work: Any, *args: object) -> None:
        work(*args)

    def waits(self) -> list[float]:
        """Return in how many seconds each timer that is set comes."""
        return [call.getTime() - self.clock.seconds() for call in self.clock.calls]
