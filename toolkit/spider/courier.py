"""The one thread that speaks with the frontier: it carries one call after the other to Redis, and the answers back.

While Scrapy's thread is busy with a page and asks for nothing, it keeps the worker's lease alive by itself, for ten
minutes at most: a thread that is silent for longer counts as stuck, and what it holds goes to others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty
from typing import Any, NamedTuple

from toolkit.model.errors import CrawlctlError
from toolkit.model.names import WorkerName
from toolkit.spider.clock import Clock, Orders
from toolkit.store.interfaces_crawls import Frontier

MAX_SILENCE_S = 600.0

logger = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """How a call went: what it returned, or what it raised; and how long it took, in seconds."""

    result: Any = None
    error: Exception | None = None
    took_s: float = 0.0


Call = Callable[[Frontier], Any]
Then = Callable[[Outcome], object]


class Courier:
    """Carries calls to a frontier; `then` gets the outcome in the clock's thread. Calls are made in their order."""

    def __init__(self, frontier: Frontier, clock: Clock, *, worker: WorkerName, ttl_s: float) -> None:
        self._frontier = frontier
        self._clock = clock
        self._worker = worker
        self._ttl_s = ttl_s
        self._calls: Orders[tuple[Call, Then] | None] = clock.orders()
        self._token: int | None = None
        self._asked_at = self._spoke_at = clock.now()
        clock.start_thread("frontier", self._run)

    def send(self, call: Call, then: Then) -> None:
        """Make a call as soon as those before it are over."""
        self._asked_at = self._clock.now()
        self._calls.put((call, then))

    def silent_s(self) -> float:
        """Return how long ago Redis last took a sign of life of this worker."""
        return self._clock.now() - self._spoke_at

    def keep(self, token: int | None) -> None:
        """Keep the lease under this token alive while nothing else is asked for; `None`: no lease."""
        self._token = token

    def close(self) -> None:
        """Let go of the frontier once all calls are over, and take no more; returns at once."""
        self.keep(None)
        self._calls.put(None)

    def _run(self) -> None:
        while True:
            try:
                order = self._calls.get(timeout=self._ttl_s / 4)
            except Empty:
                self._renew()
                continue
            if order is None:
                break
            call, then = order
            outcome = self._outcome(call)
            if outcome.error is not None:
                # A Redis that is full refuses what brings more, but takes a sign of life.
                self._renew()
            self._clock.soon(then, outcome)
        try:
            self._frontier.close()
        except CrawlctlError:
            logger.debug("The connection to the frontier did not close well", exc_info=True)

    def _outcome(self, call: Call) -> Outcome:
        begun_at = self._clock.now()
        try:
            result = call(self._frontier)
        except Exception as error:  # noqa: BLE001 - whoever asked decides what it means
            return Outcome(error=error, took_s=self._clock.now() - begun_at)
        # The lease counts from when Redis had the call, which may be long ago: the process may have been frozen since.
        self._spoke_at = begun_at
        return Outcome(result, took_s=self._clock.now() - begun_at)

    def _renew(self) -> None:
        token, now = self._token, self._clock.now()
        if token is None or now - self._asked_at > MAX_SILENCE_S or now - self._spoke_at < self._ttl_s / 4:
            return
        try:
            if self._frontier.renew(self._worker, token, ttl_s=self._ttl_s):
                self._spoke_at = now
        except CrawlctlError:
            logger.debug("The lease could not be renewed", exc_info=True)
