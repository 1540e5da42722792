from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.http import HtmlResponse

from shop.items import Product

SITE = "http://127.0.0.1:8810"


class ProductsSpider(scrapy.Spider):
    """Goes from the categories through their listings to every product, and on to its related ones.

    Arguments: `site` (where the shop is), `category` (only this one), `limit` (ask for so many product pages at most).
    """

    name = "products"

    def __init__(self, site: str = SITE, category: str | None = None, limit: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site.rstrip("/")
        self.allowed_domains = [urlsplit(site).hostname]
        self.category = category
        self.limit = int(limit) if limit else None
        self.asked: set[str] = set()

    async def start(self) -> AsyncIterator[scrapy.Request]:
        if self.category:
            yield scrapy.Request(f"{self.site}/category/{self.category}", self.parse_listing)
        else:
            yield scrapy.Request(f"{self.site}/", self.parse)

    def parse(self, response: HtmlResponse) -> Iterator[scrapy.Request]:
        yield from response.follow_all(css="a.category", callback=self.parse_listing)

    def parse_listing(self, response: HtmlResponse) -> Iterator[scrapy.Request]:
        yield from self.follow_products(response)
        if not self.has_enough:
            yield from response.follow_all(css="a.next", callback=self.parse_listing)

    def parse_product(self, response: HtmlResponse) -> Iterator[Product | scrapy.Request]:
        article = response.css("article")
        yield Product(
            sku=article.attrib["data-sku"],
            name=article.css("h1::text").get(""),
            category=article.css("a.category::text").get(""),
            price=Decimal(article.css(".price .amount::text").get("")),
            stock=int(article.css(".stock").attrib["data-count"]),
            rating=float(article.css(".rating::text").get("")),
            url=response.url,
        )
        yield from self.follow_products(response)

    def follow_products(self, response: HtmlResponse) -> Iterator[scrapy.Request]:
        for request in response.follow_all(css="a.product", callback=self.parse_product):
            if request.url not in self.asked and not self.has_enough:
                self.asked.add(request.url)
                yield request

    @property
    def has_enough(self) -> bool:
        return self.limit is not None and len(self.asked) >= self.limit
