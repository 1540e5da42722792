"""Makes a domain's budget of the Crawl-delay in its robots.txt, as Scrapy fetches it; one budget over all workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.crawler import Crawler

from toolkit.model.crawls import DomainLimit

MAX_DELAY_S = 3600.0
"""A longer Crawl-delay counts as this: a site must not be able to stop a crawl for good."""


class CrawlDelays:
    """Tells each domain's limit once, when Scrapy has fetched a robots.txt that it obeys (`ROBOTSTXT_OBEY`)."""

    def __init__(self, crawler: Crawler, tell: Callable[[DomainLimit], None]) -> None:
        self._tell = tell
        self._told: set[DomainLimit] = set()
        settings = crawler.settings
        self._agent = str(settings.get("ROBOTSTXT_USER_AGENT") or settings.get("USER_AGENT") or "*")
        if settings.getbool("ROBOTSTXT_OBEY"):
            crawler.signals.connect(self._received, signal=signals.response_received)

    def _received(self, response: Any, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.path != "/robots.txt" or response.status != 200 or not parts.hostname:  # noqa: PLR2004 - found
            return
        limit = limit_of(parts.hostname, response.body, self._agent)
        if limit is not None and limit not in self._told:
            self._told.add(limit)
            self._tell(limit)


def limit_of(domain: str, robots: bytes, agent: str) -> DomainLimit | None:
    """Return the limit that a robots.txt asks of this user agent; `None` when it asks none, or for nonsense."""
    from protego import Protego  # noqa: PLC0415 - Scrapy loads it too, where robots.txt is obeyed

    delay_s = Protego.parse(robots.decode(errors="ignore")).crawl_delay(agent)
    if delay_s is None or not delay_s > 0:
        return None
    return DomainLimit(domain, per_second=1 / min(float(delay_s), MAX_DELAY_S), concurrency=1)
