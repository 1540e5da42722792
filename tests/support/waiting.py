"""Waiting on a condition with a deadline, so that no test sleeps a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


FIRST_PAUSE_S = 0.02
LAST_PAUSE_S = 0.1


def wait_until(condition: Callable[[], T | None], *, deadline_s: float, what: str, pause_s: float | None = None) -> T:
    """Return the condition's first truthy value, asked for every `pause_s` seconds.

    Without `pause_s` it is asked for often at first, and then less: what is waited for needs the processor too.

    Raises:
        AssertionError: it was not truthy within `deadline_s` seconds; the message says what was waited for, and the
            last value.

    """
    began = time.monotonic()
    ends_at = began + deadline_s
    while True:
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now >= ends_at:
            raise AssertionError(f"waited {deadline_s:g} s in vain for {what}; last value: {value!r}")
        time.sleep(pause_after(now - began) if pause_s is None else pause_s)


def pause_after(waited_s: float) -> float:
    """Return the seconds until the next look: about a twentieth of what was waited so far."""
    return min(LAST_PAUSE_S, max(FIRST_PAUSE_S, waited_s / 20))
