"""Calls to the frontier that outlast an absence of Redis: made again and again until they are answered, and said once.

Runs in Scrapy's thread; one call is under way at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from toolkit.model.errors import CrawlctlError, StoreUnreachableError, StoreUnreadableError
from toolkit.spider.clock import Clock, Timer
from toolkit.spider.courier import Call, Courier, Outcome

_SAY_AGAIN_S = 30.0
_FIRST_RETRY_S = 0.1
_LAST_RETRY_S = 2.0

logger = logging.getLogger(__name__)


class Calls:
    """Carries one call after the other; `count` adds to a statistic."""

    def __init__(self, courier: Courier, clock: Clock, count: Callable[[str], object]) -> None:
        self.is_busy = False
        """A call is under way, or waits to be made again."""
        self._courier, self._clock, self._count = courier, clock, count
        self._away_since: float | None = None
        self._said_at = 0.0
        self._retry_s = _FIRST_RETRY_S
        self._timer: Timer | None = None
        self._is_closed = False

    def away_s(self) -> float:
        """Return for how long Redis has been away; 0 when it answered last."""
        return 0.0 if self._away_since is None else self._clock.now() - self._away_since

    def silent_s(self) -> float:
        """Return how long ago Redis last took a sign of life of this worker."""
        return self._courier.silent_s()

    def make(
        self,
        call: Callable[[], Call],
        then: Callable[[Any, float], object],
        failed: Callable[[Exception], object],
        *,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Make the call that `call` returns, anew each time; `then` gets its result and how many seconds it took.

        While Redis is away it is made again, as long as it `is_wanted`; `failed` gets any other error, or that one, or
        what `then` raised.
        """
        self.is_busy = True
        self._timer = None

        def answered(outcome: Outcome) -> None:
            if self._is_closed:
                return
            error = outcome.error
            if error is None:
                self.is_busy = False
                self._heard()
                try:
                    then(outcome.result, outcome.took_s)
                except Exception as mistake:  # noqa: BLE001 - else the worker would live on mute, and keep its lease
                    failed(mistake)
            elif _is_away(error) and is_wanted():
                self._missed(error)
                self._timer = self._clock.later(
                    self._pause_s(), partial(self.make, call, then, failed, is_wanted=is_wanted)
                )
            else:
                self.is_busy = False
                failed(error)

        self._courier.send(call(), answered)

    def keep(self, token: int | None) -> None:
        """Keep the lease under this token alive while no call is made; `None`: no lease."""
        self._courier.keep(token)

    def close(self) -> None:
        """Make no more calls, and hear of none."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._courier.close()

    def _pause_s(self) -> float:
        # By chance, so that not all workers come at once.
        pause_s = self._retry_s * (0.5 + self._clock.chance() / 2)
        self._retry_s = min(self._retry_s * 1.6, _LAST_RETRY_S)
        return pause_s

    def _missed(self, error: Exception) -> None:
        now = self._clock.now()
        self._count("frontier/unreachable")
        if self._away_since is None:
            self._away_since = now
            logger.warning("The frontier waits for Redis: %s", error)
        elif now - self._said_at < _SAY_AGAIN_S:
            return
        else:
            logger.warning("The frontier has waited for Redis for %.0f s: %s", now - self._away_since, error)
        self._said_at = now

    def _heard(self) -> None:
        if self._away_since is not None:
            logger.info("Redis answers again, after %.1f s", self.away_s())
        self._away_since = None
        self._retry_s = _FIRST_RETRY_S


def told(error: Exception) -> str:
    """Return an error as one line, with its hint."""
    if isinstance(error, CrawlctlError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return f"{type(error).__name__}: {error}"


def _is_away(error: Exception) -> bool:
    return isinstance(error, StoreUnreachableError) and not isinstance(error, StoreUnreadableError)
