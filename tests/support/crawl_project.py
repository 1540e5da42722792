"""A project as users of scrapy-redis have it, in a folder, and real Scrapy processes that work on its crawls."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from types import TracebackType
from typing import Any, Self

from support.processes import end, quiet_environment, start
from support.waiting import wait_until

from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId
from toolkit.store.open import open_store

FRONTIER = "toolkit.spider.Scheduler"
OPENS_WITHIN_S = 60.0
ENDS_WITHIN_S = 60.0
_REASON = re.compile(r"Spider closed \(([^)]*)\)")

# As the documentation of scrapy-redis has it, but for names.
SETTINGS: Mapping[str, object] = {
    "BOT_NAME": "market",
    "SPIDER_MODULES": ["market.spiders"],
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 400},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "DEBUG",
}

SPIDERS = '''
import os

import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider

import toolkit.spider

SITE = os.environ["SITE"]


class Pages:
    def parse(self, response):
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, callback=self.parse)


class Rules:
    rules = [Rule(LinkExtractor(), callback="parse_page", follow=True)]

    def parse_start_url(self, response):
        return self.parse_page(response)

    def parse_page(self, response):
        yield {"url": response.url}


class Seeded(Pages, RedisSpider):
    name = "seeded"


class SeededByRules(Rules, RedisCrawlSpider):
    name = "seeded-by-rules"


class Several(RedisSpider):
    name = "several"

    def make_request_from_data(self, data):
        first, last = data.decode().split("-")
        return [scrapy.Request(f"{SITE}/p/{number}") for number in range(int(first), int(last))]

    def parse(self, response):
        yield {"url": response.url}


class Ours(Pages, toolkit.spider.RedisSpider):
    name = "ours"


class OursByRules(Rules, toolkit.spider.RedisCrawlSpider):
    name = "ours-by-rules"


class Legacy(Pages, toolkit.spider.RedisSpider):
    name = "legacy"

    def start_requests(self):
        yield scrapy.Request(f"{SITE}/p/0")


class Plain(Pages, scrapy.Spider):
    name = "plain"
    start_urls = [f"{SITE}/p/0"]


class Chosen(scrapy.Spider):
    """Fetches pages of what its arguments say, and tells that with each item."""

    name = "chosen"

    async def start(self):
        for number in range(12):
            yield scrapy.Request(f"{SITE}/{self.category}/{number}")

    def parse(self, response):
        yield {"url": response.url, "category": self.category}


class Ruled(Rules, CrawlSpider):
    name = "ruled"
    start_urls = [f"{SITE}/p/0"]


class Mapped(SitemapSpider):
    name = "mapped"
    sitemap_urls = [f"{SITE}/robots.txt"]

    def parse(self, response):
        yield {"url": response.url}


class Repeating(scrapy.Spider):
    """Asks for the same page again and again, on purpose."""

    name = "repeating"

    async def start(self):
        for _ in range(10):
            yield scrapy.Request(f"{SITE}/p/1", dont_filter=True)

    def parse(self, response):
        for _ in range(5):
            yield scrapy.Request(f"{SITE}/p/2", callback=self.parse_last)

    def parse_last(self, response):
        yield {"url": response.url}


class Order(scrapy.Spider):
    """Fetches pages one by one; the order is what counts."""

    name = "order"
    custom_settings = {"CONCURRENT_REQUESTS": 1}
    start_urls = [f"{SITE}/begin"]

    def parse(self, response):
        if response.url.endswith("/begin"):
            for number in (3, 10, 1, 2):
                yield scrapy.Request(f"{SITE}/p/{number}")
            yield scrapy.Request(f"{SITE}/p/7", priority=5)


class Odd(scrapy.Spider):
    """Yields more requests that cannot be written than Scrapy handles at once."""

    name = "odd"
    start_urls = [f"{SITE}/p/1"]

    def parse(self, response):
        for number in range(150):
            yield scrapy.Request(f"{SITE}/odd/{number}", callback=lambda response: None)
        yield scrapy.Request(f"{SITE}/p/2", callback=self.parse_last)

    def parse_last(self, response):
        yield {"url": response.url}
'''


class CrawlProject:
    """The project in a folder, on one site and one Redis; `settings` take the place of its own."""

    def __init__(self, folder: Path, *, site: str, redis_url: str, settings: Mapping[str, object]) -> None:
        self.folder = folder
        self._site = site
        self._redis_url = redis_url
        self._count = 0
        package = folder / "market"
        (package / "spiders").mkdir(parents=True)
        whole = {**SETTINGS, "REDIS_URL": redis_url, **settings}
        lines = [f"{name} = {pformat(value)}" for name, value in whole.items() if value is not None]
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = market.settings\n")
        (package / "__init__.py").write_text("")
        (package / "settings.py").write_text("\n".join(lines) + "\n")
        (package / "spiders" / "__init__.py").write_text(SPIDERS)

    def worker(self, spider: str, *, arguments: Mapping[str, str] | None = None, **settings: Any) -> CrawlWorker:
        """Return a process that works on the spider's crawl from entering the context on; `settings` are its own."""
        self._count += 1
        said = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
        given = [part for name, value in (arguments or {}).items() for part in ("-a", f"{name}={value}")]
        command = [sys.executable, "-m", "scrapy", "crawl", spider, *said, *given]
        return CrawlWorker(command, self.folder, log=self.folder / f"{spider}-{self._count}.log", site=self._site)

    def wait_joined(self, crawl: str, *workers: CrawlWorker) -> None:
        """Wait until each of these processes takes part in the crawl, however long its start takes."""
        with contextlib.closing(open_store(Secret(self._redis_url), self.folder / "state")) as store:
            assert store.shared is not None
            crawls = store.shared.crawls

            def are_there() -> bool:
                assert all(worker.is_running for worker in workers), [worker.log[-3000:] for worker in workers]
                view = crawls.view(CrawlId(crawl))
                known = {str(each.name).split(":")[1] for each in view.workers} if view is not None else set()
                return {str(worker.pid) for worker in workers} <= known

            wait_until(are_there, deadline_s=OPENS_WITHIN_S, what=f"the workers of {crawl} to have joined")


class CrawlWorker:
    """One real Scrapy process; what is left of it at the end of the context is killed."""

    def __init__(self, command: list[str], folder: Path, *, log: Path, site: str) -> None:
        self._command = command
        self._folder = folder
        self._log = log
        self._site = site
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = quiet_environment(self._folder, SITE=self._site)
        with self._log.open("wb") as log:
            self._process = start(self._command, cwd=self._folder, env=environment, output=log)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            end(self._process)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "it was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """The process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code, or nothing while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    @property
    def reason(self) -> str | None:
        """Scrapy's word for how the crawl ended here; nothing while it goes on."""
        found = _REASON.search(self.log)
        return found[1] if found else None

    def stat(self, name: str) -> int:
        """Return a count of the statistics that Scrapy dumps at its end; 0 if it is not there."""
        found = re.search(rf"'{re.escape(name)}': (\d+)", self.log)
        return int(found[1]) if found else 0

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it with SIGKILL, and what it started."""
        assert self._process is not None
        end(self._process)

    def opened(self, deadline_s: float = OPENS_WITHIN_S) -> Self:
        """Wait until its spider is open."""
        wait_until(lambda: self._has("Spider opened"), deadline_s=deadline_s, what="the spider to be opened")
        return self

    def finished(self, deadline_s: float = ENDS_WITHIN_S) -> str:
        """Wait for the end of the process; return Scrapy's reason.

        Raises:
            AssertionError: it did not end in time, or ended without a reason; with the end of its log.

        """
        wait_until(lambda: not self.is_running, deadline_s=deadline_s, what=f"{self._log.name} to end", pause_s=0.05)
        assert self.reason is not None, self.log[-3000:]
        return self.reason

    def _has(self, text: str) -> bool:
        assert self.is_running, self.log[-3000:]
        return text in self.log
