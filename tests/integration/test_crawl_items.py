"""Items travel in the commit of their page: each acknowledged page delivers its items once, whoever dies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from support.crawl_project import FRONTIER, CrawlProject
from support.linked_site import LinkedSite
from support.waiting import wait_until

Maker = Callable[..., CrawlProject]


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def make(tmp_path: Path, redis_url: str) -> Maker:
    def project(site: LinkedSite, pipeline: str, **settings: object) -> CrawlProject:
        whole = {
            "SCHEDULER": FRONTIER,
            "DUPEFILTER_CLASS": None,
            "ITEM_PIPELINES": {f"toolkit.spider.{pipeline}": 300},
            **settings,
        }
        return CrawlProject(tmp_path / "project", site=site.url, redis_url=redis_url, settings=whole)

    return project


def delivered(client: Any, key: str) -> Counter[str]:
    """Return the paths of the pages that items were made of, from a list or a stream."""
    if client.type(key) == b"list":
        bodies = client.lrange(key, 0, -1)
    else:
        bodies = [
            next(value for value in fields.values() if value.startswith(b"{")) for _, fields in client.xrange(key)
        ]
    return Counter("/" + json.loads(body)["url"].split("/", 3)[3] for body in bodies)


@pytest.mark.parametrize(("pipeline", "kind"), [("RedisPipeline", b"list"), ("StreamPipeline", b"stream")])
def test_every_page_delivers_its_items_once_though_workers_are_killed(
    make: Maker, client: Any, pipeline: str, kind: bytes
) -> None:
    with LinkedSite(120, page_s=0.05) as site:
        project = make(site, pipeline, FRONTIER_LEASE_S=2)
        # The crawl must not end before each of them has come and is gone.
        site.hold()
        with project.worker("plain") as lasting:
            for _ in range(2):
                with project.worker("plain") as doomed:
                    project.wait_joined("plain", lasting, doomed)
                    enough = site.fetched().total() + 20
                    # Some of these go to one that was killed before, whose requests still wait.
                    site.hold(after=40)
                    wait_until(lambda: site.fetched().total() > enough, deadline_s=60, what="the crawl to go on")  # noqa: B023
                    doomed.kill()
            site.release()
            assert lasting.finished() == "finished"
        assert set(site.fetched()) == site.all_pages
    assert client.type("plain:items") == kind
    assert delivered(client, "plain:items") == dict.fromkeys(site.all_pages, 1)


@pytest.mark.parametrize("pipeline", ["RedisPipeline", "StreamPipeline"])
def test_items_are_delivered_without_a_reactor_too(make: Maker, client: Any, pipeline: str) -> None:
    with LinkedSite(12) as site:
        with make(site, pipeline, TWISTED_REACTOR_ENABLED=False).worker("plain") as worker:
            assert worker.finished() == "finished"
        assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert delivered(client, "plain:items") == dict.fromkeys(site.all_pages, 1)


def test_items_go_to_the_key_and_in_the_form_that_are_set(make: Maker, client: Any) -> None:
    with LinkedSite(5) as site:
        project = make(site, "RedisPipeline", REDIS_ITEMS_KEY="out:%(spider)s", REDIS_ITEMS_SERIALIZER="json.dumps")
        with project.worker("plain") as worker:
            assert worker.finished() == "finished"
    assert delivered(client, "out:plain") == dict.fromkeys(site.all_pages, 1)


def test_an_item_that_cannot_be_serialised_is_an_error_and_the_crawl_goes_on(make: Maker, client: Any) -> None:
    with LinkedSite(5) as site:
        with make(site, "RedisPipeline", REDIS_ITEMS_SERIALIZER="json.loads").worker("plain") as worker:
            assert worker.finished() == "finished"
        assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert worker.stat("frontier/items_unwritable") == 5
    assert "cannot be serialised" in worker.log
    assert client.exists("plain:items") == 0


def test_a_robots_txt_s_crawl_delay_holds_for_all_workers_together(make: Maker) -> None:
    with LinkedSite(6, page_s=0.0, crawl_delay_s=0.4) as site:
        project = make(site, "StreamPipeline", ROBOTSTXT_OBEY=True, FRONTIER_OBEY_CRAWL_DELAY=True)
        site.hold()
        with project.worker("mapped") as first, project.worker("mapped") as second:
            project.wait_joined("mapped", first, second)
            site.release()
            assert (first.finished(), second.finished()) == ("finished", "finished")
        times = sorted(at for path in site.all_pages for at in site.times(path))
    # Six pages are five pauses; those under way before the limit was known may be early.
    assert len(times) == 6
    assert times[-1] - times[0] > 0.4 * 3


def test_requests_that_cannot_be_written_do_not_stop_the_crawl(make: Maker, client: Any) -> None:
    with LinkedSite(5) as site, make(site, "RedisPipeline").worker("odd") as worker:
        assert worker.finished() == "finished"
    assert delivered(client, "odd:items") == {"/p/2": 1}
    assert worker.stat("log_count/ERROR") > 0
