"""scrapy-redis' spiders, made to work well on today's Scrapy; isinstance checks for scrapy-redis' own hold.

Under the frontier's scheduler seeds come at once, and through the frontier: nothing here speaks to Redis. Under any
other they read their seeds as scrapy-redis does, when the spider is idle.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import FormRequest, Request, signals
from scrapy.crawler import Crawler
from scrapy_redis import spiders as theirs

from toolkit.model.errors import ConfigurationError
from toolkit.spider.frontier_values import uses_frontier
from toolkit.spider.redis_spiders import legacy_start

_MAX_IDLE = "MAX_IDLE_TIME_BEFORE_CLOSE"


class RedisMixin(theirs.RedisMixin):  # type: ignore[misc]  # scrapy-redis has no types
    """What both spiders share; their attributes and settings are scrapy-redis'."""

    redis_encoding: Any
    max_idle_time: Any

    def setup_redis(self, crawler: Crawler | None = None) -> None:
        """Make ready to get seeds; scrapy-redis' `from_crawler` calls it.

        Raises:
            ConfigurationError: `max_idle_time` is no number of seconds.

        """
        crawler = crawler or self.crawler
        if not uses_frontier(crawler.settings):
            super().setup_redis(crawler)
            return
        if self.redis_encoding is None:
            self.redis_encoding = crawler.settings.get("REDIS_ENCODING") or "utf-8"
        idle = crawler.settings.get(_MAX_IDLE) if self.max_idle_time is None else self.max_idle_time
        try:
            self.max_idle_time = int(idle or 0)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"max_idle_time, or {_MAX_IDLE}, is in whole seconds, not {idle!r}") from error
        crawler.signals.connect(self.spider_idle, signal=signals.spider_idle)

    async def start(self) -> AsyncIterator[Any]:
        """Yield what a `start_requests` of the project's own gives, else nothing: seeds come from Redis."""
        async for each in legacy_start(self):
            yield each

    def next_requests(self) -> Iterator[Request]:
        """Yield the requests of the next seeds, without the frontier; one that is wrong is logged and dropped alone."""
        if self.server is None:
            return
        for seed in self.fetch_data(self.redis_key, self.redis_batch_size):
            try:
                made = self.make_request_from_data(seed)
                yield from [made] if isinstance(made, Request) else list(made or ())
            except Exception:
                self.logger.exception("A seed cannot be used, and is dropped: %r", seed[:200])

    def make_request_from_data(self, data: bytes) -> Any:
        """Return the request, or requests, of one seed: a URL, or a JSON object. To be overridden as with scrapy-redis.

        `url`, `method` and `meta` of the object are the request's; all else is form data: the body of a POST, part of
        the URL of a GET.

        Raises:
            ValueError: the seed has no URL, or is none.

        """
        text = data.decode(self.redis_encoding).strip() if isinstance(data, bytes) else str(data).strip()
        try:
            fields = json.loads(text)
        except ValueError:
            return Request(text, dont_filter=True)
        if not isinstance(fields, dict):
            raise ValueError(f"the seed is neither a URL nor a JSON object, but {type(fields).__name__}")  # noqa: TRY004
        url, meta = fields.pop("url", None), fields.pop("meta", None)
        method = str(fields.pop("method", None) or "GET").upper()
        if not url or not isinstance(url, str):
            raise ValueError("the seed has no url")
        if not fields:
            return Request(url, method=method, meta=meta, dont_filter=True)
        return FormRequest(url, method=method, meta=meta, formdata=fields, dont_filter=True)


class RedisSpider(RedisMixin, theirs.RedisSpider):  # type: ignore[misc]  # scrapy-redis has no types
    """A spider whose seeds are pushed to a key in Redis, `<crawl>:start_urls` unless `redis_key` says otherwise."""


class RedisCrawlSpider(RedisMixin, theirs.RedisCrawlSpider):  # type: ignore[misc]  # scrapy-redis has no types
    """A `CrawlSpider` whose seeds are pushed to a key in Redis."""
