"""What the operator wishes of all workers of a crawl, made so in this one: tuning, and what is blocked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.crawler import Crawler

from toolkit.model.crawls import Controls
from toolkit.spider.repeating import Repeating, repeating
from toolkit.spider.throttle import throttle_of

LOOK_EVERY_S = 0.5


class CrawlControls:
    """Obeys the controls of a crawl. The job's own tuning, if its node has some, wins; a pause needs nothing here.

    To be made before the spider is opened. Tuning begins once it is, when all that has a say in it is ready, and is
    made so again and again while it lasts, since Scrapy makes new slots for new domains.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._controls = Controls()
        self._blocks = Blocks(())
        self._loop: Repeating | None = None
        self._is_open = False
        crawler.signals.connect(self._opened, signal=signals.spider_opened)
        crawler.signals.connect(self._stop, signal=signals.engine_stopped)

    def obey(self, controls: Controls) -> None:
        """Make the controls so at once, from the reactor's thread; the default ones put everything back."""
        if controls.blocks != self._controls.blocks:
            self._blocks = Blocks(controls.blocks)
        self._controls = controls
        if self._is_open:
            self._follow()

    def blocks(self, url: str) -> bool:
        """Tell whether a request for this URL is to be put aside."""
        return self._blocks.hold(url)

    def _opened(self, **_: Any) -> None:
        self._is_open = True
        if self._is_tuned:
            self._follow()

    @property
    def _is_tuned(self) -> bool:
        return self._controls.concurrency is not None or self._controls.delay_s is not None

    def _follow(self) -> None:
        self._tune()
        if not self._is_tuned:
            self._stop()
        elif self._loop is None:
            self._loop = repeating(self._tune)
            self._loop.start(LOOK_EVERY_S, now=False)

    def _tune(self) -> None:
        throttle_of(self._crawler).apply_crawl(concurrency=self._controls.concurrency, delay_s=self._controls.delay_s)

    def _stop(self, **_: Any) -> None:
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        self._loop = None


class Blocks:
    """Blocked domains and patterns. A `*` stands for any text; upper and lower case of a domain are the same.

    With a `/` it is about the whole URL (`*/calendar/*`), else about the host: `example.com`, which blocks its
    subdomains too, or `shop-*.example.com`.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        given = [pattern.strip() for pattern in patterns if pattern.strip()]
        hosts = [pattern.lower().removeprefix("*.").rstrip(".") for pattern in given if "/" not in pattern]
        self._domains = frozenset(host for host in hosts if "*" not in host)
        self._hosts = _any_of(host for host in hosts if "*" in host)
        self._urls = _any_of(pattern for pattern in given if "/" in pattern)

    def hold(self, url: str) -> bool:
        """Tell whether one of them means this URL."""
        if self._urls is not None and self._urls.fullmatch(url):
            return True
        if not self._domains and self._hosts is None:
            return False
        try:
            host = (urlsplit(url).hostname or "").rstrip(".")
        except ValueError:
            return False
        if self._hosts is not None and self._hosts.fullmatch(host):
            return True
        labels = host.split(".")
        return any(".".join(labels[start:]) in self._domains for start in range(len(labels)))


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    parts = [_regex(pattern) for pattern in patterns]
    return re.compile("|".join(parts), re.DOTALL) if parts else None


def _regex(pattern: str) -> str:
    first, *others = (re.escape(part) for part in pattern.split("*"))
    if not others:
        return first
    # What stands between two stars is taken where it comes first, for good: else many stars could take for ever.
    between = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    return f"{first}{between}.*{others[-1]}"
