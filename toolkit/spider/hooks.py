"""The only module that touches Scrapy's private parts: where a page begins and ends, and what belongs to it.

Scrapy has no public sign that it has finished with a request. Each place is looked for before any is changed, so that
a Scrapy that has one no more is refused with its name, and nothing is lost silently.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from inspect import iscoroutinefunction, signature
from typing import Any

import scrapy
from pydispatch.dispatcher import getAllReceivers, liveReceivers  # type: ignore[import-untyped]
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from toolkit.model.errors import ConfigurationError
from toolkit.spider.leases import PAGE, Lease, Leases

_UNLIMITED = 100
"""So many requests at once count as what Scrapy takes when it is told no limit."""


class _InProgress(set[Request]):
    """The engine's set of what it works on: a request is removed when all that it caused has settled."""

    def __init__(self, requests: set[Request], ended: Callable[[Request], None]) -> None:
        super().__init__(requests)
        self._ended = ended

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._ended(request)


class Hooks:
    """The engine of one crawl, as far as the frontier needs it.

    Raises:
        ConfigurationError: this Scrapy lacks one of the places.

    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        engine: Any = crawler.engine
        self._engine = engine
        self._slot: Any = getattr(engine, "_slot", None) or getattr(engine, "slot", None)
        self._scraper: Any = getattr(engine, "scraper", None)
        self._downloader: Any = getattr(engine, "downloader", None)
        for owner, name, place in (
            (self._slot, "inprogress", "the engine's slot"),
            (self._slot, "nextcall", "the engine's slot"),
            (self._slot, "closing", "the engine's slot"),
            (self._slot, "close", "the engine's slot"),
            (engine, "_start", "the engine"),
            (engine, "_process_start_next", "the engine"),
            (engine, "_download", "the engine"),
            (engine, "_handle_downloader_output", "the engine"),
            (self._scraper, "spidermw", "the scraper"),
            (self._scraper, "_scrape", "the scraper"),
            (self._scraper, "_process_spidermw_output", "the scraper"),
        ):
            if not hasattr(owner, name):
                raise ConfigurationError(
                    f"Scrapy {scrapy.__version__} cannot be used with the frontier: {place} has no {name}",
                    hint="pip install 'scrapy>=2.13,<2.20', which is known to work",
                )
        self._pages: dict[int, Lease | None] = {}
        self._held: set[Deferred[None]] = set()
        self._is_told_to_close = False

    @property
    def is_closing(self) -> bool:
        """The spider takes no new requests, and ends when those under way have ended."""
        return self._slot.closing is not None

    @property
    def is_paused(self) -> bool:
        """Somebody holds the engine."""
        return bool(self._engine.paused)

    def free(self) -> int:
        """Return how many more requests the engine would take now."""
        scraper_slot = self._scraper.slot
        if scraper_slot is not None and scraper_slot.needs_backout():
            return 0
        total = getattr(self._downloader, "total_concurrency", _UNLIMITED) or _UNLIMITED
        active = getattr(self._downloader, "active", self._slot.inprogress)
        return max(0, total - len(active))

    def wake(self) -> None:
        """Let the engine ask for requests, or find that there are none any more."""
        if self._slot.closing is None:
            self._slot.nextcall.schedule()

    def crawl(self, request: Request) -> None:
        """Let the engine schedule a request as if the spider had yielded it."""
        self._engine.crawl(request)

    def close_spider(self, reason: str) -> None:
        """Begin to close the spider."""
        if self._slot.closing is not None:
            return
        if hasattr(self._engine, "close_spider_async"):
            deferred_from_coro(self._engine.close_spider_async(reason=reason))
        else:
            self._engine.close_spider(self._crawler.spider, reason)

    def has_listeners(self, signal: object) -> bool:
        """Tell whether anybody wants to hear of a signal."""
        sender = self._crawler.signals.sender
        return next(iter(liveReceivers(getAllReceivers(sender, signal))), None) is not None

    def report_ends(self, ended: Callable[[Request], None]) -> None:
        """Call `ended` with each request that Scrapy has finished with, whatever became of it."""
        self._slot.inprogress = _InProgress(self._slot.inprogress, ended)

    def wrap_start(self, wrap: Callable[[AsyncIterator[Any]], AsyncIterator[Any]]) -> None:
        """Replace what the spider starts with."""
        if self._engine._start is not None:  # noqa: SLF001 - what this module is for
            self._engine._start = wrap(self._engine._start)  # noqa: SLF001

    def start_again(self, wrap: Callable[[AsyncIterator[Any]], AsyncIterator[Any]]) -> None:
        """Let the engine, which has come to the end of the spider's `start()`, take from it once more."""
        if self._slot.closing is None:
            deferred_from_coro(self._starting_again(wrap))

    async def _starting_again(self, wrap: Callable[[AsyncIterator[Any]], AsyncIterator[Any]]) -> None:
        engine, process_start = self._engine, self._scraper.spidermw.process_start
        # Scrapy before 2.14 names the spider.
        named = [self._crawler.spider] if signature(process_start).parameters else []
        engine._start = wrap(await process_start(*named))  # noqa: SLF001
        while engine._start is not None and self._slot.closing is None:  # noqa: SLF001
            await engine._process_start_next()  # noqa: SLF001
            self._slot.nextcall.schedule()

    def mark_pages(self, leases: Leases) -> None:
        """Let `PAGE` name, in all code that runs for a leased request, its lease."""
        engine, scraper = self._engine, self._scraper
        engine._download = _in_page(engine._download, leases.of)  # noqa: SLF001
        engine._handle_downloader_output = _in_page(  # noqa: SLF001
            engine._handle_downloader_output,  # noqa: SLF001
            lambda _, request: leases.of(request),
        )
        scraper._scrape = self._scraping(scraper._scrape, leases)  # noqa: SLF001
        # Where Scrapy runs without asyncio, output is processed outside of the page's context.
        scraper._process_spidermw_output = _in_page(  # noqa: SLF001
            scraper._process_spidermw_output,  # noqa: SLF001
            lambda _, response: self._pages.get(id(response)),
        )

    def hold_output(self, is_full: Callable[[], bool], room: Callable[[], Deferred[None]]) -> None:
        """Let what pages yield wait while `is_full`, until the deferred of `room` fires.

        Nothing waits once the spider closes: the engine lets all pages end before it closes the scheduler, and room may
        come no more.
        """

        def is_held() -> bool:
            return is_full() and not self._is_told_to_close

        def until_room() -> Deferred[None]:
            waiting = room()
            self._held.add(waiting)
            return waiting.addBoth(self._let_go, waiting)

        self._slot.close = self._closing(self._slot.close)
        scraper = self._scraper
        if hasattr(scraper, "_process_spidermw_output_async"):
            process = scraper._process_spidermw_output_async  # noqa: SLF001

            async def process_later(output: Any, response: Any) -> None:
                while is_held():
                    await maybe_deferred_to_future(until_room())
                await process(output, response)

            scraper._process_spidermw_output_async = lambda output, response: (  # noqa: SLF001
                process_later(output, response) if is_held() else process(output, response)
            )
            return
        before = scraper._process_spidermw_output  # noqa: SLF001 - Scrapy before 2.14
        scraper._process_spidermw_output = lambda output, response: (  # noqa: SLF001
            until_room().addCallback(lambda _: before(output, response)) if is_held() else before(output, response)
        )

    def _closing(self, close: Callable[[], Any]) -> Callable[[], Any]:
        def closing() -> Any:
            self._is_told_to_close = True
            for waiting in tuple(self._held):
                if not waiting.called:
                    waiting.callback(None)
            return close()

        return closing

    def _let_go(self, outcome: Any, waiting: Deferred[None]) -> Any:
        self._held.discard(waiting)
        return outcome

    def _scraping(self, scrape: Callable[..., Any], leases: Leases) -> Callable[..., Any]:
        pages = self._pages
        if not iscoroutinefunction(scrape):
            marked = _in_page(scrape, lambda _, request: leases.of(request))

            def scrape_deferred(result: Any, request: Request) -> Any:
                pages[id(result)] = leases.of(request)

                def settled(outcome: Any) -> Any:
                    pages.pop(id(result), None)
                    return outcome

                return marked(result, request).addBoth(settled)

            return scrape_deferred

        async def scrape_in_page(result: Any, request: Request) -> None:
            lease = leases.of(request)
            PAGE.set(lease)
            pages[id(result)] = lease
            try:
                await scrape(result, request)
            finally:
                pages.pop(id(result), None)

        return scrape_in_page


def _in_page(call: Callable[..., Any], find: Callable[..., Lease | None]) -> Callable[..., Any]:
    """Return the function, running in the page that `find` tells for its arguments, if any."""

    def called(*args: Any) -> Any:
        lease = find(*args)
        if lease is None:
            return call(*args)
        mark = PAGE.set(lease)
        try:
            return call(*args)
        finally:
            PAGE.reset(mark)

    return called
