"""Repeated calls on whatever Scrapy runs on: a Twisted reactor of any kind, or asyncio alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Repeating(Protocol):
    """What Scrapy's and Twisted's repeated calls have in common."""

    @property
    def running(self) -> bool:
        """Whether it has been started and not stopped."""

    def start(self, interval: float, now: bool = True) -> Any:  # noqa: FBT001, FBT002 - theirs
        """Call every so many seconds, the first time at once or after one interval."""

    def stop(self) -> None:
        """Call no more."""


def repeating(function: Callable[[], None]) -> Repeating:
    """Return the repeated call of a function, not started yet."""
    try:
        from scrapy.utils.asyncio import create_looping_call  # noqa: PLC0415
    except ImportError:  # Scrapy before 2.14 always has a reactor.
        from twisted.internet.task import LoopingCall  # noqa: PLC0415

        return LoopingCall(function)
    return create_looping_call(function)
