"""What an operator blocks is blocked and nothing else, a job's own tuning wins, a robots.txt becomes a budget."""

from __future__ import annotations

import hashlib
import warnings
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, signals
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from toolkit.model.crawls import DomainLimit
from toolkit.model.queue import Wish
from toolkit.spider import ScrapyRedisFingerprinter
from toolkit.spider.controls import Blocks
from toolkit.spider.crawl_delay import CrawlDelays, limit_of
from toolkit.spider.throttle import combined, throttle_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from scrapy_redis.dupefilter import RFPDupeFilter

NAMES = st.text("abc-", min_size=1, max_size=6)
HOSTS = st.lists(NAMES, min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize(
    ("pattern", "url", "is_blocked"),
    [
        ("example.com", "https://example.com/a", True),
        ("example.com", "https://www.Example.com:8080/", True),
        ("Example.COM.", "http://user:pw@example.com", True),
        ("example.com", "https://notexample.com/", False),
        ("example.com", "https://example.com.evil.org/", False),
        ("example.com", "https://other.org/?u=example.com", False),
        ("*.example.com", "https://a.example.com/", True),
        ("shop-*.example.com", "https://shop-7.example.com/x", True),
        ("shop-*.example.com", "https://blog.example.com/shop-7.example.com", False),
        ("*/calendar/*", "https://a.org/calendar/2026", True),
        ("*/calendar/*", "https://a.org/Calendar/2026", False),
        ("*/calendar/*", "https://a.org/calendar", False),
        ("*/search?q=*", "https://a.org/search?q=1", True),
        ("*/search?q=*", "https://a.org/searchXq=1", False),
        ("https://a.org/[x]", "https://a.org/[x]", True),
        ("::1", "http://[::1]/", True),
        ("example.com", "http://[broken", False),
        (" ", "https://example.com/", False),
    ],
)
def test_a_block_means_a_domain_with_its_subdomains_or_a_whole_url(pattern: str, url: str, is_blocked: bool) -> None:  # noqa: FBT001
    assert Blocks([pattern]).hold(url) is is_blocked


@given(HOSTS, st.lists(HOSTS, max_size=5))
def test_a_host_is_blocked_exactly_if_it_or_a_parent_is(host: str, blocked: list[str]) -> None:
    expected = any(host == each or host.endswith(f".{each}") for each in blocked)
    assert Blocks(blocked).hold(f"http://{host}/path") is expected


@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=40))
def test_no_pattern_and_no_url_breaks_the_crawl(patterns: list[str], url: str) -> None:
    Blocks(patterns).hold(url)


@given(st.text("ab*/", min_size=1, max_size=10), st.text("ab/", max_size=12))
def test_a_star_stands_for_any_text(pattern: str, url: str) -> None:
    if "/" in pattern:
        assert Blocks([pattern]).hold(url) is fnmatchcase(url, pattern)


def test_many_stars_do_not_hold_up_the_crawl() -> None:
    assert not Blocks(["*/" + "a*" * 40 + "b"]).hold("http://a.example/" + "a" * 2000)


def test_what_the_job_leaves_open_the_crawl_decides() -> None:
    crawl = Wish(concurrency=4, delay_s=2.0)
    assert combined(Wish(), crawl) == crawl
    assert combined(Wish(concurrency=1, is_paused=True), crawl) == Wish(concurrency=1, delay_s=2.0, is_paused=True)
    assert combined(Wish(delay_s=0.0), crawl) == Wish(concurrency=4, delay_s=0.0)


def test_a_crawler_has_one_throttle() -> None:
    crawler = get_crawler(settings_dict={"TELNETCONSOLE_ENABLED": False})
    assert throttle_of(crawler) is throttle_of(crawler)


@pytest.mark.parametrize(
    ("robots", "expected"),
    [
        (b"User-agent: *\nCrawl-delay: 4", DomainLimit("a.org", per_second=0.25, concurrency=1)),
        (b"User-agent: bot\nCrawl-delay: 0.5", DomainLimit("a.org", per_second=2.0, concurrency=1)),
        (b"User-agent: other\nCrawl-delay: 5", None),
        (b"User-agent: *\nCrawl-delay: 9999999", DomainLimit("a.org", per_second=1 / 3600, concurrency=1)),
        (b"User-agent: *\nCrawl-delay: -3", None),
        (b"User-agent: *\nCrawl-delay: 0", None),
        (b"User-agent: *\nCrawl-delay: soon", None),
        (b"\xff\xfe\x00", None),
        (b"", None),
    ],
)
def test_a_crawl_delay_becomes_the_domain_s_budget(robots: bytes, expected: DomainLimit | None) -> None:
    assert limit_of("a.org", robots, "bot/1.0") == expected


def test_a_robots_txt_is_told_once_and_nothing_else_is() -> None:
    told: list[DomainLimit] = []
    crawler = get_crawler(settings_dict={"TELNETCONSOLE_ENABLED": False, "ROBOTSTXT_OBEY": True})
    delays = CrawlDelays(crawler, told.append)
    body = b"User-agent: *\nCrawl-delay: 2"
    for url, status in (
        ("http://a.org/robots.txt", 404),
        ("http://a.org/page", 200),
        ("http://a.org/robots.txt", 200),
        ("http://a.org/robots.txt", 200),
    ):
        received: dict[str, Any] = {"response": Response(url, status=status, body=body), "request": Request(url)}
        crawler.signals.send_catch_log(signals.response_received, **received)
    assert told == [DomainLimit("a.org", per_second=0.5, concurrency=1)]
    assert delays is not None


@given(st.sampled_from(["GET", "post"]), st.text("ab?&=/#%", max_size=12), st.binary(max_size=8))
def test_the_fingerprints_of_a_taken_over_crawl_are_scrapy_redis_own(method: str, path: str, body: bytes) -> None:
    request = Request(f"http://a.example/{path}", method=method, body=body)
    fingerprinter = ScrapyRedisFingerprinter()
    found = fingerprinter.fingerprint(request)
    assert found.hex() == RFPDupeFilter(None, "key").request_fingerprint(request)
    assert len(found) == hashlib.sha1(usedforsecurity=False).digest_size
    assert fingerprinter.fingerprint(request) is found
