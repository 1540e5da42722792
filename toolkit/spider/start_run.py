"""Runs a spider's `start()` in the one worker of the crawl whose part it is, and knows what came of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

from scrapy import Request
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError

from toolkit.model.crawls import StartRole
from toolkit.spider.exchange import Exchange

Wrap = Callable[[AsyncIterator[Any]], AsyncIterator[Any]]


class StartRun:
    """One worker's part in `start()`; the others wait until it is over, or theirs.

    `again` lets the engine take from the spider's `start()` once more, through what it is given. That is needed where
    the worker whose part it was died after the others had passed, or Redis has forgotten too much of what came.
    """

    def __init__(self, exchange: Exchange, again: Callable[[Wrap], object]) -> None:
        self._exchange, self._again = exchange, again
        self._is_passed = self._is_whole = False
        self._yielded: Request | None = None
        self._once: set[bytes] = set()
        self._repeated: Counter[bytes] = Counter()

    async def run(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Give what `start()` gives, if it is this worker's part, and let the frontier know its end."""
        exchange = self._exchange
        await maybe_deferred_to_future(exchange.wait_for_role())
        if exchange.role is not StartRole.YOURS:
            self._is_passed = True
            return
        self._is_whole = True
        try:
            async for each in start:
                while exchange.room.is_used_up:
                    await maybe_deferred_to_future(exchange.room.wait())
                if isinstance(each, Request):
                    self._yielded = each
                yield each
        except CancelledError:
            # The spider closes: another worker has to run it.
            raise
        except Exception:
            self._end()
            raise
        self._end()

    def heed(self) -> None:
        """Run it again, if that is this worker's part and is not done."""
        if self._is_passed and not self._is_whole and self._exchange.role is StartRole.YOURS:
            self._is_passed = False
            self._again(self.run)

    def lose(self) -> None:
        """Hear that what it has brought may be lost."""
        self._is_whole = False

    def has_yielded(self, request: Request) -> bool:
        """Tell whether the request is the one that `start()` has just yielded; true only once."""
        if request is not self._yielded:
            return False
        self._yielded = None
        return True

    def fingerprint(self, fingerprint: bytes, *, is_filtered: bool) -> bytes:
        """Return the fingerprint under which a request of `start()` is known to the crawl.

        One that is not to be filtered comes as often as it is yielded. When `start()` is run anew, since its worker
        died, each of them is known by its number.
        """
        if is_filtered:
            return fingerprint
        key = fingerprint[:8]
        if key not in self._once:
            self._once.add(key)
            return fingerprint
        self._repeated[key] += 1
        return hashlib.sha1(b"%b %d" % (fingerprint, self._repeated[key]), usedforsecurity=False).digest()

    def _end(self) -> None:
        self._once.clear()
        self._repeated.clear()
        self._is_passed = True
        if self._is_whole:
            self._exchange.outbox.end_start()
        self._exchange.added()


async def nothing(_: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Give nothing in place of what `start()` would give."""
    none: tuple[Any, ...] = ()
    for each in none:
        yield each
