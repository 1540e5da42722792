"""Projects made for scrapy-redis, and ordinary ones, with one line changed: shared by workers, and nothing lost."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from support.crawl_project import FRONTIER, CrawlProject, CrawlWorker
from support.linked_site import LinkedSite
from support.waiting import wait_until

from toolkit.model.names import default_crawl

Maker = Callable[..., CrawlProject]
OURS: Mapping[str, object] = {"SCHEDULER": FRONTIER}
# As in most projects, the filter of Scrapy itself.
ORDINARY: Mapping[str, object] = {**OURS, "DUPEFILTER_CLASS": None, "ITEM_PIPELINES": None}


@pytest.fixture
def site() -> Iterator[LinkedSite]:
    with LinkedSite() as site:
        yield site


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def make(tmp_path: Path, redis_url: str) -> Maker:
    def project(site: LinkedSite, settings: Mapping[str, object] = OURS, **more: object) -> CrawlProject:
        return CrawlProject(tmp_path / "project", site=site.url, redis_url=redis_url, settings={**settings, **more})

    return project


def run(*workers: CrawlWorker) -> list[CrawlWorker]:
    """Run workers side by side to their end; all must end as finished."""
    with ExitStack() as running:
        for worker in workers:
            running.enter_context(worker)
        assert [worker.finished() for worker in workers] == ["finished"] * len(workers)
    return list(workers)


def urls(items: list[bytes]) -> list[str]:
    """Return the paths of the pages that items were made of, sorted."""
    return sorted("/" + json.loads(item)["url"].split("/", 3)[3] for item in items)


def keys(client: Any) -> set[str]:
    return {key.decode() for key in client.keys("*") if not key.startswith(b"crawlctl:")}


def test_a_scrapy_redis_project_works_with_one_line_changed(make: Maker, site: LinkedSite, client: Any) -> None:
    client.lpush("seeded:start_urls", f"{site.url}/p/0")
    project = make(site, MAX_IDLE_TIME_BEFORE_CLOSE=1)
    run(project.worker("seeded"), project.worker("seeded"))
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert urls(client.lrange("seeded:items", 0, -1)) == sorted(site.all_pages)


def test_rules_of_a_redis_crawl_spider_are_followed(make: Maker, site: LinkedSite, client: Any) -> None:
    client.lpush("seeded-by-rules:start_urls", json.dumps({"url": f"{site.url}/p/0"}))
    run(make(site, MAX_IDLE_TIME_BEFORE_CLOSE=1).worker("seeded-by-rules"))
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)


@pytest.mark.parametrize("spider", ["plain", "ruled", "mapped"])
def test_an_ordinary_spider_is_shared_and_all_workers_end_together(make: Maker, spider: str) -> None:
    with LinkedSite(page_s=0.1) as site:
        project = make(site, ORDINARY)
        # Whoever comes when the crawl has ended begins it anew: nothing goes on before both are there.
        site.hold()
        with project.worker(spider) as first, project.worker(spider) as second:
            project.wait_joined(spider, first, second)
            site.release()
            assert (first.finished(), second.finished()) == ("finished", "finished")
        assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert sum(worker.stat("item_scraped_count") for worker in (first, second)) == site.pages


def test_ours_work_as_scrapy_redis_own(make: Maker, site: LinkedSite, client: Any) -> None:
    for spider in ("ours", "ours-by-rules"):
        client.lpush(f"{spider}:start_urls", f"{site.url}/p/0")
    project = make(site, MAX_IDLE_TIME_BEFORE_CLOSE=1)
    run(project.worker("ours"), project.worker("ours-by-rules"))
    assert site.fetched() == dict.fromkeys(site.all_pages, 2)


def test_ours_work_under_scrapy_s_own_scheduler_too(make: Maker, site: LinkedSite, client: Any) -> None:
    client.lpush("ours:start_urls", "[1]", f"{site.url}/p/0")
    project = make(site, SCHEDULER="scrapy.core.scheduler.Scheduler", DUPEFILTER_CLASS=None, ITEM_PIPELINES={})
    (worker,) = run(project.worker("ours", MAX_IDLE_TIME_BEFORE_CLOSE=4))
    assert set(site.fetched()) == site.all_pages
    assert "A seed cannot be used" in worker.log


def test_a_start_requests_of_old_is_called(make: Maker, site: LinkedSite) -> None:
    (worker,) = run(make(site, MAX_IDLE_TIME_BEFORE_CLOSE=1).worker("legacy"))
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert "Legacy.start_requests is called for now" in worker.log


def test_two_crawls_of_one_spider_do_not_mix(make: Maker, site: LinkedSite, client: Any) -> None:
    project = make(site, MAX_IDLE_TIME_BEFORE_CLOSE=1)
    client.rpush("north:start_urls", f"{site.url}/p/0")
    client.rpush("south:start_urls", f"{site.url}/p/1")
    run(project.worker("ours", FRONTIER_CRAWL="north"), project.worker("ours", FRONTIER_CRAWL="south"))
    fetched = site.fetched()
    assert set(fetched) == site.all_pages
    # Page 1 leads to every page again, by the links across: each crawl has fetched each of its own once.
    assert max(fetched.values()) == 2
    assert fetched["/p/1"] == 2


CHOSEN: Mapping[str, object] = {**ORDINARY, "ITEM_PIPELINES": {"toolkit.spider.StreamPipeline": 300}}


def chosen(category: str) -> dict[str, int]:
    """Return the pages of a category, each fetched once."""
    return {f"/{category}/{number}": 1 for number in range(12)}


def delivered(client: Any, category: str) -> list[str]:
    """Return the pages of which the crawl with this argument has items, which must all tell it, sorted."""
    stream = client.xrange(f"{default_crawl('chosen', {'category': category})}:items")
    items = [fields[b"v"] for _, fields in stream]
    assert {json.loads(item)["category"] for item in items} == {category}
    return urls(items)


def test_runs_with_other_arguments_at_the_same_time_do_not_mix(make: Maker, site: LinkedSite, client: Any) -> None:
    project = make(site, CHOSEN)
    site.hold()
    with ExitStack() as running:
        workers = [
            running.enter_context(project.worker("chosen", arguments={"category": category})).opened()
            for category in ("books", "lamps", "books")
        ]
        wait_until(lambda: len(site.fetched()) >= 12, deadline_s=60, what="both crawls to be under way")
        site.release()
        assert [worker.finished() for worker in workers] == ["finished"] * 3
    assert site.fetched() == chosen("books") | chosen("lamps")
    for category in ("books", "lamps"):
        assert delivered(client, category) == sorted(chosen(category))


def test_what_a_run_with_other_arguments_left_is_not_resumed_but_by_one_with_the_same(
    make: Maker, site: LinkedSite, client: Any
) -> None:
    project = make(site, CHOSEN, CONCURRENT_REQUESTS=2)
    site.hold(after=4)
    with project.worker("chosen", arguments={"category": "books"}) as first:
        wait_until(lambda: len(site.fetched()) > 4, deadline_s=60, what="the crawl to be under way")
        first.signal(signal.SIGINT)
        wait_until(lambda: "Received SIGINT" in first.log, deadline_s=60, what="the worker to hear of it")
        site.release()
        assert first.finished() == "shutdown"
    left_out = chosen("books").keys() - site.fetched().keys()
    assert left_out

    (second,) = run(project.worker("chosen", arguments={"category": "lamps"}))
    assert "Resuming" not in second.log
    assert left_out.isdisjoint(site.fetched())
    (third,) = run(project.worker("chosen", arguments={"category": "books"}))
    assert "Resuming crawl" in third.log
    assert site.fetched() == chosen("books") | chosen("lamps")
    for category in ("books", "lamps"):
        assert delivered(client, category) == sorted(chosen(category))


def test_a_spider_of_another_project_does_not_join_a_crawl_of_its_name(make: Maker, site: LinkedSite) -> None:
    project = make(site, ORDINARY)
    run(project.worker("plain"))
    with project.worker("plain", BOT_NAME="news") as other:
        assert other.finished() == "frontier_unusable"
    assert "the crawl plain belongs to the project market, not to news" in other.log
    assert "FRONTIER_CRAWL" in other.log
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    run(project.worker("plain", BOT_NAME="news", FRONTIER_CRAWL="news-plain"))
    assert site.fetched() == dict.fromkeys(site.all_pages, 2)


def test_what_is_left_of_a_finished_crawl_is_cleared_unless_it_persists(
    make: Maker, site: LinkedSite, client: Any
) -> None:
    project = make(site, ORDINARY)
    run(project.worker("plain"))
    assert {key for key in keys(client) if key.startswith(("plain:requests", "plain:dupefilter"))} == set()
    run(project.worker("plain", SCHEDULER_PERSIST="True"))
    assert any(key.startswith("plain:dupefilter") for key in keys(client))
    assert site.fetched() == dict.fromkeys(site.all_pages, 2)


def test_a_crawl_that_persists_goes_on_with_what_it_has_seen(make: Maker, site: LinkedSite) -> None:
    project = make(site, ORDINARY, SCHEDULER_PERSIST=True)
    run(project.worker("plain"))
    run(project.worker("plain"))
    # What start() yields is fetched anew by each life of a crawl, as with scrapy-redis; nothing else is.
    assert site.fetched() - site.fetched().__class__(dict.fromkeys(site.all_pages, 1)) == {"/p/0": 1}


def test_only_the_first_worker_of_a_crawl_flushes_it(make: Maker) -> None:
    with LinkedSite(page_s=0.15) as site:
        project = make(site, ORDINARY, SCHEDULER_PERSIST=True, SCHEDULER_FLUSH_ON_START=True, CONCURRENT_REQUESTS=2)
        with project.worker("plain") as first:
            site.hold(after=4)
            wait_until(lambda: len(site.fetched()) > 5, deadline_s=60, what="the crawl to be under way")
            with project.worker("plain") as second:
                project.wait_joined("plain", second)
                site.release()
                assert (first.finished(), second.finished()) == ("finished", "finished")
        assert site.fetched() == dict.fromkeys(site.all_pages, 1)
        run(project.worker("plain"))
        assert site.fetched() == dict.fromkeys(site.all_pages, 2)


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("PriorityQueue", ["/p/7", "/p/3", "/p/10", "/p/1", "/p/2"]),
        ("FifoQueue", ["/p/3", "/p/10", "/p/1", "/p/2", "/p/7"]),
        ("LifoQueue", ["/p/7", "/p/2", "/p/1", "/p/10", "/p/3"]),
    ],
)
def test_the_queue_class_says_the_order_and_of_equals_the_first_comes_first(
    make: Maker, site: LinkedSite, queue: str, expected: list[str]
) -> None:
    run(make(site, ORDINARY, SCHEDULER_QUEUE_CLASS=f"scrapy_redis.queue.{queue}").worker("order"))
    asked = [(site.times(path)[0], path) for path in expected]
    assert [path for _, path in sorted(asked)] == expected


def test_equal_requests_that_are_not_to_be_filtered_are_all_fetched(make: Maker, site: LinkedSite) -> None:
    run(make(site, ORDINARY).worker("repeating"))
    assert site.fetched() == {"/p/1": 10, "/p/2": 1}


def test_a_project_without_a_filter_has_none(make: Maker, site: LinkedSite) -> None:
    settings: dict[str, Any] = {**ORDINARY, "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}
    run(make(site, settings).worker("repeating"))
    assert site.fetched() == {"/p/1": 10, "/p/2": 50}


@pytest.mark.parametrize("serializer", ["json", "scrapy_redis.picklecompat"])
def test_a_serializer_that_is_named_is_used(make: Maker, site: LinkedSite, serializer: str) -> None:
    (worker,) = run(make(site, ORDINARY, SCHEDULER_SERIALIZER=serializer).worker("plain"))
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert ("can run any program" in worker.log) is (serializer != "json")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"SCHEDULER_QUEUE_CLASS": "market.queues.Own"}, "SCHEDULER_QUEUE_CLASS is market.queues.Own"),
        ({"FRONTIER_LEASE_S": "0"}, "FRONTIER_LEASE_S is a number from 1 to 3600"),
    ],
)
def test_a_project_that_cannot_be_kept_is_refused_at_once_by_the_setting_s_name(
    make: Maker, site: LinkedSite, said: dict[str, Any], why: str
) -> None:
    with make(site, ORDINARY).worker("plain", **said) as worker:
        assert worker.finished() == "frontier_unusable"
    assert why in worker.log
    assert site.fetched() == {}


def test_a_pipeline_without_the_frontier_fails_the_process(make: Maker, site: LinkedSite) -> None:
    pipelines = {"toolkit.spider.StreamPipeline": 300}
    project = make(site, ORDINARY, ITEM_PIPELINES=pipelines, SCHEDULER="scrapy.core.scheduler.Scheduler")
    with project.worker("plain") as worker:
        wait_until(lambda: not worker.is_running, deadline_s=60, what="the process to end")
        assert "StreamPipeline needs the frontier" in worker.log
        assert worker.code not in {0, None}
    assert site.fetched() == {}
