"""However a request ends, its entry leaves the worker's hands once, with all that it brought; on each kind of reactor.

One real crawl for each kind holds all endings; each test looks at the traces of one of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from support.crawl_desk import CrawlDesk, crawl_desk
from support.crawl_project import FRONTIER, CrawlProject
from support.odd_site import OddSite
from support.redis_server import RedisServer

from toolkit.model.crawls import CrawlView
from toolkit.model.names import CrawlId

REACTORS: dict[str, dict[str, object]] = {
    "asyncio": {"TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor"},
    "epoll": {"TWISTED_REACTOR": "twisted.internet.epollreactor.EPollReactor"},
    "none": {"TWISTED_REACTOR_ENABLED": False},
}

ENDINGS = '''
import os

import scrapy
from scrapy import signals
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.utils.asyncio import sleep

SITE = os.environ["SITE"]


class Replaces:
    """Answers some requests with other requests, and some with errors."""

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    def process_request(self, request):
        if "/replaced/" in request.url:
            return scrapy.Request(f"{SITE}/replacement", callback=request.callback, cb_kwargs=request.cb_kwargs)
        if "/ignored/" in request.url:
            raise IgnoreRequest("not wanted")
        if "/breaks/" in request.url:
            raise ValueError("a middleware's own mistake")

    def process_response(self, request, response):
        if "/breaks-late/" in request.url:
            raise ValueError("a middleware's own mistake")
        return response


class Breaks:
    """Raises in the middle of what a page brings."""

    def process_spider_output(self, response, result):
        for each in result:
            yield each
            if "/mw-breaks" in response.url:
                raise ValueError("a middleware's own mistake")

    async def process_spider_output_async(self, response, result):
        async for each in result:
            yield each
            if "/mw-breaks" in response.url:
                raise ValueError("a middleware's own mistake")


class Chooses:
    async def process_item(self, item):
        if item.get("kind") == "drop":
            raise DropItem("not wanted")
        if item.get("kind") == "breaks":
            raise ValueError("a pipeline's own mistake")
        if item.get("kind") == "slow":
            await sleep(0.2)
        return item


class Endings(scrapy.Spider):
    name = "endings"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {Replaces: 450},
        "SPIDER_MIDDLEWARES": {Breaks: 50},
        "ITEM_PIPELINES": {Chooses: 100, "toolkit.spider.StreamPipeline": 200},
        "RETRY_TIMES": 1,
        "DOWNLOAD_TIMEOUT": 60,
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    }

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.dropped, signals.request_dropped)
        return spider

    def dropped(self, request):
        self.crawler.stats.inc_value("dropped" + request.url.removeprefix(SITE))

    async def start(self):
        yield {"from": "start"}
        yield self.ask("/begin", self.begin)

    def ask(self, path, callback=None, errback=None, **more):
        return scrapy.Request(SITE + path, callback=callback or self.child, errback=errback, **more)

    def begin(self, response):
        yield self.ask("/usual", self.usual)
        yield self.ask("/raises", self.raises)
        yield self.ask("/drop/errback", errback=self.saved)
        yield self.ask("/drop/errback-raises", errback=self.worse)
        yield self.ask("/drop/nothing")
        yield self.ask("/flaky/once")
        yield self.ask("/status/503/always")
        yield self.ask("/redirect/target")
        yield self.ask("/replaced/page")
        yield self.ask("/ignored/page", errback=self.saved_too)
        yield self.ask("/breaks/page")
        yield self.ask("/breaks-late/page")
        yield self.ask("/denied/page")
        yield self.ask("/status/404/page")
        yield self.ask("/hang/page", meta={"max_retry_times": 0, "download_timeout": 1})
        yield self.ask("/items", self.items)
        yield self.ask("/coroutine", self.coroutine)
        yield self.ask("/async-generator", self.async_generator)
        yield self.ask("/mw-breaks", self.many)
        yield self.ask("/inline", self.inline)
        yield self.ask("/usual", self.usual)
        yield self.ask("/nothing", self.nothing)

    def child(self, response):
        return None

    def usual(self, response):
        yield {"from": "usual"}
        yield self.ask("/usual/child")

    def raises(self, response):
        yield self.ask("/raises/child")
        yield {"from": "raises"}
        raise ValueError("a spider's own mistake")

    def saved(self, failure):
        yield self.ask("/errback/child")
        yield {"from": "errback"}

    def saved_too(self, failure):
        yield self.ask("/ignored-errback/child")

    def worse(self, failure):
        raise ValueError("a spider's own mistake")

    def items(self, response):
        yield {"from": "items", "kind": "drop"}
        yield {"from": "items", "kind": "breaks"}
        yield {"from": "items", "kind": "slow"}

    async def coroutine(self, response):
        await sleep(0.2)
        return [self.ask("/coroutine/child"), {"from": "coroutine"}]

    async def async_generator(self, response):
        yield self.ask("/async-generator/child")
        await sleep(0.2)
        yield {"from": "async generator"}

    def many(self, response):
        yield self.ask("/mw-breaks/child")
        yield self.ask("/mw-breaks/never")

    async def inline(self, response):
        engine = self.crawler.engine
        found = await engine.download_async(scrapy.Request(f"{SITE}/inline/image"))
        return [{"from": "inline", "status": found.status}, self.ask("/inline/child")]

    def nothing(self, response):
        return None
'''


@dataclass(frozen=True)
class Ended:
    """What is left of a whole crawl: what the site was asked, the items, and the crawl as operators see it."""

    asked: Counter[str]
    items: list[dict[str, object]]
    view: CrawlView
    stat: Callable[[str], int]
    log: str


@pytest.fixture(scope="module", params=list(REACTORS))
def ended(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer
) -> Iterator[Ended]:
    folder = tmp_path_factory.mktemp("endings")
    redis_server.flush()
    settings: dict[str, object] = {
        "SCHEDULER": FRONTIER,
        "DUPEFILTER_CLASS": None,
        "SCHEDULER_PERSIST": True,
        **REACTORS[request.param],
    }
    with OddSite() as site, crawl_desk(redis_server.url, folder / "desk") as desk:
        project = CrawlProject(folder / "project", site=site.url, redis_url=redis_server.url, settings=settings)
        (project.folder / "market" / "spiders" / "endings.py").write_text(ENDINGS)
        with project.worker("endings") as worker:
            assert worker.finished() == "finished", worker.log
            yield Ended(site.asked(), items_of(desk), view_of(desk), worker.stat, worker.log)


def items_of(desk: CrawlDesk) -> list[dict[str, object]]:
    return [json.loads(body) for _, _, body in desk.crawls.items(CrawlId("endings"), after="0", limit=100)]


def view_of(desk: CrawlDesk) -> CrawlView:
    view = desk.crawls.view(CrawlId("endings"))
    assert view is not None
    return view


def test_nothing_is_left_in_hand_or_waiting(ended: Ended) -> None:
    view = ended.view
    assert (view.pending, view.in_flight, view.suspects, view.dead, view.workers) == (0, 0, 0, 0, ())
    assert view.pages == ended.stat("scheduler/dequeued/redis")


def test_a_page_brings_its_requests_and_items_once(ended: Ended) -> None:
    assert (ended.asked["/usual"], ended.asked["/usual/child"]) == (1, 1)
    assert ended.items.count({"from": "usual"}) == 1


def test_items_of_start_are_delivered(ended: Ended) -> None:
    assert ended.items.count({"from": "start"}) == 1


def test_what_a_callback_brought_before_it_raised_is_kept(ended: Ended) -> None:
    assert (ended.asked["/raises"], ended.asked["/raises/child"]) == (1, 1)
    assert ended.items.count({"from": "raises"}) == 1


def test_an_errback_brings_requests_and_items(ended: Ended) -> None:
    assert ended.asked["/errback/child"] == 1
    assert ended.items.count({"from": "errback"}) == 1


def test_an_errback_that_raises_ends_its_request(ended: Ended) -> None:
    # At least: some HTTP clients ask again by themselves when a connection breaks.
    assert ended.asked["/drop/errback-raises"] >= 2


def test_a_download_error_without_an_errback_ends_its_request(ended: Ended) -> None:
    assert ended.asked["/drop/nothing"] >= 2


def test_a_retry_is_a_new_entry_and_comes_back(ended: Ended) -> None:
    assert ended.asked["/flaky/once"] == 2


def test_a_request_whose_retries_are_used_up_ends(ended: Ended) -> None:
    assert ended.asked["/status/503/always"] == 2


def test_a_redirect_is_a_new_entry(ended: Ended) -> None:
    assert (ended.asked["/redirect/target"], ended.asked["/target"]) == (1, 1)


def test_a_request_that_a_middleware_replaced_goes_on_as_the_new_one(ended: Ended) -> None:
    assert (ended.asked["/replaced/page"], ended.asked["/replacement"]) == (0, 1)


def test_a_request_that_a_middleware_ignored_ends_with_its_errback(ended: Ended) -> None:
    assert (ended.asked["/ignored/page"], ended.asked["/ignored-errback/child"]) == (0, 1)


def test_a_middleware_that_raises_ends_the_request(ended: Ended) -> None:
    assert (ended.asked["/breaks/page"], ended.asked["/breaks-late/page"]) == (0, 1)


def test_what_robots_txt_denies_ends_unfetched_and_robots_txt_is_no_entry(ended: Ended) -> None:
    assert (ended.asked["/denied/page"], ended.asked["/robots.txt"]) == (0, 1)
    assert ended.stat("robotstxt/forbidden") == 1


def test_an_http_error_ends_its_request(ended: Ended) -> None:
    assert ended.asked["/status/404/page"] == 1


def test_a_timeout_ends_its_request(ended: Ended) -> None:
    assert ended.asked["/hang/page"] == 1


def test_items_that_are_dropped_or_break_a_pipeline_end_and_slow_ones_are_waited_for(ended: Ended) -> None:
    assert [item for item in ended.items if item["from"] == "items"] == [{"from": "items", "kind": "slow"}]


def test_a_coroutine_is_waited_for(ended: Ended) -> None:
    assert ended.asked["/coroutine/child"] == 1
    assert ended.items.count({"from": "coroutine"}) == 1


def test_an_asynchronous_generator_is_waited_for(ended: Ended) -> None:
    assert ended.asked["/async-generator/child"] == 1
    assert ended.items.count({"from": "async generator"}) == 1


def test_what_passed_a_spider_middleware_before_it_raised_is_kept(ended: Ended) -> None:
    assert (ended.asked["/mw-breaks/child"], ended.asked["/mw-breaks/never"]) == (1, 0)


def test_a_download_inside_a_callback_is_no_entry(ended: Ended) -> None:
    assert (ended.asked["/inline/image"], ended.asked["/inline/child"]) == (1, 1)
    assert ended.items.count({"from": "inline", "status": 200}) == 1


def test_a_page_that_brings_nothing_ends(ended: Ended) -> None:
    assert ended.asked["/nothing"] == 1


def test_a_duplicate_is_dropped_and_whoever_listens_hears_of_it(ended: Ended) -> None:
    assert ended.stat("dupefilter/filtered") == 1
    assert ended.stat("dropped/usual") == 1


def test_items_carry_keys_of_their_pages(ended: Ended) -> None:
    assert "is not JSON" not in ended.log
    assert len(ended.items) == 8
