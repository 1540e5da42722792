"""Seeds are picked up at once, each for itself: from lists, sets and sorted sets, by spiders of every kind."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from support.crawl_project import FRONTIER, CrawlProject
from support.linked_site import LinkedSite
from support.waiting import wait_until

from toolkit.model.crawls import Shelf
from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId
from toolkit.store.open import open_store

Maker = Callable[..., CrawlProject]
Dead = Callable[[str], list[tuple[bytes, str]]]
MAX_PICK_UP_S = 1.0


@pytest.fixture
def site() -> Iterator[LinkedSite]:
    with LinkedSite(pages=10) as site:
        yield site


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def make(tmp_path: Path, redis_url: str, site: LinkedSite) -> Maker:
    def project(**settings: object) -> CrawlProject:
        whole: Mapping[str, object] = {"SCHEDULER": FRONTIER, "MAX_IDLE_TIME_BEFORE_CLOSE": 1, **settings}
        return CrawlProject(tmp_path / "project", site=site.url, redis_url=redis_url, settings=whole)

    return project


@pytest.fixture
def dead_of(redis_url: str, tmp_path: Path) -> Callable[[str], list[tuple[bytes, str]]]:
    """Return what tells what is on a crawl's dead list, with the reasons."""

    def dead(crawl: str) -> list[tuple[bytes, str]]:
        with contextlib.closing(open_store(Secret(redis_url), tmp_path / "state")) as store:
            assert store.shared is not None
            found = store.shared.crawls.peek(CrawlId(crawl), Shelf.DEAD, limit=10)
        return sorted((each.leased.body, each.why) for each in found)

    return dead


def wait_for(site: LinkedSite, path: str) -> float:
    """Wait until a path is asked for; return when it was."""
    return wait_until(lambda: site.times(path), deadline_s=60, what=f"{path} to be asked for", pause_s=0.005)[0]


def push(client: Any, kind: str, key: str, seeds: list[str]) -> None:
    if kind == "set":
        client.sadd(key, *seeds)
    elif kind == "zset":
        client.zadd(key, dict.fromkeys(seeds, 1))
    else:
        client.rpush(key, *seeds)


@pytest.mark.parametrize("spider", ["seeded", "ours"])
@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_seeds_are_read_from_each_type_of_key(
    make: Maker, site: LinkedSite, client: Any, spider: str, kind: str
) -> None:
    push(client, kind, f"{spider}:start_urls", [f"{site.url}/seed/{number}" for number in range(30)])
    with make(**{f"REDIS_START_URLS_AS_{kind.upper()}": True}).worker(spider) as worker:
        assert worker.finished() == "finished"
    assert site.fetched() == {f"/seed/{number}": 1 for number in range(30)}


@pytest.mark.parametrize("spider", ["seeded", "ours", "plain"])
def test_a_seed_is_picked_up_by_a_worker_that_waits_within_a_second(
    make: Maker, site: LinkedSite, client: Any, spider: str
) -> None:
    project = make(MAX_IDLE_TIME_BEFORE_CLOSE=0, SCHEDULER_IDLE_BEFORE_CLOSE=60)
    with project.worker(spider) as worker:
        worker.opened()
        if spider == "plain":
            wait_until(lambda: set(site.fetched()) == site.all_pages, deadline_s=60, what="what start() began to end")
        waited_s = []
        for number in range(5):
            pushed_at = time.time()
            client.rpush(f"{spider}:start_urls", f"{site.url}/seed/{number}")
            waited_s.append(wait_for(site, f"/seed/{number}") - pushed_at)
        # A busy machine may keep the one or the other waiting; if workers did not hear of seeds, most would wait.
        assert statistics.median(waited_s) < MAX_PICK_UP_S, waited_s
        assert worker.is_running


def test_seeds_do_not_wait_for_the_pages_of_those_before(make: Maker, site: LinkedSite, client: Any) -> None:
    site.page_s = 30.0
    with make(CONCURRENT_REQUESTS=2).worker("ours") as worker:
        worker.opened()
        client.rpush("ours:start_urls", f"{site.url}/seed/slow")
        slow_at = wait_for(site, "/seed/slow")
        client.rpush("ours:start_urls", f"{site.url}/seed/next")
        assert wait_for(site, "/seed/next") - slow_at < site.page_s


@pytest.mark.parametrize("spider", ["seeded", "ours"])
def test_a_bad_seed_goes_to_the_dead_list_alone(
    make: Maker, site: LinkedSite, client: Any, dead_of: Dead, spider: str
) -> None:
    bad = [b"[1]", b"no-scheme", b'{"method": "GET"}', b"\xff\xfe"]
    good = [f"{site.url}/seed/{number}".encode() for number in range(4)]
    client.rpush(f"{spider}:start_urls", *[seed for pair in zip(bad, good, strict=True) for seed in pair])
    with make(SCHEDULER_PERSIST=True).worker(spider) as worker:
        assert worker.finished() == "finished"
    assert site.fetched() == {f"/seed/{number}": 1 for number in range(4)}
    found = dead_of(spider)
    assert [body for body, _ in found] == sorted(bad)
    assert all(why for _, why in found)


def test_a_seed_may_make_several_requests(make: Maker, site: LinkedSite, client: Any) -> None:
    client.rpush("several:start_urls", "0-3", "nonsense", "5-9")
    with make().worker("several") as worker:
        assert worker.finished() == "finished"
    assert site.fetched() == {f"/p/{number}": 1 for number in (0, 1, 2, 5, 6, 7, 8)}


def test_an_ordinary_spider_takes_seeds_with_every_field(
    make: Maker, site: LinkedSite, client: Any, dead_of: Dead
) -> None:
    seeds = [
        {"url": f"{site.url}/p/9", "callback": "parse", "priority": 3, "meta": {"a": 1}},
        {"url": f"{site.url}/seed/post", "verb": "POST"},
        f"{site.url}/seed/plain",
    ]
    client.rpush("plain:start_urls", *[seed if isinstance(seed, str) else json.dumps(seed) for seed in seeds])
    with make(SCHEDULER_PERSIST=True).worker("plain") as worker:
        assert worker.finished() == "finished"
    assert set(site.fetched()) == site.all_pages | {"/seed/plain"}
    ((_, why),) = dead_of("plain")
    assert "unknown field 'verb'" in why


def test_a_seed_that_is_linked_later_is_not_fetched_again(make: Maker, site: LinkedSite, client: Any) -> None:
    client.rpush("seeded:start_urls", f"{site.url}/p/0", f"{site.url}/p/3")
    with make().worker("seeded") as worker:
        assert worker.finished() == "finished"
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)


@pytest.mark.parametrize("spider", ["seeded", "ours"])
def test_the_idle_time_counts_from_the_crawl_s_last_work_and_for_all_workers(
    make: Maker, site: LinkedSite, client: Any, spider: str
) -> None:
    site.page_s = 0.5
    client.rpush(f"{spider}:start_urls", f"{site.url}/p/0")
    project = make(MAX_IDLE_TIME_BEFORE_CLOSE=3, CONCURRENT_REQUESTS=1)
    with project.worker(spider) as first, project.worker(spider) as second:
        assert (first.finished(), second.finished()) == ("finished", "finished")
        ended_at = time.time()
    last_page_at = max(max(site.times(path)) for path in site.all_pages)
    assert site.fetched() == dict.fromkeys(site.all_pages, 1)
    assert 3.0 <= ended_at - last_page_at < 30.0


def test_a_redis_key_is_that_of_its_own_crawl_or_of_the_one_it_is_given_for(
    make: Maker, site: LinkedSite, client: Any
) -> None:
    client.rpush("given:urls", f"{site.url}/seed/given")
    client.rpush("ours:start_urls", f"{site.url}/seed/other")
    arguments = {"redis_key": "given:urls"}
    with make().worker("ours", arguments=arguments, FRONTIER_CRAWL="eu") as worker:
        assert worker.finished() == "finished"
    assert site.fetched() == {"/seed/given": 1}
