"""What the frontier takes of Redis' memory: a seen URL in each kind of seen set, a pending request; beside stock."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import redis
from benchmarks.frontier_site import page_url
from benchmarks.frontier_worker import CRAWLCTL, SCRAPY_REDIS, Walk
from scrapy import Request
from scrapy_redis.queue import PriorityQueue
from support.redis_server import RedisServer

from toolkit.model.crawls import CrawlPlan, Filter, Push, SeenKind
from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId
from toolkit.spider.requests import RequestWriter
from toolkit.store.crawl_keys import default_keys
from toolkit.store.interfaces_crawls import Crawls
from toolkit.store.open import open_store

_T = TypeVar("_T")

_CRAWL = CrawlId("walk")
_PLAN = CrawlPlan(crawl=_CRAWL, spider="walk", project="bench", keys=default_keys(_CRAWL))
_PART = 1000
_PORT = 8080
_SETTLED_S = 0.3


def bytes_per_seen(server: RedisServer, folder: Path, *, count: int) -> dict[str, float]:
    """Return what each of so many fingerprints takes, by kind of seen set."""

    def stock(client: redis.Redis) -> None:
        for part in _parts(_fingerprints(count)):
            client.sadd("walk:dupefilter", *(fingerprint.hex() for fingerprint in part))

    def ours(kind: SeenKind) -> float:
        plan = replace(_PLAN, seen=kind)
        with _crawls(server, folder) as crawls:
            return _grown_by(
                server, lambda _: crawls.remember(plan, _fingerprints(count), are_fingerprints=True), count=count
            )

    return {kind.value: ours(kind) for kind in SeenKind} | {SCRAPY_REDIS: _grown_by(server, stock, count=count)}


def bytes_per_pending(server: RedisServer, folder: Path, *, count: int) -> dict[str, float]:
    """Return what each of so many requests takes: a URL of 81 characters, a callback, a Referer and a depth."""
    spider = Walk(name="walk", port=_PORT, begin_with=1, stays=False)
    requests = [_request(spider, number) for number in range(count)]

    def stock(client: redis.Redis) -> None:
        for part in _parts(requests):
            with client.pipeline(transaction=False) as pipeline:
                queue = PriorityQueue(pipeline, spider, "walk:requests")
                for request in part:
                    queue.push(request)
                pipeline.execute()

    writer = RequestWriter(spider)
    pushes = [Push(writer.write(request), filter=Filter.NONE) for request in requests]
    with _crawls(server, folder) as crawls:
        ours = _grown_by(server, lambda _: crawls.pushes(_PLAN, pushes), count=count)
    return {CRAWLCTL: ours, SCRAPY_REDIS: _grown_by(server, stock, count=count)}


def _grown_by(server: RedisServer, fill: Callable[[redis.Redis], object], *, count: int) -> float:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        before = _settled(client)
        fill(client)
        return (_settled(client) - before) / count


def _settled(client: redis.Redis) -> int:
    """Return the used memory once it does not change any more: tables grow in the background."""
    used = -1
    while (now := int(client.info("memory")["used_memory_dataset"])) != used:
        used = now
        time.sleep(_SETTLED_S)
    return int(client.info("memory")["used_memory"])


@contextmanager
def _crawls(server: RedisServer, folder: Path) -> Iterator[Crawls]:
    store = open_store(Secret(server.url), folder)
    try:
        assert store.shared is not None
        yield store.shared.crawls
    finally:
        store.close()


def _fingerprints(count: int) -> Iterator[bytes]:
    return (hashlib.sha1(b"%d" % number, usedforsecurity=False).digest() for number in range(count))


def _parts(of: Iterable[_T]) -> Iterator[list[_T]]:
    several = iter(of)
    while part := list(itertools.islice(several, _PART)):
        yield part


def _request(spider: Walk, number: int) -> Request:
    return Request(
        page_url(_PORT, number),
        callback=spider.parse,
        headers={"Referer": page_url(_PORT, number // 4)},
        meta={"depth": 5},
    )
