"""Workers of one crawl are killed, stopped, frozen and cut off from Redis; no page is lost, and no item comes twice."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from support.crawl_project import FRONTIER, CrawlProject, CrawlWorker
from support.linked_site import LinkedSite
from support.redis_server import RedisServer
from support.waiting import wait_until

Maker = Callable[..., CrawlProject]
LEASE_S = 2
ENDS_WITHIN_S = 90.0
MOST_BETWEEN_ENDS_S = 5.0 * 4
"""Five seconds, and as much again, three times, for a machine on which the ends of processes wait for each other."""
SETTINGS: dict[str, object] = {
    "SCHEDULER": FRONTIER,
    "DUPEFILTER_CLASS": None,
    "ITEM_PIPELINES": {"toolkit.spider.StreamPipeline": 300},
    "FRONTIER_LEASE_S": LEASE_S,
    "LOG_LEVEL": "INFO",
}

WIDE = '''
import asyncio
import os
import time
from pathlib import Path

import scrapy


class Wide(scrapy.Spider):
    """Brings far more than fits into its worker's outbox."""

    name = "wide"

    async def start(self):
        yield scrapy.Request(f"{os.environ['SITE']}/wide")

    def parse(self, response):
        if not response.url.endswith("/wide"):
            return
        with Path("brought").open("w", buffering=1) as brought:
            for number in range(1500):
                brought.write(f"{number}\\n")
                yield scrapy.Request(f"{os.environ['SITE']}/narrow/{number % 20}/{number}", priority=-1)


class Blocks(scrapy.Spider):
    """Holds its whole process for longer than a lease, in one callback."""

    name = "blocks"
    start_urls = [f"{os.environ['SITE']}/p/0"]

    def parse(self, response):
        yield {"url": response.url}
        if response.url.endswith("/p/0"):
            for number in range(1, 30):
                yield response.follow(f"/p/{number}")
        if response.url.endswith("/p/7"):
            Path("blocked").touch()
            time.sleep(5)


class Begins(scrapy.Spider):
    """Has a long start(), and says in a file which of its processes run it."""

    name = "begins"

    async def start(self):
        for number in range(40):
            with Path("ran").open("a") as ran:
                ran.write(f"{os.getpid()}\\n")
            await asyncio.sleep(0.1)
            yield scrapy.Request(f"{os.environ['SITE']}/start/{number}", dont_filter=True)

    def parse(self, response):
        yield {"url": response.url}
'''


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def make(tmp_path: Path, redis_url: str) -> Maker:
    def project(site: LinkedSite, **more: object) -> CrawlProject:
        made = CrawlProject(tmp_path / "project", site=site.url, redis_url=redis_url, settings={**SETTINGS, **more})
        (made.folder / "market" / "spiders" / "wide.py").write_text(WIDE)
        return made

    return project


def item_paths(client: Any, crawl: str = "plain") -> Counter[str]:
    """Return how often an item of each page was delivered."""
    return Counter(
        "/" + json.loads(fields[b"v"])["url"].split("/", 3)[3] for _, fields in client.xrange(f"{crawl}:items")
    )


def wait_for(site: LinkedSite, pages: int) -> None:
    wait_until(lambda: len(site.fetched()) >= pages, deadline_s=60, what=f"{pages} pages to be fetched")


def test_three_workers_share_a_crawl_and_all_finish_within_five_seconds(make: Maker, client: Any) -> None:
    with LinkedSite(150, page_s=0.2) as site, ExitStack() as running:
        project = make(site)
        site.hold()
        workers = [running.enter_context(project.worker("plain")) for _ in range(3)]
        project.wait_joined("plain", *workers)
        site.release()
        wait_until(lambda: any(not each.is_running for each in workers), deadline_s=ENDS_WITHIN_S, what="an end")
        first_at = time.monotonic()
        assert [each.finished() for each in workers] == ["finished"] * 3
        assert time.monotonic() - first_at < MOST_BETWEEN_ENDS_S
        assert site.fetched() == dict.fromkeys(site.all_pages, 1)
        assert min(each.stat("scheduler/dequeued/redis") for each in workers) > 10
    assert item_paths(client) == dict.fromkeys(site.all_pages, 1)


def test_a_worker_that_is_killed_loses_nothing(make: Maker, client: Any) -> None:
    with LinkedSite(120, page_s=0.1) as site:
        project = make(site)
        site.hold(after=20)
        with project.worker("plain") as victim:
            wait_for(site, 20)
            victim.kill()
        site.release()
        with project.worker("plain") as heir:
            assert heir.finished(ENDS_WITHIN_S) == "finished"
    assert item_paths(client) == dict.fromkeys(site.all_pages, 1)


def test_a_worker_that_is_asked_to_end_hands_everything_back_and_repeats_nothing(make: Maker, client: Any) -> None:
    with LinkedSite(120, page_s=0.1) as site:
        project = make(site, FRONTIER_LEASE_S=600)
        site.hold(after=20)
        with project.worker("plain") as first:
            wait_for(site, 20)
            first.signal(signal.SIGTERM)
            wait_until(lambda: "Received SIGTERM" in first.log, deadline_s=60, what="the signal to be heard")
            site.release()
            assert first.finished() == "shutdown"
        assert len(site.fetched()) < site.pages
        with project.worker("plain") as second:
            assert second.finished(ENDS_WITHIN_S) == "finished"
        assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert item_paths(client) == dict.fromkeys(site.all_pages, 1)


def test_a_worker_that_is_told_twice_to_end_loses_nothing(make: Maker, client: Any) -> None:
    with LinkedSite(60, page_s=0.3) as site:
        project = make(site)
        site.hold(after=10)
        with project.worker("plain") as first:
            wait_for(site, 10)
            first.signal(signal.SIGTERM)
            wait_until(lambda: "Received SIGTERM" in first.log, deadline_s=60, what="the first signal to be heard")
            first.signal(signal.SIGTERM)
            wait_until(lambda: not first.is_running, deadline_s=60, what="the process to end")
        site.release()
        with project.worker("plain") as second:
            assert second.finished(ENDS_WITHIN_S) == "finished"
    assert item_paths(client) == dict.fromkeys(site.all_pages, 1)


def test_a_worker_that_was_frozen_for_longer_than_its_lease_delivers_no_item_twice(make: Maker, client: Any) -> None:
    with LinkedSite(150, page_s=0.1) as site:
        project = make(site, CONCURRENT_REQUESTS=4)
        site.hold()
        with project.worker("plain") as frozen, project.worker("plain") as other:
            project.wait_joined("plain", frozen, other)
            site.hold(after=20)
            wait_for(site, 20)
            frozen.signal(signal.SIGSTOP)
            lapsed_at = time.monotonic() + 2 * LEASE_S
            wait_until(lambda: time.monotonic() > lapsed_at, deadline_s=60, what="its lease to be over")
            frozen.signal(signal.SIGCONT)
            site.release()
            assert other.finished(ENDS_WITHIN_S) == "finished"
            assert frozen.finished(ENDS_WITHIN_S) == "finished"
            assert frozen.stat("frontier/lapsed") == 1, frozen.log
    assert item_paths(client) == dict.fromkeys(site.all_pages, 1)


def test_redis_may_be_away_for_a_while(make: Maker, client: Any, redis_server: RedisServer) -> None:
    with LinkedSite(150, page_s=0.1) as site:
        project = make(site)
        site.hold()
        with project.worker("plain") as one, project.worker("plain") as other:
            project.wait_joined("plain", one, other)
            site.hold(after=20)
            wait_for(site, 20)
            redis_server.stop()
            site.release()
            wait_until(lambda: "waits for Redis" in one.log, deadline_s=60, what="a worker to say what it waits for")
            redis_server.start()
            assert [one.finished(ENDS_WITHIN_S), other.finished(ENDS_WITHIN_S)] == ["finished"] * 2
            assert "Redis answers again" in one.log
            assert one.stat("frontier/unreachable") > 0
    assert item_paths(client) == dict.fromkeys(site.all_pages, 1)


def test_redis_may_come_back_as_it_was_some_seconds_ago(make: Maker, client: Any, redis_server: RedisServer) -> None:
    with LinkedSite(200, page_s=0.1) as site:
        project = make(site, FRONTIER_JOURNAL_S=60, FRONTIER_LEASE_S=60)
        site.hold()
        with project.worker("plain") as one, project.worker("plain") as other:
            project.wait_joined("plain", one, other)
            site.hold(after=60)
            wait_for(site, 20)
            client.config_set("appendfsync", "always")
            redis_server.keep()
            wait_for(site, len(site.fetched()) + 40)
            redis_server.kill()
            site.release()
            redis_server.start_older()
            assert [one.finished(ENDS_WITHIN_S), other.finished(ENDS_WITHIN_S)] == ["finished"] * 2
            assert one.stat("frontier/rolled_back") + other.stat("frontier/rolled_back") > 0, one.log
            assert set(site.fetched()) == site.all_pages
    assert item_paths(client) == dict.fromkeys(site.all_pages, 1)


def test_while_redis_is_away_a_worker_s_memory_is_bounded(make: Maker, redis_server: RedisServer) -> None:
    with LinkedSite(1, page_s=0.2) as site:
        project = make(site, FRONTIER_MAX_OUTBOX=100, CONCURRENT_ITEMS=4)
        brought = project.folder / "brought"
        site.hold()
        with project.worker("wide", CONCURRENT_REQUESTS=4) as worker:
            wait_for(site, 1)
            redis_server.stop()
            site.release()
            wait_until(brought.exists, deadline_s=60, what="the wide page to be worked on")
            counts: list[int] = []

            def is_steady() -> bool:
                counts.append(len(brought.read_text().splitlines()))
                return len(counts) > 5 and counts[-5] == counts[-1] > 0

            wait_until(is_steady, deadline_s=60, what="the page to wait", pause_s=0.2)
            assert counts[-1] < 100 + 500 + 20
            redis_server.start()
            wait_until(lambda: len(brought.read_text().splitlines()) == 1500, deadline_s=60, what="all of the page")
            worker.signal(signal.SIGTERM)
            assert worker.finished() == "shutdown"


def test_a_worker_ends_within_its_lease_when_redis_is_gone_for_good(make: Maker, redis_server: RedisServer) -> None:
    with LinkedSite(120, page_s=0.1) as site, make(site).worker("plain") as worker:
        site.hold(after=10)
        wait_for(site, 10)
        redis_server.stop()
        site.release()
        wait_until(lambda: "waits for Redis" in worker.log, deadline_s=60, what="Redis to be missed")
        worker.signal(signal.SIGTERM)
        assert worker.finished() == "shutdown"
        assert "gives back what it held" in worker.log
    redis_server.start()


def test_a_worker_waits_for_a_redis_that_comes_later(make: Maker, client: Any, redis_server: RedisServer) -> None:
    redis_server.stop()
    with LinkedSite(10) as site, make(site).worker("plain") as worker:
        wait_until(lambda: "waits for Redis" in worker.log, deadline_s=60, what="Redis to be missed")
        redis_server.start()
        assert worker.finished(ENDS_WITHIN_S) == "finished"
    assert item_paths(client) == dict.fromkeys(site.all_pages, 1)


def test_start_is_run_by_one_worker_and_again_by_another_when_that_one_dies(make: Maker, client: Any) -> None:
    with LinkedSite(1, page_s=0.3) as site:
        project = make(site, CONCURRENT_REQUESTS=2)
        ran = project.folder / "ran"
        with project.worker("begins") as first, project.worker("begins") as second:
            project.wait_joined("begins", first, second)
            wait_until(lambda: ran.exists() and len(ran.read_text().split()) > 5, deadline_s=60, what="start() to run")
            (runner,) = set(ran.read_text().split())
            dead, alive = (first, second) if pid_of(first) == runner else (second, first)
            dead.kill()
            assert alive.finished(ENDS_WITHIN_S) == "finished"
            assert set(ran.read_text().split()) == {runner, pid_of(alive)}
    assert item_paths(client, "begins") == {f"/start/{number}": 1 for number in range(40)}


def test_a_callback_that_holds_its_process_for_longer_than_the_lease_costs_nothing(make: Maker, client: Any) -> None:
    with LinkedSite(30, page_s=0.2) as site:
        project = make(site, CONCURRENT_REQUESTS=4)
        site.hold()
        with project.worker("blocks") as one, project.worker("blocks") as other:
            project.wait_joined("blocks", one, other)
            site.release()
            assert [one.finished(ENDS_WITHIN_S), other.finished(ENDS_WITHIN_S)] == ["finished"] * 2
            assert one.stat("frontier/lapsed") + other.stat("frontier/lapsed") == 0
        assert (project.folder / "blocked").exists()
        assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert item_paths(client, "blocks") == dict.fromkeys(site.all_pages, 1)


def pid_of(worker: CrawlWorker) -> str:
    assert worker._process is not None
    return str(worker._process.pid)
