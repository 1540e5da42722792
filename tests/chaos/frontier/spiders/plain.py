"""A spider that begins by itself, at the site's first page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from chaos.frontier.spiders.parsing import PageParsing
from scrapy import Request


class Plain(PageParsing):
    """Each worker has this `start()`; only one is to run it."""

    async def start(self) -> AsyncIterator[Any]:
        """Yield the root, as Scrapy's own `start()` does."""
        yield Request(f"{self.site}/pages/0", callback=self.parse, dont_filter=True)
