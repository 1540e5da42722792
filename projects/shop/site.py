"""A small web shop on this machine for the spiders beside it: generated, deterministic, and not quite healthy.

    python site.py --port 8810 [--pages 3000] [--seed 7]

`--pages` is the number of product pages. The same number and seed always make the same shop, so what a crawl must find
is known beforehand: `expected_products`, `expected_prices`. Needs nothing but Python.
"""

import argparse
import asyncio
import contextlib
import html
import random
import signal
import sys
import time
from dataclasses import dataclass
from functools import lru_cache, partial
from urllib.parse import parse_qs, urlsplit

PAGES = 3_000
SEED = 7
PRODUCTS_A_LISTING = 24
ROWS_A_PRICE_LIST = 100
RELATED = 4
LATENCY_MS = 60
# A page that fails at its first visit is well for so long, time enough for any crawler's retry.
WELL_AFTER_A_FAILURE_S = 60

CATEGORIES = ("lamps", "chairs", "tables", "rugs", "clocks", "vases", "shelves", "mirrors")
_MAKES = ("Årø", "Brise", "Café", "Dusk", "Elm", "Fjord", "Gneiß", "Harbour", "Ivory", "Juniper", "Kōan", "Linden")
_MANNERS = ("small", "tall", "quiet", "folding", "hanging", "round", "oak", "linen", "brass", "smoked", "woven")
_WORDS = (
    "made",
    "by",
    "hand",
    "of",
    "wood",
    "glass",
    "wool",
    "or",
    "clay",
    "for",
    "every",
    "day",
    "and",
    "many",
    "years",
)

# What is wrong with a product's page, out of a thousand: see `README.md`.
_FAULTS = (("gone", 10), ("broken", 3), ("flaky", 15), ("moved", 40), ("slow", 20))


@dataclass(frozen=True, slots=True)
class Product:
    """One product; `fault` is what is wrong with its page, `delay_s` how long its page takes."""

    number: int
    name: str
    category: str
    cents: int
    stock: int
    rating: float
    fault: str
    delay_s: float

    @property
    def sku(self) -> str:
        return f"SH-{self.number:05}"

    @property
    def path(self) -> str:
        return f"/product/{self.number:05}"

    @property
    def linked_path(self) -> str:
        """Where the shop's pages link to: some links are old, and redirect."""
        return f"/p/{self.number}" if self.fault == "moved" else self.path

    @property
    def price(self) -> str:
        return f"{self.cents // 100}.{self.cents % 100:02}"

    @property
    def can_be_fetched(self) -> bool:
        return self.fault not in {"gone", "broken"}


@lru_cache(maxsize=4)
def catalogue(pages: int = PAGES, seed: int = SEED) -> tuple[Product, ...]:
    """Make the shop's products, numbered from 1."""
    return tuple(_product(number, random.Random(f"{seed}/{number}")) for number in range(1, pages + 1))  # noqa: S311


def expected_products(pages: int = PAGES, seed: int = SEED, category: str | None = None) -> set[str]:
    """Return the SKUs that a full crawl of the product pages finds."""
    found = (product for product in catalogue(pages, seed) if product.can_be_fetched)
    return {product.sku for product in found if category in {None, product.category}}


def expected_prices(pages: int = PAGES, seed: int = SEED) -> dict[str, str]:
    """Return the price of every SKU on the price list, which also has those whose pages fail."""
    return {product.sku: product.price for product in catalogue(pages, seed)}


def _product(number: int, chance: random.Random) -> Product:
    category = CATEGORIES[number % len(CATEGORIES)]
    draw, fault = chance.randrange(1_000), ""
    for name, share in _FAULTS:
        if 0 <= draw < share:
            fault = name
        draw -= share
    return Product(
        number=number,
        name=f"{chance.choice(_MAKES)} {chance.choice(_MANNERS)} {category.removesuffix('s')} {number}",
        category=category,
        cents=chance.randrange(490, 49_990),
        stock=chance.choice((0, 1, 3, 12, 40)),
        rating=chance.randrange(20, 51) / 10,
        fault=fault,
        delay_s=chance.uniform(0.3, 1.0) if fault == "slow" else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Page:
    """One answer; `delay_s` is how long it takes on top of the shop's usual latency."""

    body: str
    status: str = "200 OK"
    kind: str = "text/html; charset=utf-8"
    location: str = ""
    delay_s: float = 0.0

    def encode(self) -> bytes:
        body = self.body.encode()
        moved = f"Location: {self.location}\r\n" if self.location else ""
        head = f"HTTP/1.1 {self.status}\r\nContent-Type: {self.kind}\r\nContent-Length: {len(body)}\r\n{moved}\r\n"
        return head.encode() + body


class Shop:
    """Answers a path with a page."""

    def __init__(self, pages: int = PAGES, seed: int = SEED) -> None:
        self.products = catalogue(pages, seed)
        self.shelves = {name: [p for p in self.products if p.category == name] for name in CATEGORIES}
        self._failed_at: dict[int, float] = {}

    def page(self, target: str) -> Page:
        parts = urlsplit(target)
        place, _, name = parts.path.strip("/").partition("/")
        number = int(parse_qs(parts.query).get("page", ["1"])[0])
        if place == "":
            return self._home()
        if place == "robots.txt":
            return Page("User-agent: *\nDisallow: /basket\n", kind="text/plain")
        if place == "category" and name in self.shelves:
            return self._listing(name, number)
        if place == "prices":
            return self._price_list(number)
        if place in {"product", "p"} and name.isdigit() and 1 <= int(name) <= len(self.products):
            product = self.products[int(name) - 1]
            return self._product(product) if place == "product" else _redirect(product.path)
        return _failure("404 Not Found")

    def _home(self) -> Page:
        tiles = "".join(f'<a class="category" href="/category/{name}">{name}</a>\n' for name in self.shelves)
        return _whole("The shop", f"<nav>{tiles}</nav><main>{tiles}</main><a href='/prices'>Price list</a>")

    def _listing(self, category: str, number: int) -> Page:
        shelf = self.shelves[category]
        shown = shelf[(number - 1) * PRODUCTS_A_LISTING : number * PRODUCTS_A_LISTING]
        if not shown:
            return _failure("404 Not Found")
        tiles = "".join(_tile(product) for product in shown)
        # The first ones once more, as shops do.
        popular = "".join(_tile(product) for product in shelf[:3])
        more = _next_link(f"/category/{category}", number, number * PRODUCTS_A_LISTING < len(shelf))
        return _whole(category, f"<ul class='products'>{tiles}</ul><ul class='popular'>{popular}</ul>{more}")

    def _product(self, product: Product) -> Page:
        if product.fault == "gone":
            return _failure("404 Not Found")
        if product.fault == "broken" or (product.fault == "flaky" and self._fails_now(product)):
            return _failure("500 Internal Server Error")
        chance = random.Random(product.number)  # noqa: S311
        related = chance.sample(self.shelves[product.category], min(RELATED, len(self.shelves[product.category])))
        text = " ".join(chance.choices(_WORDS, k=250))
        body = f"""<article data-sku="{product.sku}">
<p class="path"><a href="/">Shop</a> <a class="category" href="/category/{product.category}">{product.category}</a></p>
<h1>{html.escape(product.name)}</h1>
<p class="price"><span class="amount">{product.price}</span> <abbr>EUR</abbr></p>
<p class="stock" data-count="{product.stock}">{"in stock" if product.stock else "sold out"}</p>
<p class="rating">{product.rating}</p>
<div class="description">{text}</div>
<a class="buy" rel="nofollow" href="/basket?add={product.sku}">Buy</a>
</article><ul class="related">{"".join(_tile(other) for other in related)}</ul>"""
        return _whole(product.name, body, delay_s=product.delay_s)

    def _fails_now(self, product: Product) -> bool:
        now = time.monotonic()
        if now - self._failed_at.get(product.number, -WELL_AFTER_A_FAILURE_S) < WELL_AFTER_A_FAILURE_S:
            return False
        self._failed_at[product.number] = now
        return True

    def _price_list(self, number: int) -> Page:
        first = (number - 1) * ROWS_A_PRICE_LIST
        # A list begins with the last row of the one before, as printed ones do.
        shown = self.products[max(0, first - 1) : first + ROWS_A_PRICE_LIST]
        if not self.products[first : first + 1]:
            return _failure("404 Not Found")
        rows = "".join(_row(product) for product in shown)
        more = _next_link("/prices", number, first + ROWS_A_PRICE_LIST < len(self.products))
        return _whole("Price list", f"<table>{rows}</table>{more}")


def _tile(product: Product) -> str:
    return f'<li><a class="product" href="{product.linked_path}">{html.escape(product.name)}</a></li>\n'


def _row(product: Product) -> str:
    cells = {"sku": product.sku, "name": html.escape(product.name), "price": product.price}
    return "<tr>" + "".join(f'<td class="{name}">{text}</td>' for name, text in cells.items()) + "</tr>\n"


def _next_link(path: str, number: int, there_is_more: bool) -> str:  # noqa: FBT001
    return f'<a class="next" rel="next" href="{path}?page={number + 1}">more</a>' if there_is_more else ""


def _whole(title: str, body: str, *, delay_s: float = 0.0) -> Page:
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
    return Page(
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n', delay_s=delay_s
    )


def _failure(status: str) -> Page:
    return Page(f"<!DOCTYPE html>\n<title>{status}</title><h1>{status}</h1>\n", status=status)


def _redirect(path: str) -> Page:
    return Page("", status="301 Moved Permanently", location=path)


class Visitor(asyncio.Protocol):
    """One connection: requests one after the other, each answered in its time."""

    def __init__(self, shop: Shop, latency_s: float) -> None:
        self._shop = shop
        self._latency_s = latency_s
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            with contextlib.suppress(ValueError):
                page = self._shop.page(head.split(b" ", 2)[1].decode())
                asyncio.get_running_loop().call_later(self._latency_s + page.delay_s, self._send, page.encode())

    def _send(self, answer: bytes) -> None:
        if self._transport is not None:
            self._transport.write(answer)


async def serve(shop: Shop, *, address: str, port: int, latency_s: float) -> None:
    """Answer on the address and port until SIGINT or SIGTERM."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    server = await loop.create_server(partial(Visitor, shop, latency_s), address, port, backlog=512)
    async with server:
        sys.stdout.write(f"The shop is open: {len(shop.products)} products on http://{address}:{port}\n")
        sys.stdout.flush()
        await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A small web shop to crawl.")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8810)
    parser.add_argument("--pages", type=int, default=PAGES, help="product pages (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="another seed makes another shop (default: %(default)s)")
    parser.add_argument(
        "--latency-ms", type=int, default=LATENCY_MS, help="what each page takes (default: %(default)s)"
    )
    given = parser.parse_args()
    shop = Shop(given.pages, given.seed)
    asyncio.run(serve(shop, address=given.address, port=given.port, latency_s=given.latency_ms / 1000))


if __name__ == "__main__":
    main()
