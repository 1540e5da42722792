"""Calls functions later in Scrapy's thread, also from another one: on every Twisted reactor, and without any."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context, copy_context
from time import monotonic
from typing import Any, Protocol


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


class _LoopClock:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Else a timer would take the page with it in whose code it was set.
        self._context: Context = copy_context()
        self.now = monotonic

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


class _ReactorClock:
    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.now = monotonic

    def later(self, delay_s: float, call: Callable[..., object], *args: object) -> Timer:
        return _ReactorTimer(self._reactor.callLater(delay_s, call, *args))

    def soon(self, call: Callable[..., object], *args: object) -> None:
        self._reactor.callFromThread(call, *args)
