"""A spider ends when it is told to, also where its pages wait for a frontier that takes nothing more."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import redis
from support.crawl_project import FRONTIER, CrawlProject, CrawlWorker
from support.linked_site import LinkedSite
from support.redis_server import RedisServer
from support.waiting import wait_until

LEASE_S = 2
SETTINGS: dict[str, object] = {
    "SCHEDULER": FRONTIER,
    "DUPEFILTER_CLASS": None,
    "ITEM_PIPELINES": {"toolkit.spider.RedisPipeline": 300},
    "FRONTIER_LEASE_S": LEASE_S,
    "FRONTIER_MAX_OUTBOX": 100,
    "CONCURRENT_ITEMS": 4,
    "LOG_LEVEL": "INFO",
}
WIDE = '''
import os
from pathlib import Path

import scrapy


class Wide(scrapy.Spider):
    """Brings far more than fits into its worker's outbox."""

    name = "wide"

    async def start(self):
        yield scrapy.Request(f"{os.environ['SITE']}/wide")

    async def parse(self, response):
        if not response.url.endswith("/wide"):
            return
        with Path("brought").open("w", buffering=1) as brought:
            for number in range(1500):
                brought.write(f"{number}\\n")
                yield {"number": number}
                yield scrapy.Request(f"{os.environ['SITE']}/narrow/0/{number}", priority=-1)
'''


@pytest.fixture
def site() -> LinkedSite:
    """Give a site that holds its pages: none may come before Redis is gone."""
    site = LinkedSite(1, page_s=0.2)
    site.hold()
    return site


def a_project(folder: Path, site: LinkedSite, redis_url: str) -> CrawlProject:
    project = CrawlProject(folder / "project", site=site.url, redis_url=redis_url, settings=SETTINGS)
    (project.folder / "market" / "spiders" / "wide.py").write_text(WIDE)
    return project


def wait_for_a_page_that_waits(brought: Path) -> None:
    counts: list[int] = []

    def is_steady() -> bool:
        counts.append(len(brought.read_text().splitlines()))
        return len(counts) > 5 and 0 < counts[-1] == counts[-5] < 1500

    wait_until(brought.exists, deadline_s=60, what="the wide page to be worked on")
    wait_until(is_steady, deadline_s=60, what="the page to wait", pause_s=0.2)


def ended(worker: CrawlWorker) -> str | None:
    wait_until(lambda: not worker.is_running, deadline_s=LEASE_S + 60, what="the process to end")
    return worker.finished()


def test_a_worker_whose_pages_wait_ends_though_redis_is_gone(
    tmp_path: Path, redis_url: str, redis_server: RedisServer, site: LinkedSite
) -> None:
    with site:
        project = a_project(tmp_path, site, redis_url)
        with project.worker("wide") as worker:
            wait_until(lambda: bool(site.fetched()), deadline_s=60, what="the page to be asked for")
            redis_server.stop()
            site.release()
            try:
                wait_for_a_page_that_waits(project.folder / "brought")
                worker.signal(signal.SIGTERM)
                assert ended(worker) == "shutdown"
            finally:
                redis_server.start()


def test_a_worker_whose_pages_wait_ends_when_its_frontier_is_spoilt(
    tmp_path: Path, redis_url: str, redis_server: RedisServer, site: LinkedSite
) -> None:
    with site, redis.Redis.from_url(redis_url) as client:
        project = a_project(tmp_path, site, redis_url)
        with project.worker("wide") as worker:
            wait_until(lambda: bool(site.fetched()), deadline_s=60, what="the page to be asked for")
            redis_server.stop()
            site.release()
            wait_for_a_page_that_waits(project.folder / "brought")
            redis_server.start()
            client.set("wide:items", "somebody else's")
            assert ended(worker) == "frontier_unusable"
