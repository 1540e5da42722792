"""A spider that begins by itself, at the site's first pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from chaos.frontier.spiders.parsing import PageParsing
from scrapy import Request

STARTS_AT_ONCE = 10
PAUSE_S = 0.5


class Plain(PageParsing):
    """Each worker has this `start()`; only one is to run it.

    Spider argument: `starts` (how many start URLs there are).
    """

    starts: str

    async def start(self) -> AsyncIterator[Any]:
        """Yield some start URLs at a time, half of them unfiltered, as Scrapy's own `start()` does."""
        for page in range(int(self.starts)):
            if page % STARTS_AT_ONCE == STARTS_AT_ONCE - 1:
                await asyncio.sleep(PAUSE_S)
            yield Request(f"{self.site}/pages/{page}", callback=self.parse, dont_filter=page % 2 == 0)
