"""The scheduler of a crawl that many processes share: `SCHEDULER = "toolkit.spider.Scheduler"`.

What the engine calls here never touches the network and never raises; the exchange with Redis goes on beside it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DontCloseSpider
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from toolkit.model.crawls import MAX_PUSHES, Controls, Disposition, Done, Filter, Joined, Push
from toolkit.model.errors import CrawlctlError, UnwritableError
from toolkit.model.jobs import FRONTIER_UNUSABLE
from toolkit.spider.calls import Calls, told
from toolkit.spider.clock import clock_here
from toolkit.spider.controls import CrawlControls
from toolkit.spider.courier import Courier
from toolkit.spider.crawl_delay import CrawlDelays
from toolkit.spider.exchange import Exchange
from toolkit.spider.fingerprints import Fingerprints
from toolkit.spider.frontier_settings import FrontierSettings, read_settings
from toolkit.spider.hooks import Hooks
from toolkit.spider.leases import PAGE, Lease
from toolkit.spider.outbox import MAX_BYTES, Batch
from toolkit.spider.requests import RequestWriter
from toolkit.spider.seeds import SeedSource
from toolkit.spider.seen_cache import SeenCache
from toolkit.spider.start_run import StartRun, nothing
from toolkit.store.frontier import open_frontier

_WAKE_AGAIN_S = 1.0
_SHOWN_BYTES = 200

logger = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """Hands the engine what the frontier leases, and gives the frontier what pages bring.

    A request is acknowledged when Scrapy has finished with it. Statistics are named as scrapy-redis' and Scrapy's, and
    `frontier/…`.
    """

    clock_here = staticmethod(clock_here)
    open_frontier = staticmethod(open_frontier)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the scheduler of a crawler; what is wrong with its settings is told when it is opened."""
        return cls(crawler)

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats: Any = crawler.stats
        self._problem: Exception | None = None
        self._is_open = False
        self._has_nothing_to_do = False
        self._woken_at = 0.0
        self._from_seed: Request | None = None
        self._refusals: Counter[tuple[str, str]] = Counter()
        self._wants_requests = False
        try:
            self._settings: FrontierSettings = read_settings(crawler)
            # Before the engine asks the spider for its start().
            self._seeds = SeedSource.of(self._spider, self._settings)
        except CrawlctlError as error:
            self._problem = error

    @property
    def _spider(self) -> Any:
        return self._crawler.spider

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Join the crawl; fires when Redis has answered, however long that takes.

        What makes the frontier unusable is logged in one line, and the spider is closed with its own finish reason.
        """
        try:
            self._hooks = Hooks(self._crawler)
        except CrawlctlError as error:
            self._say(error)
            raise CloseSpider(FRONTIER_UNUSABLE) from error
        self._crawler.signals.connect(self._spider_idle, signal=signals.spider_idle)
        try:
            if self._problem is not None:
                raise self._problem
            self._set_up(spider)
        except CrawlctlError as error:
            self._hooks.wrap_start(nothing)
            self.fail(error)
            return succeed(None)
        joined = self._exchange.join(flush=self._settings.flush_on_start)
        return joined.addCallbacks(self._joined, self._not_joined)

    def close(self, reason: str) -> Deferred[None] | None:
        """Hand back what is ready, send what was collected, and leave; fires after a lease's time at the latest."""
        for (field, kind), count in self._refusals.items():
            logger.error("Requests that could not be kept because of their %s of type %s: %d", field, kind, count)
        if not self._is_open:
            return None
        return self._exchange.leave(is_finished=reason == "finished")

    def has_pending_requests(self) -> bool:
        """Tell whether the crawl as a whole has something to do, or may have."""
        return not (self._has_nothing_to_do or self._exchange.is_over)

    def __len__(self) -> int:
        if not self._is_open:
            return 0
        exchange = self._exchange
        return exchange.pending + len(exchange.leases.ready) + len(exchange.outbox)

    def enqueue_request(self, request: Request) -> bool:
        """Collect a request for the frontier; `False` when it is dropped and somebody may want to hear of it."""
        try:
            return self._enqueue(request)
        except UnwritableError as error:
            self._refuse(request, error.field, error.kind, error.message)
        except Exception as error:  # noqa: BLE001 - a fingerprinter of the project's own may raise anything
            self._refuse(request, "fingerprint", type(error).__name__, repr(error))
        return False

    def next_request(self) -> Request | None:
        """Return a request that was leased, if one is ready."""
        if not self._is_open:
            return None
        exchange = self._exchange
        ready = exchange.leases.ready
        while ready and not exchange.room.is_short and not exchange.may_have_lapsed():
            lease = ready.popleft()
            request = self._read(lease)
            if request is not None:
                exchange.leases.begin(request, lease)
                exchange.handed += 1
                self._stats.inc_value("scheduler/dequeued/redis")
                if len(ready) <= exchange.pace.low:
                    exchange.look()
                return request
        exchange.look()
        return None

    def add_item(self, payload: bytes) -> None:
        """Let an item travel with the end of the page at hand, or by itself where no page brought it."""
        page = PAGE.get()
        exchange = self._exchange
        if page is None or not (page.is_open or page.is_void):
            exchange.outbox.item(payload)
            exchange.added()
        elif page.is_open:
            page.items.append(payload)
            page.items_bytes += len(payload)
            if len(page.items) >= MAX_PUSHES or page.items_bytes > MAX_BYTES / 2:
                exchange.outbox.go_ahead(page)
                exchange.added()

    # What the exchange asks for and tells: see `Side`.

    def free(self) -> int:
        """See `Side.free`."""
        return self._hooks.free()

    def is_taking(self) -> bool:
        """See `Side.is_taking`."""
        return not (self._is_paused or self._hooks.is_closing or self._hooks.is_paused)

    def is_wanted(self) -> bool:
        """See `Side.is_wanted`."""
        return bool(self._crawler.crawling)

    def receive(self, leases: Sequence[Lease]) -> None:
        """See `Side.receive`."""
        ready = self._exchange.leases.ready
        for lease in leases:
            if lease.leased.is_seed and self.is_taking():
                self._sow(lease)
            else:
                ready.append(lease)
        self._hooks.wake()

    def obey(self, controls: Controls) -> None:
        """See `Side.obey`."""
        self._is_paused = controls.is_paused
        self._controls.obey(controls)

    def confirm(self, batch: Batch, duplicates: Sequence[int]) -> None:
        """See `Side.confirm`."""
        if not batch.pushes:
            return
        self._seen.add(push.fingerprint for push in batch.pushes if push.fingerprint)
        self._stats.inc_value("scheduler/enqueued/redis", len(batch.pushes) - len(duplicates))
        if duplicates:
            self._stats.inc_value("dupefilter/filtered", len(duplicates))
            for number in duplicates:
                request = batch.pushed[number].request
                if request is not None:
                    self._crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self._spider)

    def forget(self) -> None:
        """See `Side.forget`."""
        self._seen.clear()

    def fingerprint(self, lease: Lease) -> bytes:
        """See `Side.fingerprint`."""
        if lease.leased.is_seed:
            return b""
        try:
            request = lease.request or self._writer.read(lease.leased.body)
            return b"" if request.dont_filter else self._fingerprint(request)
        except Exception:  # noqa: BLE001 - what cannot be read has none; it ends as dead when it is handed out
            return b""

    def heed(self) -> None:
        """See `Side.heed`."""
        self._wants_requests = self._hooks.has_listeners(signals.request_dropped)
        self._start.heed()
        if not self._exchange.is_over:
            self._woken_at = 0.0
            return
        now = self._clock.now()
        if not self._woken_at or (self._may_end() and now - self._woken_at >= _WAKE_AGAIN_S):
            self._woken_at = now
            self._hooks.wake()

    def start_is_lost(self) -> None:
        """See `Side.start_is_lost`."""
        self._start.lose()

    def count(self, name: str, number: int = 1) -> None:
        """See `Side.count`."""
        self._stats.inc_value(name, number)

    def end(self) -> None:
        """See `Side.end`."""
        self._has_nothing_to_do = True
        self._hooks.wake()

    def fail(self, error: Exception) -> None:
        """See `Side.fail`."""
        self._say(error)
        self._problem = error
        self._has_nothing_to_do = True
        if self._is_open:
            self._hooks.close_spider(FRONTIER_UNUSABLE)

    # The beginning.

    def _set_up(self, spider: Spider) -> None:
        settings = self._settings
        self._clock = self.clock_here()
        self._fingerprint = Fingerprints(self._crawler).of
        self._writer = RequestWriter(spider, settings.serializer)
        self._seen = SeenCache(settings.seen_cache)
        self._controls = CrawlControls(self._crawler)
        self._is_paused = False
        frontier = self.open_frontier(settings.redis, settings.plan, ttl_s=settings.ttl_s)
        courier = Courier(frontier, self._clock, worker=settings.worker, ttl_s=settings.ttl_s)
        exchange = self._exchange = Exchange(
            self,
            Calls(courier, self._clock, self.count),
            self._clock,
            worker=settings.worker,
            ttl_s=settings.ttl_s,
            journal_s=settings.journal_s,
            room=settings.max_outbox,
        )
        if settings.obeys_crawl_delay:
            self._delays = CrawlDelays(self._crawler, exchange.learn)
        self._start = StartRun(exchange, self._hooks.start_again)
        self._hooks.wrap_start(self._start.run)
        self._hooks.mark_pages(exchange.leases)
        self._hooks.report_ends(self._ended)
        self._hooks.hold_output(lambda: exchange.room.is_used_up, exchange.room.wait)

    def _joined(self, joined: Joined) -> None:
        was_stopped = joined.again_s is not None
        if joined.is_over or was_stopped:
            why = "was not joined before the spider was told to stop" if was_stopped else "is over already"
            logger.info("The crawl %s %s: there is nothing to do", self._settings.plan.crawl, why)
            self._has_nothing_to_do = True
            self._hooks.wrap_start(nothing)
            return
        self._is_open = True
        if joined.pending:
            logger.info("Resuming crawl (%d requests scheduled)", joined.pending)

    def _not_joined(self, failure: Failure) -> None:
        error = failure.value
        self._hooks.wrap_start(nothing)
        self.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def _say(self, error: Exception) -> None:
        trace = None if isinstance(error, CrawlctlError) else error
        logger.error("The frontier cannot be used: %s", told(error), exc_info=trace)

    # Requests on their way.

    def _enqueue(self, request: Request) -> bool:
        page = PAGE.get()
        if self._has_nothing_to_do:
            return False
        if page is not None and not page.is_open:
            if page.is_void:
                return False
            page = None
        kind, fingerprint = Filter.NONE, b""
        if self._start.has_yielded(request):
            is_filtered = self._settings.filters and not request.dont_filter
            kind = Filter.SEEN if is_filtered else Filter.START
            fingerprint = self._start.fingerprint(self._fingerprint(request), is_filtered=is_filtered)
        elif not request.dont_filter and self._settings.filters:
            kind, fingerprint = Filter.SEEN, self._fingerprint(request)
            if fingerprint in self._seen:
                self._stats.inc_value("dupefilter/filtered")
                # Scrapy tells of each request that was not taken; where nobody listens, that is spared.
                return not self._wants_requests
        elif request is self._from_seed:
            kind, fingerprint = Filter.REMEMBER, self._fingerprint(request)
        push = Push(self._writer.write(request), request.priority, fingerprint, kind)
        dropped = request if self._wants_requests else None
        if kind is Filter.NONE and page is not None:
            page.pushes.append((push, dropped))
            return True
        self._exchange.outbox.push(push, page, dropped)
        self._exchange.added()
        return True

    def _refuse(self, request: Request, field: str, kind: str, why: str) -> None:
        self._stats.inc_value("frontier/unwritable")
        self._refusals[field, kind] += 1
        if self._refusals[field, kind] == 1:
            logger.error(
                "A request cannot be kept in the frontier, and is dropped: %s: %s. More like it are only counted "
                "(frontier/unwritable)",
                request,
                why,
            )

    def _read(self, lease: Lease) -> Request | None:
        """Return an entry's request, or end the entry if it cannot be worked on."""
        try:
            fields = self._writer.fields(lease.leased.body)
            if not self._controls.blocks(fields["url"]):
                return self._writer.request(fields)
        except Exception as error:  # noqa: BLE001 - it may hold anything that some class or serializer chokes on
            self._bury(lease, told(error))
            return None
        self._let_go(lease, Done(lease.entry, Disposition.BLOCKED))
        return None

    def _ended(self, request: Request) -> None:
        lease = self._exchange.leases.end(request)
        if lease is not None:
            self._let_go(lease, Done(lease.entry, items=lease.take_items(), ahead=lease.ahead))

    def _let_go(self, lease: Lease, done: Done) -> None:
        lease.end()
        self._exchange.outbox.end(lease, done)
        self._exchange.added()

    def _bury(self, lease: Lease, why: str) -> None:
        self._stats.inc_value("frontier/dead")
        what = "seed" if lease.leased.is_seed else "request"
        logger.error(
            "A %s cannot be worked on, and goes to the dead list: %s: %r", what, why, lease.leased.body[:_SHOWN_BYTES]
        )
        self._let_go(lease, Done(lease.entry, Disposition.DEAD, why=why))

    def _sow(self, lease: Lease) -> None:
        """Make requests of a seed; it is acknowledged with them, or goes to the dead list alone."""
        mark = PAGE.set(lease)
        try:
            requests = list(self._seeds.requests(lease.leased.body))
            refused = self._refusals.total()
            for request in requests:
                self._from_seed = request
                self._hooks.crawl(request)
            if requests and self._refusals.total() - refused == len(requests):
                self._bury(lease, "none of its requests can be kept in the frontier")
            else:
                self._let_go(lease, Done(lease.entry))
        except Exception as error:  # noqa: BLE001 - the spider's own code makes requests of seeds
            self._bury(lease, told(error))
        finally:
            self._from_seed = None
            PAGE.reset(mark)

    # The end.

    def _may_end(self) -> bool:
        """Tell whether a worker whose crawl is over may end, as far as seeds are concerned."""
        if not self._seeds.waits_for_more:
            return True
        return 0 < self._seeds.max_idle_s <= self._exchange.idle_s

    def _spider_idle(self) -> None:
        if self._problem is not None:
            raise CloseSpider(FRONTIER_UNUSABLE)
        if self._is_open and not self._has_nothing_to_do and not self._may_end():
            raise DontCloseSpider
