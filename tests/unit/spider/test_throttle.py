"""A wish reaches every part of Scrapy's downloader, and leaves every part as it was when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.core.downloader import Downloader, Slot
from scrapy.extensions.throttle import AutoThrottle
from scrapy.utils.test import get_crawler

from toolkit.model.queue import Wish
from toolkit.spider.throttle import Throttle

SETTINGS: dict[str, Any] = {
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0.25,
    "DOWNLOAD_SLOTS": {"own.example": {"concurrency": 3, "delay": 2.0}},
    "AUTOTHROTTLE_ENABLED": True,
    "AUTOTHROTTLE_MAX_DELAY": 60.0,
    "TELNETCONSOLE_ENABLED": False,
    # Nothing is downloaded, and handlers need a reactor.
    "DOWNLOAD_HANDLERS": dict.fromkeys(["http", "https", "ftp", "s3", "file", "data"]),
}
WISHES = st.builds(
    Wish,
    is_paused=st.booleans(),
    concurrency=st.none() | st.integers(1, 100),
    delay_s=st.none() | st.floats(0, 100),
)


@dataclass
class Engine:
    """As much of an engine as a throttle sees."""

    downloader: Any
    running: bool = True
    paused: bool = False
    spider: Any = None
    calls: list[str] = field(default_factory=list)

    def pause(self) -> None:
        self.paused = True
        self.calls.append("pause")

    def unpause(self) -> None:
        self.paused = False
        self.calls.append("unpause")


class Crawl:
    """A real downloader with slots in it, under a throttle."""

    def __init__(self) -> None:
        self.crawler = get_crawler(Spider, SETTINGS)
        self.downloader = Downloader(self.crawler)
        self.engine = Engine(self.downloader)
        self.crawler.engine = self.engine  # type: ignore[assignment]
        autothrottle = self.crawler.get_extension(AutoThrottle)
        assert autothrottle is not None
        self.autothrottle = autothrottle
        self.autothrottle._spider_opened(Spider("any"))
        self.throttle = Throttle(self.crawler)
        self.slot("a.example")
        self.slot("own.example")

    def slot(self, host: str) -> Slot:
        """Return the slot of a host, made if there is none, as when a request goes there."""
        self.downloader._start_slot_gc = lambda: None  # type: ignore[method-assign]  # needs a running reactor
        return self.downloader._get_slot(Request(f"http://{host}/"))[1]

    def state(self) -> dict[str, Any]:
        """Return all that a wish may change."""
        return {
            "paused": self.engine.paused,
            "total": self.downloader.total_concurrency,
            "domain": self.downloader.domain_concurrency,
            "address": self.downloader.ip_concurrency,
            "delay": self.downloader._delay,
            "bounds": (self.autothrottle.mindelay, self.autothrottle.maxdelay),
            "slots": {key: (slot.concurrency, slot.delay) for key, slot in self.downloader.slots.items()},
        }


@pytest.fixture
def crawl() -> Crawl:
    return Crawl()


def test_no_wish_changes_nothing(crawl: Crawl) -> None:
    before = crawl.state()
    crawl.throttle.apply(Wish())
    assert crawl.state() == before
    assert crawl.engine.calls == []


def test_a_concurrency_goes_for_the_whole_crawl_and_for_each_domain(crawl: Crawl) -> None:
    crawl.throttle.apply(Wish(concurrency=4))
    state = crawl.state()
    assert (state["total"], state["domain"], state["address"]) == (4, 4, 0)
    assert {concurrency for concurrency, _ in state["slots"].values()} == {4}


def test_a_delay_goes_for_each_domain_and_binds_autothrottle(crawl: Crawl) -> None:
    crawl.throttle.apply(Wish(delay_s=7.0))
    state = crawl.state()
    assert state["delay"] == 7.0
    assert state["bounds"] == (7.0, 7.0)
    assert {delay for _, delay in state["slots"].values()} == {7.0}


def test_a_pause_holds_what_waits_in_the_slots_and_stops_the_engine(crawl: Crawl) -> None:
    crawl.throttle.apply(Wish(is_paused=True))
    assert crawl.engine.paused
    assert {slot.concurrency for slot in crawl.downloader.slots.values()} == {0}
    assert crawl.slot("new.example").concurrency == 0


@given(st.lists(WISHES, min_size=1, max_size=6), st.lists(st.sampled_from(["b.example", "own.example", "c.example"])))
def test_after_any_wishes_everything_is_as_it_would_have_been(wishes: list[Wish], hosts: list[str]) -> None:
    crawl, untouched = Crawl(), Crawl()
    for number, wish in enumerate(wishes):
        crawl.throttle.apply(wish)
        crawl.throttle.apply(wish)
        for host in hosts[number::2]:
            crawl.slot(host)
            untouched.slot(host)
    crawl.throttle.apply(Wish())
    assert crawl.state() == untouched.state()


def test_a_slot_that_was_made_anew_under_a_wish_gets_what_it_would_have_had(crawl: Crawl) -> None:
    crawl.throttle.apply(Wish(concurrency=1, delay_s=9.0))
    for host in ("a.example", "own.example"):
        crawl.downloader.slots.pop(host).close()
        crawl.slot(host)
    crawl.throttle.apply(Wish(concurrency=1, delay_s=9.0))
    assert crawl.state()["slots"] == {"a.example": (1, 9.0), "own.example": (1, 9.0)}
    crawl.throttle.apply(Wish())
    assert crawl.state()["slots"]["own.example"] == (3, 2.0)
    assert crawl.state()["slots"]["a.example"][0] == 8


def test_a_delay_that_autothrottle_found_is_left_to_it_when_only_the_concurrency_is_wished(crawl: Crawl) -> None:
    crawl.throttle.apply(Wish(concurrency=2))
    crawl.slot("a.example").delay = 3.5
    crawl.throttle.apply(Wish(concurrency=2))
    crawl.throttle.apply(Wish())
    assert crawl.slot("a.example").delay == 3.5


def test_slots_by_address_stay_by_address(crawl: Crawl) -> None:
    crawl.downloader.ip_concurrency = 5
    crawl.throttle.apply(Wish(concurrency=2))
    assert crawl.downloader.ip_concurrency == 2
    crawl.throttle.apply(Wish())
    assert crawl.downloader.ip_concurrency == 5


def test_a_spider_that_closes_is_not_held(crawl: Crawl) -> None:
    crawl.throttle.apply(Wish(is_paused=True, concurrency=2))
    crawl.engine.running = False
    crawl.throttle.apply(Wish(is_paused=True, concurrency=2))
    assert not crawl.engine.paused
    assert {slot.concurrency for slot in crawl.downloader.slots.values()} == {2}


def test_a_spider_that_has_not_begun_is_held(crawl: Crawl) -> None:
    crawl.engine.running = False
    crawl.throttle.apply(Wish(is_paused=True))
    assert crawl.engine.paused


def test_an_engine_that_was_paused_by_somebody_else_stays_paused(crawl: Crawl) -> None:
    crawl.engine.pause()
    crawl.throttle.apply(Wish(concurrency=2))
    crawl.throttle.apply(Wish())
    assert crawl.engine.paused


def test_a_downloader_of_a_projects_own_is_paused_by_the_engine_alone(crawl: Crawl) -> None:
    crawl.engine.downloader = object()
    crawl.throttle.apply(Wish(is_paused=True, concurrency=3))
    assert crawl.engine.paused
    crawl.throttle.apply(Wish())
    assert not crawl.engine.paused


def test_a_crawl_is_tuned_where_its_job_is_not_and_put_back(crawl: Crawl) -> None:
    before = crawl.state()
    crawl.throttle.apply_crawl(concurrency=4, delay_s=3.0)
    assert (crawl.state()["total"], crawl.state()["delay"]) == (4, 3.0)
    crawl.throttle.apply(Wish(concurrency=2, is_paused=True))
    assert (crawl.state()["total"], crawl.state()["delay"], crawl.engine.paused) == (2, 3.0, True)
    crawl.throttle.apply_crawl(concurrency=9, delay_s=None)
    assert (crawl.state()["total"], crawl.state()["delay"]) == (2, before["delay"])
    crawl.throttle.apply(Wish())
    assert (crawl.state()["total"], crawl.engine.paused) == (9, False)
    crawl.throttle.apply_crawl(concurrency=None, delay_s=None)
    assert crawl.state() == before
