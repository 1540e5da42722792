"""The sample project's spiders, run by real Scrapy, find what the shop's own arithmetic says is there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.processes import quiet_environment
from support.shop_site import SHOP_PROJECT, ShopSite


@pytest.fixture(scope="module")
def shop() -> Iterator[ShopSite]:
    with ShopSite(pages=400, latency_ms=1) as shop:
        yield shop


def test_a_full_crawl_finds_every_product_that_can_be_had_once(shop: ShopSite, tmp_path: Path) -> None:
    items, log = crawl("products", shop, tmp_path)
    assert sorted(item["sku"] for item in items) == sorted(shop.expected_products())
    assert 0 < len(items) < shop.pages, "some products cannot be had"
    assert "'finish_reason': 'finished'" in log
    assert "'retry/reason_count/500 Internal Server Error'" in log
    assert "'downloader/response_status_count/301'" in log
    assert "'downloader/response_status_count/404'" in log


def test_a_second_crawl_finds_the_same(shop: ShopSite, tmp_path: Path) -> None:
    items, _ = crawl("products", shop, tmp_path)
    assert {item["sku"] for item in items} == shop.expected_products()


def test_a_category_is_crawled_alone(shop: ShopSite, tmp_path: Path) -> None:
    items, _ = crawl("products", shop, tmp_path, category="lamps")
    assert {item["sku"] for item in items} == shop.expected_products("lamps")
    assert {item["category"] for item in items} == {"lamps"}


def test_a_limit_ends_a_crawl_early_and_well(shop: ShopSite, tmp_path: Path) -> None:
    items, log = crawl("products", shop, tmp_path, limit="30")
    assert 20 <= len(items) <= 30
    assert {item["sku"] for item in items} <= shop.expected_products()
    assert "'finish_reason': 'finished'" in log


def test_the_price_list_gives_each_sku_its_price_once(shop: ShopSite, tmp_path: Path) -> None:
    items, log = crawl("prices", shop, tmp_path)
    assert [item["sku"] for item in items] == sorted(shop.expected_prices())
    assert {item["sku"]: item["price"] for item in items} == shop.expected_prices()
    assert "'item_dropped_count': 3" in log


def test_the_price_list_can_be_cut_short(shop: ShopSite, tmp_path: Path) -> None:
    items, _ = crawl("prices", shop, tmp_path, limit="1")
    assert len(items) == 100


def test_names_keep_their_letters_in_the_feed(shop: ShopSite, tmp_path: Path) -> None:
    crawl("prices", shop, tmp_path, limit="1")
    assert "Årø" in (tmp_path / "items.jsonl").read_text(encoding="utf-8")


def test_another_seed_makes_another_shop_and_the_same_seed_the_same() -> None:
    assert ShopSite(seed=1).expected_prices() != ShopSite(seed=2).expected_prices()
    assert ShopSite(seed=1).expected_products() == ShopSite(seed=1).expected_products()


def crawl(spider: str, shop: ShopSite, folder: Path, **arguments: str) -> tuple[list[dict[str, Any]], str]:
    """Run `scrapy crawl` as a user does; return the items and the log."""
    feed = folder / "items.jsonl"
    command = [sys.executable, "-B", "-m", "scrapy", "crawl", spider, "-O", f"{feed}:jsonlines"]
    for name, value in {"site": shop.url, **arguments}.items():
        command += ["-a", f"{name}={value}"]
    done = subprocess.run(
        command,
        cwd=SHOP_PROJECT,
        env=quiet_environment(folder),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()], done.stderr
