"""A seed becomes its requests or says why it does not; scrapy-redis' spiders, as they are, get theirs this way too."""

from __future__ import annotations

import asyncio
import contextlib
import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.spiders import CrawlSpider
from scrapy.utils.test import get_crawler

from toolkit.model.errors import ConfigurationError
from toolkit.spider import RedisCrawlSpider, RedisSpider
from toolkit.spider.frontier_settings import read_settings
from toolkit.spider.seeds import SEED_FIELDS, SeedSource, request_of_seed

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from scrapy_redis import spiders as theirs

OURS = f"{__name__}.Frontier"


class Frontier:
    """Stands where the frontier's scheduler would: as much of it as a spider sees."""

    def add_item(self, item: bytes) -> None:
        """Take nothing."""


class Shop(Spider):
    name = "shop"
    site = "not for responses"

    def parse_item(self, response: Any) -> None:
        """Do nothing."""

    def _hidden(self, response: Any) -> None:
        """Do nothing."""


class Stock(theirs.RedisSpider):  # type: ignore[misc]
    name = "stock"


class Ours(RedisSpider):
    name = "ours"


def opened(kind: type[Any], scheduler: str = OURS, **said: Any) -> tuple[Any, SeedSource]:
    settings = {"TELNETCONSOLE_ENABLED": False, "SCHEDULER": scheduler, "REDIS_URL": "redis://h", **said}
    crawler = get_crawler(kind, settings)
    crawler.spider = kind.from_crawler(crawler)
    return crawler.spider, SeedSource.of(crawler.spider, read_settings(crawler))


def started(spider: Any) -> list[Any]:
    async def gather() -> list[Any]:
        return [each async for each in spider.start()]

    return asyncio.run(gather())


def idle_of(spider: Any) -> list[Any]:
    """Return what the handlers of `spider_idle` answer."""
    return [
        answer for _, answer in spider.crawler.signals.send_catch_log(signals.spider_idle, dont_log=DontCloseSpider)
    ]


def test_a_url_is_a_seed_of_any_spider() -> None:
    spider, source = opened(Shop)
    (request,) = source.requests(b" http://a.example/x?y=1 \n")
    assert (request.url, request.callback, request.dont_filter) == ("http://a.example/x?y=1", None, True)
    assert spider is not None


def test_a_seed_may_say_every_field() -> None:
    fields: dict[str, Any] = {
        "url": "http://a.example/",
        "method": "post",
        "headers": {"A": "b", "C": ["d", "e"]},
        "body": "text",
        "cookies": {"k": "v"},
        "meta": {"deep": [1]},
        "priority": 7,
        "callback": "parse_item",
        "dont_filter": False,
    }
    assert fields.keys() == SEED_FIELDS.keys()
    spider = Shop()
    request = request_of_seed(spider, json.dumps(fields).encode())
    assert (request.method, request.body, request.priority, request.dont_filter) == ("POST", b"text", 7, False)
    assert (request.meta, request.cookies, request.headers.getlist("C")) == ({"deep": [1]}, {"k": "v"}, [b"d", b"e"])
    assert request.callback == spider.parse_item


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        ({"url": "http://a.example/", "prioritt": 1}, "unknown field 'prioritt': did you mean"),
        ({"method": "GET"}, "has no url"),
        ({"url": ""}, "has no url"),
        ({"url": 5}, "url is a text, not int"),
        ({"url": "http://a.example/", "priority": True}, "priority is a whole number, not bool"),
        ({"url": "http://a.example/", "dont_filter": 1}, "dont_filter is true or false"),
        ({"url": "http://a.example/", "headers": ["x"]}, "headers is an object"),
        ({"url": "http://a.example/", "callback": "_hidden"}, "callback '_hidden' is no method"),
        ({"url": "http://a.example/", "callback": "close"}, "callback 'close' is no method"),
        ({"url": "http://a.example/", "callback": "site"}, "callback 'site' is no method"),
        ({"url": "http://a.example/", "callback": "absent"}, "callback 'absent' is no method"),
        ([1], "neither a URL nor a JSON object"),
    ],
)
def test_a_seed_that_is_wrong_says_what_is(seed: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        request_of_seed(Shop(), json.dumps(seed).encode())


@pytest.mark.parametrize("seed", [b"", b"  ", b"no-scheme", b"{", b"\xff\xfe", b'{"url": "relative"}'])
def test_a_seed_that_is_none_is_refused(seed: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        request_of_seed(Shop(), seed)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: json.dumps({"url": text}).encode()))
def test_whatever_is_pushed_makes_a_request_or_a_plain_refusal(seed: bytes) -> None:
    with contextlib.suppress(ValueError, TypeError):
        assert isinstance(request_of_seed(Shop(), seed), Request)


def test_an_ordinary_spider_waits_for_seeds_only_if_told() -> None:
    _, source = opened(Shop)
    assert (source.waits_for_more, source.max_idle_s) == (False, 0)
    _, source = opened(Shop, SCHEDULER_IDLE_BEFORE_CLOSE=9)
    assert (source.waits_for_more, source.max_idle_s) == (True, 9)


@pytest.mark.parametrize("kind", [Stock, Ours])
def test_a_redis_spider_waits_for_ever_or_as_long_as_it_says(kind: type[Any]) -> None:
    _, source = opened(kind)
    assert (source.waits_for_more, source.max_idle_s) == (True, 0)
    _, source = opened(kind, MAX_IDLE_TIME_BEFORE_CLOSE=30)
    assert source.max_idle_s == 30
    _, source = opened(type("Own", (kind,), {"max_idle_time": 4}), MAX_IDLE_TIME_BEFORE_CLOSE=30)
    assert source.max_idle_s == 4


def test_ours_are_scrapy_redis_spiders_to_whoever_asks() -> None:
    assert issubclass(RedisSpider, theirs.RedisSpider)
    assert issubclass(RedisCrawlSpider, theirs.RedisCrawlSpider)
    assert issubclass(RedisCrawlSpider, CrawlSpider)


@pytest.mark.parametrize("kind", [Stock, Ours])
def test_a_redis_spider_reads_nothing_by_itself_any_more(kind: type[Any]) -> None:
    spider, _ = opened(kind)
    assert idle_of(spider) == []
    assert started(spider) == []
    assert list(spider.next_requests()) == []
    assert spider.redis_key == f"{spider.name}:start_urls"


@pytest.mark.parametrize("kind", [Stock, Ours])
def test_an_idle_handler_of_the_project_s_own_is_called_and_holds_nothing(kind: type[Any]) -> None:
    calls = []

    class Own(kind):  # type: ignore[misc]
        def spider_idle(self) -> None:
            calls.append("idle")
            super().spider_idle()

    spider, _ = opened(Own)
    assert idle_of(spider) == [None]
    assert calls == ["idle"]


@pytest.mark.parametrize("kind", [Stock, Ours])
def test_a_start_requests_of_old_is_called_and_said_to_be_old(
    kind: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Own(kind):  # type: ignore[misc]
        def start_requests(self) -> Iterator[Request]:
            yield Request("http://a.example/login")
            yield from super().start_requests()

    spider, _ = opened(Own)
    assert [request.url for request in started(spider)] == ["http://a.example/login"]
    assert "Own.start_requests is called for now" in caplog.text


@pytest.mark.parametrize("kind", [Stock, Ours])
def test_a_start_of_the_project_s_own_stays(kind: type[Any], caplog: pytest.LogCaptureFixture) -> None:
    class Own(kind):  # type: ignore[misc]
        async def start(self) -> Any:
            yield Request("http://a.example/")
            async for each in super().start():
                yield each

    spider, _ = opened(Own)
    assert [request.url for request in started(spider)] == ["http://a.example/"]
    assert caplog.text == ""


@pytest.mark.parametrize("kind", [Stock, Ours])
def test_its_own_way_of_making_requests_is_used(kind: type[Any]) -> None:
    class Own(kind):  # type: ignore[misc]
        made: Any = None

        def make_request_from_data(self, data: bytes) -> Any:
            assert data == b"7"
            return self.made

    spider, source = opened(Own)
    one, two = Request("http://a.example/1"), Request("http://a.example/2")
    for made, expected in ((one, [one]), ([one, two], [one, two]), (iter([one]), [one]), ([], []), (None, [])):
        spider.made = made
        assert source.requests(b"7") == expected
    for wrong in (5, [{"item": 1}], "http://a.example/"):
        spider.made = wrong
        with pytest.raises(TypeError, match="make_request_from_data"):
            source.requests(b"7")


@pytest.mark.parametrize("kind", [Stock, Ours])
def test_a_redis_spider_s_seed_keeps_scrapy_redis_meaning(kind: type[Any]) -> None:
    _, source = opened(kind)
    (plain,) = source.requests(b"http://a.example/1")
    assert (plain.url, plain.dont_filter, plain.method) == ("http://a.example/1", True, "GET")
    (form,) = source.requests(b'{"url": "http://a.example/", "method": "post", "q": "x", "meta": {"a": 1}}')
    assert (form.method, form.body, form.meta) == ("POST", b"q=x", {"a": 1})
    assert isinstance(form, FormRequest)
    (query,) = source.requests(b'{"url": "http://a.example/", "q": "x"}')
    assert query.url == "http://a.example/?q=x"


@pytest.mark.parametrize("kind", [Stock, Ours])
@pytest.mark.parametrize(
    "seed", [b"[1]", b"7", b"{}", b'{"url": null}', b"\xff", b"no-scheme", b'{"url": "x", "m": []}']
)
def test_a_bad_seed_of_a_redis_spider_raises(kind: type[Any], seed: bytes) -> None:
    _, source = opened(kind)
    with pytest.raises((ValueError, TypeError, AttributeError)):
        source.requests(seed)


def test_seeds_are_text_for_a_project_that_has_them_decoded() -> None:
    class Own(Stock):
        def make_request_from_data(self, data: Any) -> Request:
            assert data == "ä"
            return Request("http://a.example/")

    _, source = opened(Own, REDIS_PARAMS={"decode_responses": True, "url": "redis://h"}, REDIS_ENCODING="latin-1")
    assert len(source.requests("ä".encode("latin-1"))) == 1


def test_a_next_requests_of_the_project_s_own_is_said_not_to_be_called(caplog: pytest.LogCaptureFixture) -> None:
    class Own(Stock):
        def next_requests(self) -> Iterator[Request]:
            yield Request("http://a.example/")

    opened(Own)
    assert "Own.next_requests is not called" in caplog.text


def test_an_idle_time_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="MAX_IDLE_TIME_BEFORE_CLOSE"):
        opened(Ours, MAX_IDLE_TIME_BEFORE_CLOSE="soon")


def test_without_the_frontier_ours_reads_as_scrapy_redis_does_and_survives_a_bad_seed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    crawler = get_crawler(Ours, {"TELNETCONSOLE_ENABLED": False, "REDIS_URL": "redis://h"})
    spider = Ours.from_crawler(crawler)
    assert spider.server is not None
    spider.fetch_data = lambda _key, _size: [b"http://a.example/1", b"[1]", b"http://a.example/2"]
    assert [request.url for request in spider.next_requests()] == ["http://a.example/1", "http://a.example/2"]
    assert "A seed cannot be used" in caplog.text
    assert started(spider) == []
