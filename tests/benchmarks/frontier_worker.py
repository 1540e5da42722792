"""One worker of a measured crawl, a process of its own: `python frontier_worker.py ORDERS`, its orders as JSON.

It loads all it needs, creates its file of done pages, waits for the end of its input, and crawls until it is killed.
"""

from __future__ import annotations

import json
import mmap
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from benchmarks.frontier_site import page_url
from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response

CONCURRENCY = 32
PLAIN, CRAWLCTL, SCRAPY_REDIS = "plain", "crawlctl", "scrapy_redis"
FLAVOURS = (PLAIN, CRAWLCTL, SCRAPY_REDIS)
_SCHEDULERS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    CRAWLCTL: {"SCHEDULER": "toolkit.spider.Scheduler"},
    SCRAPY_REDIS: {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        # Without it the scheduler of scrapy-redis 0.9.1 fails on Scrapy 2.19; without the next, the first worker to
        # end wipes the queue of the others.
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST": True,
    },
}
_PIPELINES: dict[str, dict[str, int]] = {
    PLAIN: {},
    CRAWLCTL: {"toolkit.spider.StreamPipeline": 300},
    SCRAPY_REDIS: {"scrapy_redis.pipelines.RedisPipeline": 300},
}


class Walk(Spider):
    """Follows every link, and yields one small item a page."""

    name = "walk"
    port: int
    begin_with: int
    stays: bool
    done: memoryview

    async def start(self) -> AsyncIterator[Request]:
        """Ask for the first pages; of several workers each does, unless the scheduler lets one do it for all."""
        if self.stays:
            # Stock workers that find the queue empty for a moment would end.
            self.crawler.signals.connect(self._stay, signal=signals.spider_idle)
        for number in range(self.begin_with):
            yield Request(page_url(self.port, number))

    def parse(self, response: Response, **_: Any) -> Iterator[Request | dict[str, str | None]]:
        """Yield the links, and the item."""
        for address in response.css("li.next a::attr(href)").getall():
            yield Request(response.urljoin(address), callback=self.parse)
        yield {"url": response.url, "title": response.css("h1::text").get()}
        # Asked for more, so all of it was taken.
        self.done[0] += 1

    def _stay(self) -> None:
        raise DontCloseSpider


def settings_of(flavour: str, *, redis_url: str, with_items: bool, log: str = "") -> dict[str, Any]:
    """Return the settings: the same for all but the scheduler, and the pipeline with items."""
    return {
        "CONCURRENT_REQUESTS": CONCURRENCY,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
        "DOWNLOAD_DELAY": 0,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_FILE": log or None,
        "LOG_LEVEL": "WARNING",
        "REDIS_URL": redis_url,
        **_SCHEDULERS[flavour],
        "ITEM_PIPELINES": _PIPELINES[flavour] if with_items else {},
    }


def done_pages(path: Path, *, create: bool = False) -> memoryview:
    """Return the one number in a worker's file, seen by all who open it: how many pages it is done with."""
    with path.open("w+b" if create else "r+b") as file:
        if create:
            file.write(bytes(8))
            file.flush()
        return memoryview(mmap.mmap(file.fileno(), 8)).cast("q")


def main(orders: dict[str, Any]) -> None:
    """Crawl as ordered."""
    process = CrawlerProcess(orders["settings"], install_root_handler=True)
    done = done_pages(Path(orders["done"]), create=True)
    sys.stdin.read()
    process.crawl(Walk, port=orders["port"], begin_with=orders["begin_with"], stays=orders["stays"], done=done)
    process.start()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
