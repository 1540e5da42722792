"""What scrapy-redis leaves in Redis, written by scrapy-redis itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import redis
from scrapy import Request, Spider
from scrapy_redis import queue
from scrapy_redis.dupefilter import RFPDupeFilter

QUEUES: Mapping[str, type[queue.Base]] = {
    "priority": queue.PriorityQueue,
    "fifo": queue.FifoQueue,
    "lifo": queue.LifoQueue,
}


class Products(Spider):
    """A spider whose requests are queued; nobody runs it."""

    name = "products"

    def parse_item(self, response: object) -> None:
        """Be named by a request."""


class ForeignCrawl:
    """A queue and a dupefilter of scrapy-redis."""

    def __init__(self, url: str, order: str = "priority", *, spider: str = "products") -> None:
        self.redis: redis.Redis = redis.Redis.from_url(url)
        self.spider = Products(spider)
        self.queue: Any = QUEUES[order](self.redis, self.spider, "%(spider)s:requests")
        self.filter: Any = RFPDupeFilter(self.redis, f"{spider}:dupefilter")

    def push(self, requests: Iterable[Request]) -> None:
        """Do what scrapy-redis' scheduler does with new requests."""
        for request in requests:
            if request.dont_filter or not self.filter.request_seen(request):
                self.queue.push(request)

    def pop_all(self) -> list[Request]:
        """Return what scrapy-redis' workers would get, in their order."""
        found = []
        while (request := self.queue.pop()) is not None:
            found.append(request)
        return found

    def close(self) -> None:
        """Close the connection."""
        self.redis.close()


def a_request(spider: Products, number: int, **more: Any) -> Request:
    """Return a request with something in every field."""
    return Request(
        f"https://a.example/{number}",
        callback=spider.parse_item,
        priority=number % 4,
        headers={"Referer": "https://a.example/"},
        meta={"depth": 2, "tags": ("a", {"b"}), "raw": b"\xff"},
        cb_kwargs={"page": number},
        **more,
    )
