from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.http import HtmlResponse

from shop.items import Price

SITE = "http://127.0.0.1:8810"


class PricesSpider(scrapy.Spider):
    """Reads the shop's price list from its first page to its last.

    Arguments: `site` (where the shop is), `limit` (read so many pages at most).
    """

    name = "prices"

    def __init__(self, site: str = SITE, limit: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site.rstrip("/")
        self.allowed_domains = [urlsplit(site).hostname]
        self.limit = int(limit) if limit else None

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield scrapy.Request(f"{self.site}/prices")

    def parse(self, response: HtmlResponse, number: int = 1) -> Iterator[Price | scrapy.Request]:
        for row in response.css("tr"):
            yield Price(
                sku=row.css(".sku::text").get(""),
                name=row.css(".name::text").get(""),
                price=Decimal(row.css(".price::text").get("")),
            )
        if self.limit is None or number < self.limit:
            yield from response.follow_all(css="a.next", cb_kwargs={"number": number + 1})
