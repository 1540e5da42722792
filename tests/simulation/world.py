"""Simulated time: events in order, tasks that wait in it, and what a seed decides.

One history is one world. Everything happens in one thread: an event runs to its end, or, as a task (a greenlet),
until it waits. Each event belongs to something that can be frozen or gone; then it waits, or never comes.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

import greenlet  # type: ignore[import-untyped]

BEGIN_S = 1_800_000_000.0


class Owner:
    """Something that events happen to. Frozen, it finds them all waiting when it thaws; gone, it never sees them."""

    def __init__(self, name: str, parent: Owner | None = None) -> None:
        self.name = name
        self.parent = parent
        self.is_gone = False
        self._is_frozen = False
        self._missed: list[Callable[[], None]] = []

    @property
    def is_dead(self) -> bool:
        """It, or what it is part of, is gone."""
        return self.is_gone or (self.parent is not None and self.parent.is_dead)

    def holder(self) -> Owner | None:
        """Return what is frozen: itself, or what it is part of."""
        if self._is_frozen:
            return self
        return None if self.parent is None else self.parent.holder()

    def freeze(self) -> None:
        """Let nothing happen until `thaw`."""
        self._is_frozen = True

    def miss(self, event: Callable[[], None]) -> None:
        """Keep what would have happened for the thaw."""
        self._missed.append(event)

    def thaw(self, world: World) -> None:
        """Let all that was missed happen now, in its order."""
        self._is_frozen = False
        missed, self._missed = self._missed, []
        for event in missed:
            world.at(world.now, self, event)


class Timer:
    """An event to come, as Twisted's reactor and asyncio's loop name it."""

    def __init__(self, due: float, call: Callable[[], object]) -> None:
        self.due = due
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None

    def active(self) -> bool:
        return self.call is not None

    def getTime(self) -> float:  # noqa: N802 - Twisted's name
        return self.due


class Waiting:
    """What a task waits for: something, once, unless the time is over before."""

    def __init__(self) -> None:
        self.value: Any = None
        self.is_set = False
        self.wake: Callable[[], None] | None = None

    def set(self, value: Any = None) -> None:
        """Give it; a second time changes nothing."""
        if not self.is_set:
            self.is_set, self.value = True, value
            if self.wake is not None:
                self.wake()


class World:
    """The events of one history. `say` gets a line for each that is worth telling."""

    def __init__(self, seed: int, *, say: Callable[[str], None] | None = None) -> None:
        self.now = BEGIN_S
        self.steps = 0
        self.seed = seed
        self._say = say
        self._events: list[tuple[float, int, Owner, Timer]] = []
        self._count = 0
        self._hub = greenlet.getcurrent()
        self._tasks: set[Any] = set()

    def random(self, what: str) -> random.Random:
        """Return a source of chance of its own: what one thing draws changes nothing for another."""
        return random.Random(f"{self.seed} {what}")  # noqa: S311 - must be the same again, protects nothing

    def say(self, line: str, *values: object) -> None:
        """Tell what happens."""
        if self._say is not None:
            self._say(f"{self.now - BEGIN_S:8.3f} {line.format(*values)}")

    def at(self, time: float, owner: Owner, call: Callable[[], object]) -> Timer:
        """Let something happen at a time."""
        timer = Timer(time, call)
        self._count += 1
        heapq.heappush(self._events, (max(time, self.now), self._count, owner, timer))
        return timer

    def after(self, delay_s: float, owner: Owner, call: Callable[[], object]) -> Timer:
        """Let something happen after a while."""
        return self.at(self.now + max(0.0, delay_s), owner, call)

    def task(self, owner: Owner, work: Callable[[], object]) -> None:
        """Do something that waits in between, beginning now."""
        self.after(0.0, owner, lambda: self._begin(owner, work))

    def sleep(self, seconds: float) -> None:
        """Let time pass, in a task."""
        self.wait(Waiting(), seconds)

    def wait(self, waiting: Waiting, timeout_s: float) -> bool:
        """Wait in a task until it is set, or for so long; tell whether it was set."""
        task = greenlet.getcurrent()
        owner: Owner = task.owner
        is_over = False

        def go_on() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                timer.cancel()
                self._switch(task)

        timer = self.after(timeout_s, owner, go_on)
        if waiting.is_set:
            self.after(0.0, owner, go_on)
        else:
            waiting.wake = lambda: _ignore(self.after(0.0, owner, go_on))
        self._hub.switch()
        return waiting.is_set

    def run(self, until: float, *, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Let events happen until a time, or until `is_over`, asked now and then; tell whether it was."""
        asked = self.now
        while self._events and self._events[0][0] <= until:
            due, _, owner, timer = heapq.heappop(self._events)
            self.now = max(self.now, due)
            call, timer.call = timer.call, None
            if call is not None:
                self._happen(owner, call)
            if self.now - asked >= 1.0:
                asked = self.now
                if is_over():
                    return True
        self.now = max(self.now, until)
        return is_over()

    def end(self) -> None:
        """Forget all that was to come, and unwind what waits."""
        self._events.clear()
        for task in list(self._tasks):
            task.throw(greenlet.GreenletExit)

    def _happen(self, owner: Owner, call: Callable[[], object]) -> None:
        if owner.is_dead:
            return
        holder = owner.holder()
        if holder is not None:
            holder.miss(lambda: self._happen(owner, call))
            return
        self.steps += 1
        call()

    def _begin(self, owner: Owner, work: Callable[[], object]) -> None:
        task = greenlet.greenlet(work)
        task.owner = owner
        self._tasks.add(task)
        self._switch(task)

    def _switch(self, task: Any) -> None:
        task.switch()
        if task.dead:
            self._tasks.discard(task)


def _ignore(_: object) -> None:
    """Take what a callback returns."""
