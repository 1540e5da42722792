"""What an operator wishes of a crawl reaches processes that no node runs, before they come and while they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crawl_project import FRONTIER, CrawlProject
from support.linked_site import LinkedSite
from support.waiting import wait_until

from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId
from toolkit.store.interfaces_crawls import Crawls
from toolkit.store.open import open_store

PLAIN = CrawlId("plain")
DELAY_S = 0.5
WATCHED_S = 2.0
SHORTEST_PAUSE_S = DELAY_S / 2
"""Scrapy waits for half to one and a half of a delay."""


@pytest.fixture
def crawls(redis_url: str, tmp_path: Path) -> Iterator[Crawls]:
    with contextlib.closing(open_store(Secret(redis_url), tmp_path / "state")) as store:
        assert store.shared is not None
        yield store.shared.crawls


@pytest.fixture
def site() -> Iterator[LinkedSite]:
    with LinkedSite(160) as site:
        yield site


@pytest.fixture
def project(tmp_path: Path, redis_url: str, site: LinkedSite) -> CrawlProject:
    settings = {"SCHEDULER": FRONTIER, "DUPEFILTER_CLASS": None, "ITEM_PIPELINES": None, "SCHEDULER_PERSIST": True}
    return CrawlProject(tmp_path / "project", site=site.url, redis_url=redis_url, settings=settings)


def fetched_in(site: LinkedSite, seconds: float) -> int:
    before = site.fetched().total()
    time.sleep(seconds)
    return site.fetched().total() - before


def assert_is_slow(site: LinkedSite) -> None:
    """See that pages are asked for no faster than with the delay; a sleep may take longer than it should."""
    begun = time.monotonic()
    fetched = fetched_in(site, WATCHED_S)
    assert fetched <= (time.monotonic() - begun) / SHORTEST_PAUSE_S + 1


def test_a_delay_is_kept_while_it_is_wished_and_ends_with_the_wish(
    project: CrawlProject, site: LinkedSite, crawls: Crawls
) -> None:
    site.hold(after=20)
    with project.worker("plain") as worker:
        wait_until(lambda: len(site.fetched()) > 20, deadline_s=60, what="the crawl to be under way")
        crawls.control(PLAIN, delay_s=DELAY_S)
        site.release()
        wait_until(lambda: fetched_in(site, 1.0) <= 3, deadline_s=60, what="the crawl to slow down")
        assert_is_slow(site)
        crawls.control(PLAIN, delay_s=-1)
        assert worker.finished() == "finished"
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)


def test_a_worker_that_comes_later_keeps_to_what_was_wished_before(
    project: CrawlProject, site: LinkedSite, crawls: Crawls
) -> None:
    site.hold(after=20)
    with project.worker("plain") as first:
        wait_until(lambda: len(site.fetched()) > 20, deadline_s=60, what="the crawl to be under way")
        crawls.control(PLAIN, delay_s=DELAY_S)
        first.kill()
    site.release()
    crawls.release(crawls.view(PLAIN).workers[0].name, has_died=True)  # type: ignore[union-attr]  # there is one
    with project.worker("plain", AUTOTHROTTLE_ENABLED=True, AUTOTHROTTLE_START_DELAY=0) as second:
        second.opened()
        assert_is_slow(site)
        crawls.control(PLAIN, delay_s=-1)
        assert second.finished() == "finished"
    assert set(site.fetched()) == site.all_pages


def test_a_crawl_that_is_paused_gets_nothing_until_it_is_resumed(
    project: CrawlProject, site: LinkedSite, crawls: Crawls
) -> None:
    site.hold(after=20)
    with project.worker("plain") as worker:
        wait_until(lambda: len(site.fetched()) > 20, deadline_s=60, what="the crawl to be under way")
        crawls.control(PLAIN, is_paused=True)
        site.release()
        wait_until(lambda: fetched_in(site, 1.0) == 0, deadline_s=60, what="the crawl to stand still")
        assert fetched_in(site, WATCHED_S) == 0
        assert worker.is_running
        crawls.control(PLAIN, is_paused=False)
        assert worker.finished() == "finished"
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)


def test_what_is_blocked_is_put_aside_and_comes_back_when_it_is_lifted(
    project: CrawlProject, site: LinkedSite, crawls: Crawls
) -> None:
    site.hold(after=5)
    with project.worker("plain") as worker:
        wait_until(lambda: len(site.fetched()) > 5, deadline_s=60, what="the crawl to be under way")
        crawls.block(PLAIN, ["*/p/2*"])
        site.release()
        assert worker.finished() == "finished"
    view = crawls.view(PLAIN)
    assert view is not None
    assert view.blocked > 0
    assert len(site.fetched()) < site.pages
    assert crawls.unblock(PLAIN, ["*/p/2*"]) == view.blocked
    with project.worker("plain") as worker:
        assert worker.finished() == "finished"
    assert set(site.fetched()) == site.all_pages
