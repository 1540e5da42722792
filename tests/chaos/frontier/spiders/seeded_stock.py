"""The spider that is given its first pages through Redis, as scrapy-redis has it."""

from __future__ import annotations

from chaos.frontier.spiders.parsing import PageParsing
from scrapy_redis.spiders import RedisSpider


class SeededStock(PageParsing, RedisSpider):  # type: ignore[misc]
    """Reads seeds from `<spider>:start_urls`; its `start_requests` is not called by Scrapy 2.13 and later."""
