"""The workers of a simulated crawl: the frontier's own scheduler and exchange under an engine reduced to its steps.

The engine does what Scrapy's does at the places that the frontier listens to: it asks the scheduler for requests, works
on each for a while, hands over what the page brings, takes it out of `inprogress`, and closes when nothing is left.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, Protocol

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.utils.request import RequestFingerprinter
from simulation.machines import Process, WorkerClock
from simulation.server import Door
from twisted.internet.defer import CancelledError, Deferred

from toolkit.runs.folder import RUN_VARIABLE, RunFolder
from toolkit.spider.scheduler import Scheduler
from toolkit.store.redis_frontier import RedisFrontier

HOST = "http://shop.example/"


@dataclass(frozen=True)
class Site:
    """What a crawl may find: the links of each page, from where it begins, and a page that brings very many items."""

    links: Mapping[str, Sequence[str]]
    starts: Sequence[str]
    seeds: Sequence[str] = ()
    dump: str = ""

    def items(self, path: str) -> list[str]:
        """Return what a page brings."""
        return [path, *(f"{path}#{number}" for number in range(1300))] if path == self.dump else [path]


@dataclass
class WorkerLife:
    """What one worker did, seen from outside; `end` is why its spider closed, or how its process was ended."""

    name: str
    at: float
    category: str
    pages: list[tuple[float, str]] = field(default_factory=list)
    starts: int = 0
    end: str = ""
    ended_at: float | None = None


class Paces(Protocol):
    """How long things take, in seconds."""

    def page_s(self, path: str) -> float:
        """Return how long a page takes."""

    def start_s(self) -> float:
        """Return how long `start()` takes for the next request."""


class Worker:
    """A process that works on the crawl until it is over, or it is ended."""

    def __init__(
        self,
        process: Process,
        folder: RunFolder,
        site: Site,
        life: WorkerLife,
        *,
        settings: Mapping[str, Any],
        args: Mapping[str, str],
        paces: Paces,
    ) -> None:
        self.world = process.host.world
        self.process, self.folder, self.site, self.life, self.paces = process, folder, site, life, paces
        self.engine: Engine | None = None
        self._settings, self._args = settings, args

    def begin(self) -> None:
        """Load for a while, then join the crawl."""
        chance = self.world.random(f"worker {self.process.name}")
        self.world.after(chance.uniform(0.05, 0.4), self.process, self._open)

    def signalled(self, number: int) -> None:
        """Close in order at a SIGINT."""
        if self.engine is None:
            self.process.exit(signal=signal.Signals(number))
        else:
            self.engine.stop()

    def ended(self, process: Process) -> None:
        """Note how the process ended."""
        self.life.ended_at = self.world.now
        if process.signal is not None:
            self.life.end = process.signal.name
        self.world.say("{} ended: {}", self.life.name, self.life.end)

    def _open(self) -> None:
        os.environ[RUN_VARIABLE] = str(self.folder.path)
        try:
            self.engine = Engine(self, _settings(tuple(sorted(self._settings.items()))), self._args)
            self.engine.open()
        finally:
            del os.environ[RUN_VARIABLE]


class Books(Spider):
    """Takes one page after the other, and brings its links and an item of each."""

    name = "books"
    site: Site

    async def start(self) -> AsyncIterator[Any]:
        self.life.starts += 1  # type: ignore[attr-defined]
        for path in self.site.starts:
            await self.pause()  # type: ignore[attr-defined]
            yield Request(HOST + path)


class Engine:
    """Scrapy's engine, as far as the frontier listens to it."""

    def __init__(self, worker: Worker, settings: Settings, args: Mapping[str, str]) -> None:
        self.worker = worker
        world, process = worker.world, worker.process
        self.clock = WorkerClock(process)
        self.chance = world.random(f"engine {process.name}")
        spider = Books(**args)
        spider.site, spider.life, spider.pause = worker.site, worker.life, self._pause_of_start  # type: ignore[attr-defined]
        self.paused = False
        self.running = True
        self.inprogress: set[Request] = set()
        self._slot = _Slot(self)
        self.scraper = _Scraper(self)
        self.downloader = SimpleNamespace(total_concurrency=4, active=self._slot.active)
        self._start: Any = None
        self.crawler = SimpleNamespace(
            settings=settings,
            spider=spider,
            stats=_Stats(),
            signals=SignalManager(self),
            request_fingerprinter=RequestFingerprinter(),
            engine=self,
            crawling=True,
        )
        spider.crawler = self.crawler  # type: ignore[assignment]
        spider.settings = settings
        self.spider = spider
        self._is_scheduled = False
        self._start_task: Deferred[None] | None = None

    def open(self) -> None:
        """Open the scheduler, then go on for ever."""
        self.scheduler = _Scheduler(self.crawler, self)
        self._start = self.spider.start()
        self.scraper.spidermw = SimpleNamespace(process_start=self._process_start)
        Deferred.fromCoroutine(self._opening()).addErrback(self._failed)

    async def _opening(self) -> None:
        try:
            opened = self.scheduler.open(self.spider)
            if opened is not None:
                await opened
        except CloseSpider as error:
            self.close(error.reason)
            return
        self._start_task = Deferred.fromCoroutine(self._starting())
        self._start_task.addErrback(self._failed)
        self._beat()

    def crawl(self, request: Request) -> None:
        """Schedule a request."""
        self.scheduler.enqueue_request(request)
        self.schedule()

    def schedule(self) -> None:
        """Ask for requests soon."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self.clock.soon(self._next)

    def stop(self) -> None:
        """End as at a Ctrl-C: what `start()` has not brought yet, it does not bring any more."""
        if self._start_task is not None and not self._start_task.called:
            self._start_task.cancel()
        self.close("shutdown")

    def close(self, reason: str) -> None:
        """Begin to close the spider; pages under way end first."""
        if self._slot.closing is None:
            self._slot.closing = Deferred()
            self._reason = reason
            self._slot.close()  # type: ignore[no-untyped-call]
            self._may_have_closed()

    async def close_spider_async(self, *, reason: str) -> None:
        self.close(reason)

    def _download(self, request: Request) -> None:
        """Give the hooks something to replace; a page is worked on in `_work`."""

    _handle_downloader_output = _download

    async def _process_start(self) -> AsyncIterator[Any]:
        return self.spider.start()

    async def _starting(self) -> None:
        with suppress(CancelledError):
            while self._start is not None and self.running:
                await self._process_start_next()
        self.schedule()

    async def _process_start_next(self) -> None:
        try:
            request = await anext(self._start)
        except StopAsyncIteration:
            self._start = None
        else:
            self.crawl(request)

    def _beat(self) -> None:
        self.schedule()
        self.clock.later(5.0, self._beat)

    def _next(self) -> None:
        self._is_scheduled = False
        if self._slot.closing is not None:
            return
        while len(self._slot.inprogress) < self.downloader.total_concurrency:
            request = self.scheduler.next_request()
            if request is None:
                break
            self._slot.inprogress.add(request)
            Deferred.fromCoroutine(self._work(request)).addErrback(self._failed)
        if self._slot.inprogress or self._start is not None or self.scheduler.has_pending_requests():
            return
        try:
            self.scheduler._spider_idle()
        except DontCloseSpider:
            return
        except CloseSpider as error:
            self.close(error.reason)
            return
        self.close("finished")

    async def _work(self, request: Request) -> None:
        path = request.url.removeprefix(HOST)
        total_s = self.worker.paces.page_s(path)
        await self._pause(total_s * 0.8)
        await self.scraper._scrape(SimpleNamespace(path=path), request)
        self.worker.life.pages.append((self.worker.world.now, path))
        self._slot.inprogress.remove(request)
        self.schedule()
        self._may_have_closed()

    def _may_have_closed(self) -> None:
        if self._slot.closing is not None and not self._slot.inprogress and self.running:
            self.running = False
            Deferred.fromCoroutine(self._closing()).addErrback(self._failed)

    async def _closing(self) -> None:
        closed = self.scheduler.close(self._reason)
        if closed is not None:
            await closed
        self.worker.life.end = self._reason
        self.worker.process.exit()

    def _pause(self, seconds: float) -> Deferred[None]:
        over: Deferred[None] = Deferred()
        self.clock.later(seconds, lambda: None if over.called else over.callback(None))
        return over

    def _pause_of_start(self) -> Deferred[None]:
        return self._pause(self.worker.paces.start_s())

    def _failed(self, failure: Any) -> None:
        raise AssertionError(f"the simulated engine failed: {failure.getTraceback()}")


class _Slot:
    """The engine's slot."""

    def __init__(self, engine: Engine) -> None:
        self.inprogress: set[Request] = set()
        self.nextcall = SimpleNamespace(schedule=engine.schedule)
        self.closing: Deferred[None] | None = None
        self.close = lambda: None
        self.active = _Active(self)


class _Active:
    """As many as the slot has in progress."""

    def __init__(self, slot: _Slot) -> None:
        self._slot = slot

    def __len__(self) -> int:
        return len(self._slot.inprogress)


class _Scraper:
    """The engine's scraper: one output of a page after the other."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.slot = SimpleNamespace(needs_backout=lambda: False)
        self.spidermw: Any = None

    async def _scrape(self, response: Any, request: Request) -> None:
        engine = self.engine
        site = engine.worker.site
        item, *many = site.items(response.path)
        links = site.links.get(response.path, ())
        outputs = [item.encode(), *(Request(HOST + each, priority=len(each) % 3) for each in links)]
        engine.chance.shuffle(outputs)
        for each in many:
            await self._process_spidermw_output_async(each.encode(), response)
        for output in outputs:
            if engine.chance.random() < 0.2:
                await engine._pause(engine.chance.uniform(0, 0.3))
            await self._process_spidermw_output_async(output, response)

    async def _process_spidermw_output_async(self, output: Any, response: Any) -> None:
        if isinstance(output, bytes):
            self.engine.scheduler.add_item(output)
        else:
            self.engine.crawl(output)

    def _process_spidermw_output(self, output: Any, response: Any) -> None:
        """Only looked for."""


class _Scheduler(Scheduler):
    """The frontier's scheduler on the simulated machine."""

    def __init__(self, crawler: Any, engine: Engine) -> None:
        self._simulated = engine
        super().__init__(crawler)

    def clock_here(self) -> Any:
        return self._simulated.clock

    def open_frontier(self, _: Any, plan: Any, *, ttl_s: float) -> Any:  # type: ignore[override]
        link = self._simulated.worker.process.host.link
        return RedisFrontier(Door(link, patience_s=max(0.5, ttl_s / 3)), plan)


class _Stats:
    """Statistics that are only counted."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def inc_value(self, name: str, count: int = 1, **_: Any) -> None:
        self.values[name] = self.values.get(name, 0) + count

    def set_value(self, name: str, value: Any, **_: Any) -> None:
        self.values[name] = value

    def get_value(self, name: str, default: Any = None, **_: Any) -> Any:
        return self.values.get(name, default)


@cache
def _settings(written: tuple[tuple[str, Any], ...]) -> Settings:
    settings = Settings(
        {
            "SCHEDULER": "toolkit.spider.Scheduler",
            "REDIS_URL": "redis://simulated:1/0",
            "ITEM_PIPELINES": {"toolkit.spider.StreamPipeline": 300},
        }
    )
    for name, value in written:
        settings.set(name, value, priority="cmdline")
    return settings
