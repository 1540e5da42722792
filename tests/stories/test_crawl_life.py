"""A crawl that several spiders on real plug-in nodes share, from the desk of an operator: begun, steered, ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.desk import Desk, process_of
from support.linked_site import LinkedSite
from support.plugin_node import PluginNode, running_plugin_nodes
from support.redis_server import RedisServer
from support.scrapy_projects import write_project
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("stories-crawl-life"), pytest.mark.timeout(600)]

SOON_S = 60.0

# The lease is longer than any test: only whoever is told that a worker is gone takes back what it held.
# Where Redis is, a node with the plug-in tells its spiders; on a stock one the project must know.
SETTINGS = """\
import os

REDIS_URL = os.environ.get("MARKET_REDIS")
BOT_NAME = "market"
SPIDER_MODULES = ["market.spiders"]
TELNETCONSOLE_ENABLED = False
SCHEDULER = "toolkit.spider.Scheduler"
CONCURRENT_REQUESTS = 4
CONCURRENT_REQUESTS_PER_DOMAIN = 4
DOWNLOAD_DELAY = 0
FRONTIER_LEASE_S = 300
"""
PAGES = '''\
import scrapy


class Pages(scrapy.Spider):
    """Follows every link of a site."""

    name = "pages"

    async def start(self):
        yield scrapy.Request(f"{self.site}/p/0")

    def parse(self, response):
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
'''


class Stage(NamedTuple):
    desk: Desk
    nodes: list[PluginNode]

    def schedule(self, site: LinkedSite, crawl: str, *, workers: int) -> list[str]:
        """Schedule the workers of a crawl; return their jobs' ids."""
        words = ("schedule", "pages", "--workers", str(workers), "--crawl", crawl, "-a", f"site={site.url}")
        return [job["id"] for job in self.desk.json(*words)["jobs"]]

    def show(self, crawl: str) -> dict[str, Any]:
        """Return what `crawls show` tells."""
        shown: dict[str, Any] = self.desk.json("crawls", "show", crawl)
        return shown

    def wait_for_workers(self, crawl: str, number: int) -> dict[str, Any]:
        """Wait until so many workers are at it, each with a page fetched."""

        def are_at_it() -> dict[str, Any] | None:
            known = [row["id"] for row in self.desk.json("crawls")]
            shown = self.show(crawl) if crawl in known else None
            busy = [each for each in shown["workers"] if each["pages"]] if shown else []
            return shown if len(busy) == number else None

        return wait_until(are_at_it, deadline_s=SOON_S, what=f"{number} workers to be at {crawl}", pause_s=0.1)

    def wait_for_more(self, site: LinkedSite, asked: int) -> None:
        """Wait until the site was asked for more pages than that."""
        wait_until(lambda: sum(site.fetched().values()) > asked, deadline_s=SOON_S, what="the crawl to go on")

    def kill_with_entries(self, crawl: str, job_id: str) -> None:
        """Kill a spider that holds entries, and wait until they are back."""

        def held() -> int:
            return sum(each["in_flight"] for each in self.show(crawl)["workers"] if each["job"] == job_id)

        wait_until(held, deadline_s=SOON_S, what=f"{job_id} to hold entries")
        process = process_of(job_id)
        assert process is not None
        process.kill()
        wait_until(lambda: not held(), deadline_s=SOON_S, what=f"what {job_id} held to be back")

    def wait_for_end(self, job_id: str, *, deadline_s: float = SOON_S) -> str:
        """Wait until a job has ended, and return its state."""

        def ended() -> str | None:
            state = str(self.desk.job(job_id)["state"])
            return state if state in {"finished", "failed", "cancelled", "lost"} else None

        return wait_until(ended, deadline_s=deadline_s, what=f"{job_id} to end", pause_s=0.2)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    """Two plug-in nodes and a stock one hold a project whose spider shares its crawl."""
    folder = tmp_path_factory.mktemp("crawl")
    user, secret = TEST_CREDENTIALS
    files = {"market/settings.py": SETTINGS, "market/spiders/pages.py": PAGES}
    environ = {"MARKET_REDIS": story_redis.url}
    with (
        running_plugin_nodes(2, redis_url=story_redis.url, folder=folder) as nodes,
        ScrapydNode(folder / "stock-1", name="stock-1", username=user, password=secret, environ=environ) as stock,
    ):
        desk = Desk.of([*nodes, stock], story_redis.url, folder / "desk", secrets=(secret, str(story_redis.password)))
        project = write_project(folder / "market", files, package="market")
        desk.run("deploy", str(project.root))
        yield Stage(desk, nodes)
        desk.cancel_all()


def test_several_workers_share_a_crawl_and_all_finish(stage: Stage) -> None:
    with LinkedSite(60) as site:
        words = ("schedule", "pages", "--workers", "3", "--crawl", "whole", "-a", f"site={site.url}", "--wait")
        jobs = stage.desk.json(*words)
        fetched = site.fetched()
    assert [(job["state"], job["finish_reason"]) for job in jobs] == [("finished", "finished")] * 3
    assert sorted({job["node"] for job in jobs}) == ["node-1", "node-2"]
    assert fetched == dict.fromkeys(site.all_pages, 1)
    assert sum(job["items"] for job in jobs) == len(site.all_pages)
    shown = stage.show("whole")
    assert (shown["state"], shown["pending"], shown["seen"], shown["workers"]) == ("over", 0, 0, [])
    ends = ("events", "--kind", "crawl.over", "--subject", "whole")
    (over,) = wait_until(lambda: stage.desk.json(*ends), deadline_s=SOON_S, what="the news that it is over")
    assert (over["about"]["spider"], over["about"]["pages"]) == ("pages", str(len(site.all_pages)))
    assert over["about"]["job"] in {job["id"] for job in jobs}


def test_a_crawl_is_steered_loses_workers_and_ends_by_itself_with_every_page(stage: Stage) -> None:
    with LinkedSite(700, page_s=2.0) as site:
        first, second, third = stage.schedule(site, "steered", workers=3)
        shown = stage.wait_for_workers("steered", 3)
        assert {each["job"] for each in shown["workers"]} == {first, second, third}
        assert {each["node"] for each in shown["workers"]} == {"node-1", "node-2"}

        paused = stage.desk.json("crawls", "pause", "steered", "--timeout", "50s")
        assert (paused["paused"], paused["live_workers"], paused["in_flight"]) == (True, 3, 0)
        asked = sum(site.fetched().values())
        pending = stage.desk.json("crawls", "peek", "steered", "--limit", "3")
        assert all(row["url"].startswith(site.url) for row in pending)
        assert len(pending) == 3

        stage.desk.run("crawls", "block", "steered", "*/p/49*")
        stage.desk.run("crawls", "limit", "steered", "127.0.0.1", "--concurrency", "2")
        assert sum(site.fetched().values()) == asked
        stage.desk.run("crawls", "resume", "steered")
        stage.wait_for_more(site, asked)
        assert stage.show("steered")["in_flight"] <= 2

        (cancelled,) = stage.desk.json("cancel", first, "--grace", "30")["jobs"]
        assert (cancelled["after"], cancelled["error"]) == ("cancelled", None)
        assert stage.show("steered")["live_workers"] == 2

        stage.desk.run("crawls", "limit", "steered", "127.0.0.1", "--none")
        stage.kill_with_entries("steered", second)
        # Before the end: what is blocked keeps no crawl from being over.
        stage.desk.run("crawls", "unblock", "steered", "*/p/49*")
        assert stage.wait_for_end(second) == "failed"
        shown = stage.show("steered")
        assert (shown["live_workers"], shown["state"]) == (1, "running")
        site.page_s = 0.02
        assert stage.wait_for_end(third, deadline_s=200) == "finished"
        assert set(site.fetched()) == site.all_pages
    assert stage.desk.job(third)["finish_reason"] == "finished"
    assert stage.show("steered")["state"] == "over"


def test_on_a_stock_node_several_workers_share_a_crawl_too(stage: Stage) -> None:
    with LinkedSite(30) as site:
        words = ("--workers", "2", "--crawl", "stock", "--on", "stock-1", "-a", f"site={site.url}", "--wait")
        done = stage.desk.run("schedule", "pages", *words, "--output", "json")
        fetched = site.fetched()
    assert "2 worker(s) for the crawl stock" in done.err
    jobs = done.json()
    assert [(job["node"], job["finish_reason"]) for job in jobs] == [("stock-1", "finished")] * 2
    assert fetched == dict.fromkeys(site.all_pages, 1)
    assert stage.desk.job(jobs[0]["id"])["crawl"] == "stock"
    assert stage.show("stock")["state"] == "over"


@pytest.mark.parametrize("place", ["node-*", "stock-1"])
def test_jobs_with_the_same_arguments_share_the_crawl_that_schedule_tells(stage: Stage, place: str) -> None:
    with LinkedSite(30) as site:
        words = ("schedule", "pages", "--workers", "2", "--on", place, "-a", f"site={site.url}", "-a", "note=a b")
        done = stage.desk.run(*words, "--output", "json")
        jobs = done.json()["jobs"]
        assert [stage.wait_for_end(job["id"]) for job in jobs] == ["finished"] * 2
        fetched = site.fetched()
    (crawl,) = {job["crawl"] for job in jobs}
    assert f"its crawl is {crawl}, if the spider uses the frontier" in done.err
    assert fetched == dict.fromkeys(site.all_pages, 1)
    shown = stage.show(crawl)
    assert (shown["state"], shown["project"]) == ("over", "market")
    assert shown["arguments"] == f"-a 'note=a b' -a site={site.url}"
