"""Turns a spider of scrapy-redis, as its project wrote it, into one that gets its seeds through the frontier.

scrapy-redis itself is not loaded here: a spider of its is there only if the project has loaded it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

from scrapy import Spider, signals

_THEIRS = "scrapy_redis.spiders"

logger = logging.getLogger(__name__)


def is_redis_spider(spider: Spider) -> bool:
    """Tell whether the spider is a `RedisSpider`, `RedisCrawlSpider` or of their mixin, scrapy-redis' or ours."""
    mixin = _mixin()
    return mixin is not None and isinstance(spider, mixin)


def makes_requests_itself(spider: Spider) -> bool:
    """Tell whether the project, and neither scrapy-redis nor crawlctl, wrote its `make_request_from_data`."""
    return _is_own(spider, "make_request_from_data")


def adopt(spider: Any, seeds_key: str) -> float:
    """Let the spider read no seeds on its own any more; return its idle time before it closes, in seconds, 0 for never.

    Its `start()` is what its class says, or its `start_requests`. What it has of a client stays, for the project's own
    use; the frontier and scrapy-redis' part of the spider do not touch it.
    """
    max_idle_s = float(spider.max_idle_time or 0)
    spider.redis_key = seeds_key
    if _is_own(spider, "next_requests"):
        logger.warning(
            "%s.next_requests is not called: seeds come through the frontier, and make_request_from_data gets each",
            type(spider).__name__,
        )
    if not _is_own(spider, "spider_idle"):
        spider.crawler.signals.disconnect(spider.spider_idle, signal=signals.spider_idle)
    # A `spider_idle` of the project's own is still called. What it calls of scrapy-redis finds nothing to read and
    # no reason to hold the spider: the frontier holds it, as long as the crawl is not over for all.
    spider.fetch_data, spider.count_size = _nothing, _none
    spider.max_idle_time, spider.spider_idle_start_time = 1, 0
    if not _is_own(spider, "start"):
        spider.start = lambda: legacy_start(spider)
    return max_idle_s


async def legacy_start(spider: Any) -> AsyncIterator[Any]:
    """Yield what a `start_requests` that the project wrote gives; without one, nothing."""
    if not _is_own(spider, "start_requests"):
        return
    logger.warning(
        "%s.start_requests is called for now; Scrapy has not called it since 2.13: write `async def start(self)`",
        type(spider).__name__,
    )
    for each in spider.start_requests() or ():
        yield each


def _nothing(_key: str, _size: int) -> Iterable[bytes]:
    return ()


def _none(_key: str) -> int:
    return 0


def _is_own(spider: Spider, name: str) -> bool:
    """Tell whether the project wrote this method, on the class or on the instance."""
    for kind in type(spider).__mro__:
        if name in vars(kind):
            return not kind.__module__.startswith(("scrapy.", "scrapy_redis.", "toolkit."))
    return False


def _mixin() -> type | None:
    module = sys.modules.get(_THEIRS)
    found = getattr(module, "RedisMixin", None)
    return found if isinstance(found, type) else None
