"""Scrapy's thread, its time, and threads beside it: on every Twisted reactor, and without any."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from time import monotonic
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Let it not come; for one that has come already, nothing happens."""


class Clock(Protocol):
    """Scrapy's thread, and the time in it. What is called finds the context variables as they were at the start."""

    def now(self) -> float:
        """Return the time in seconds, of a clock that never goes back."""

    def later(self, delay_s: float, call: Callable[..., object], *args: object) -> Timer:
        """Call a function in this thread after a while. Only this thread may ask for it."""

    def soon(self, call: Callable[..., object], *args: object) -> None:
        """Call a function in this thread soon. Any thread may ask for it; once the process ends nothing is called."""

    def chance(self) -> float:
        """Return a random number from 0 to 1."""

    def start_thread(self, name: str, work: Callable[[], object]) -> None:
        """Do this in a thread of its own, which does not keep the process from ending."""

    def orders(self) -> Orders[Any]:
        """Return a queue through which such a thread is told what to do."""


class Orders(Protocol[T]):
    """What a `queue.SimpleQueue` does."""

    def put(self, order: T, /) -> None:
        """Add an order."""

    def get(self, block: bool = True, timeout: float | None = None) -> T:  # noqa: FBT001, FBT002 - SimpleQueue's
        """Wait for the next one.

        Raises:
            queue.Empty: none came in time.

        """


class Alarm:
    """One call to come, which only ever is brought forward."""

    def __init__(self, clock: Clock, ring: Callable[[], object]) -> None:
        self._clock, self._ring = clock, ring
        self._timer: Timer | None = None
        self._at = 0.0

    def set(self, at: float) -> None:
        """Ring at a time, unless it rings sooner already."""
        if self._timer is None or self._at > at:
            self.cancel()
            self._at = at
            self._timer = self._clock.later(at - self._clock.now(), self._rings)

    def cancel(self) -> None:
        """Do not ring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self._timer = None
        self._ring()


def clock_here() -> Clock:
    """Return the clock of what runs this thread: its asyncio loop, else Twisted's reactor."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from twisted.internet import reactor  # noqa: PLC0415 - where there is none, importing it would install one

        return _ReactorClock(reactor)
    return _LoopClock(loop)


class _Threads:
    """Real threads and the time in them."""

    now = staticmethod(monotonic)
    chance = staticmethod(random.random)

    def start_thread(self, name: str, work: Callable[[], object]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    def orders(self) -> Orders[Any]:
        return SimpleQueue()


class _LoopClock(_Threads):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Else a timer would take the page with it in whose code it was set.
        self._context: Context = copy_context()

    def later(self, delay_s: float, call: Callable[..., object], *args: object) -> Timer:
        return self._loop.call_later(delay_s, call, *args, context=self._context)

    def soon(self, call: Callable[..., object], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(call, *args, context=self._context)


class _ReactorTimer:
    def __init__(self, call: Any) -> None:
        self._call = call

    def cancel(self) -> None:
        if self._call.active():
            self._call.cancel()


class _ReactorClock(_Threads):
    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def later(self, delay_s: float, call: Callable[..., object], *args: object) -> Timer:
        return _ReactorTimer(self._reactor.callLater(delay_s, call, *args))

    def soon(self, call: Callable[..., object], *args: object) -> None:
        self._reactor.callFromThread(call, *args)
