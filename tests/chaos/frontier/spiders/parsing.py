"""What all spiders of the chaos run do with a page, and the journal of it that they keep outside the product.

The journal is one file: each line one JSON object, appended by one write, so that no kill tears it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import scrapy
from chaos.frontier.graph import needs_patience, page_of
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import Request, Response, TextResponse

PATIENCE_S = 0.3


class Signing:
    """Downloader middleware: signs each request with the worker that sends it, also one that another has tried."""

    def __init__(self, worker: str) -> None:
        self._worker = worker

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Signing:
        """Take the worker's name from its settings."""
        return cls(crawler.settings["CHAOS_WORKER"])

    def process_request(self, request: Request) -> None:
        """Write the name over any other."""
        request.headers["X-Worker"] = self._worker


class PageParsing(scrapy.Spider):
    """Brings an item for each page: its number, and those of the pages that it links to, all of which it follows.

    Spider arguments: `site` (its address) and `journal` (the file's path).
    """

    name = "pages"
    site: str
    journal: str

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> PageParsing:
        """Make the spider, and listen for items that have been through all pipelines."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.note_item, signal=signals.item_scraped)
        return spider

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        """Yield the links before the item, and take a while between two of them on some pages."""
        assert isinstance(response, TextResponse)
        page = page_of(response.url)
        targets = response.css("a::attr(href)").getall()
        for number, target in enumerate(targets):
            if number == len(targets) // 2 and needs_patience(page):
                await asyncio.sleep(PATIENCE_S)
            yield Request(response.urljoin(target), callback=self.parse)
        yield {"page": page, "links": [page_of(target) for target in targets]}

    def note_item(self, item: dict[str, Any]) -> None:
        """Write down that a page was processed."""
        self.tell(page=item["page"])

    def closed(self, reason: str) -> None:
        """Write down how this worker ended; the scheduler is closed by then."""
        stats = self.crawler.stats
        told = stats.get_stats() if stats else {}
        counts = {name: value for name, value in told.items() if isinstance(value, int | float | str)}
        self.tell(reason=reason, stats=counts)

    def tell(self, **what: Any) -> None:
        """Append one line."""
        line = (
            json.dumps({"worker": self.settings["CHAOS_WORKER"], "pid": os.getpid(), "at": time.time(), **what}) + "\n"
        )
        descriptor = os.open(Path(self.journal), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(descriptor, line.encode())
        os.close(descriptor)
