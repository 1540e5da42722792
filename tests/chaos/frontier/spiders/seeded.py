"""A spider that is given its first pages through Redis."""

from __future__ import annotations

from chaos.frontier.spiders.parsing import PageParsing

from toolkit.spider import RedisSpider


class Seeded(PageParsing, RedisSpider):
    """Reads seeds from `<crawl>:start_urls`."""
