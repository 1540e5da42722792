"""Scrapyd's reactor, which must not be asked for at import: that would install one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def reactor() -> Any:
    """Return Scrapyd's reactor."""
    from twisted.internet import reactor as installed  # noqa: PLC0415 - see above

    return installed


def later(seconds: float, work: Callable[..., object], *args: object) -> Any:
    """Call this on the reactor's thread after so many seconds; the answer can be cancelled."""
    return reactor().callLater(seconds, work, *args)
