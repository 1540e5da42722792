"""Waiting on a condition with a deadline, so that no test sleeps a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], *, deadline_s: float, what: str, pause_s: float = 0.02) -> T:
    """Return the condition's first truthy value, asked for every `pause_s` seconds.

    Raises:
        AssertionError: it was not truthy within `deadline_s` seconds; the message says what was waited for, and the
            last value.

    """
    ends_at = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= ends_at:
            raise AssertionError(f"waited {deadline_s:g} s in vain for {what}; last value: {value!r}")
        time.sleep(pause_s)
