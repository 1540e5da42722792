"""The two ways to share a crawl that a run can try: crawlctl's frontier, and scrapy-redis as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import redis
from chaos.frontier.checking import Item, Leftovers
from chaos.frontier.plan import Begin, Kind, Mode

from toolkit.model.crawls import QueueOrder, SeedsKind, Shelf
from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId
from toolkit.store.interfaces_crawls import Crawls
from toolkit.store.open import open_store

CRAWL = "pages"
STREAM_PIPELINE = "toolkit.spider.StreamPipeline"
SEEDED_IDLE_S = 4
"""A seeded crawl is over when it has had nothing to do for so long."""
_READ_AT_ONCE = 1000
_SPIDERS = {Begin.ROOT: "plain", Begin.STARTS: "plain", Begin.SEEDS: "seeded", Begin.BOTH: "both"}
_QUEUES = {QueueOrder.PRIORITY: "PriorityQueue", QueueOrder.FIFO: "FifoQueue", QueueOrder.LIFO: "LifoQueue"}


class Rig(Protocol):
    """What differs between the two."""

    ends_by_itself: bool

    def settings(self) -> Mapping[str, object]:
        """Return the workers' Scrapy settings, but for Redis' address."""

    def seed(self, client: redis.Redis, url: str) -> None:
        """Push a seed."""

    def items(self, client: redis.Redis) -> Sequence[Item]:
        """Return all items that were delivered."""

    def leftovers(self, redis_url: str) -> Leftovers:
        """Look at what was left undone."""


class CrawlctlRig:
    """`SCHEDULER = "toolkit.spider.Scheduler"` with the stream pipeline; kept after its end, to be looked at."""

    ends_by_itself = True

    def __init__(self, kind: Kind, *, lease_s: float) -> None:
        self._kind = kind
        self._lease_s = lease_s

    def settings(self) -> Mapping[str, object]:
        """Name our scheduler and pipeline, the kind of crawl, and a short lease."""
        kind = self._kind
        return {
            "SPIDER_MODULES": [f"chaos.frontier.spiders.{_SPIDERS[kind.begin]}"],
            "SCHEDULER": "toolkit.spider.Scheduler",
            "SCHEDULER_PERSIST": True,
            "SCHEDULER_QUEUE_CLASS": f"scrapy_redis.queue.{_QUEUES[kind.order]}",
            "ITEM_PIPELINES": {STREAM_PIPELINE: 300},
            "FRONTIER_SEEN": kind.seen.value,
            "FRONTIER_LEASE_S": self._lease_s,
            # Else a worker that takes a killed one's place once the crawl is over would begin it anew.
            "FRONTIER_RUN": "chaos",
            "REDIS_START_URLS_AS_SET": kind.seeds is SeedsKind.SET,
            "REDIS_START_URLS_AS_ZSET": kind.seeds is SeedsKind.ZSET,
            "MAX_IDLE_TIME_BEFORE_CLOSE": SEEDED_IDLE_S,
        }

    def seed(self, client: redis.Redis, url: str) -> None:
        """Push it to the key as it is of this kind."""
        seed, key = json.dumps({"url": url}), f"{CRAWL}:start_urls"
        match self._kind.seeds:
            case SeedsKind.LIST:
                client.lpush(key, seed)
            case SeedsKind.SET:
                client.sadd(key, seed)
            case SeedsKind.ZSET:
                client.zadd(key, {seed: len(seed)})

    def items(self, client: redis.Redis) -> Sequence[Item]:
        """Read the stream as its drain does."""
        found: list[Item] = []
        after = ""
        with _crawls(_url_of(client)) as crawls:
            while batch := crawls.items(CrawlId(CRAWL), after=after, limit=_READ_AT_ONCE):
                found += [_item(body) for _, _, body in batch]
                after = batch[-1][0]
        return found

    def leftovers(self, redis_url: str) -> Leftovers:
        """Read the crawl as its operator does."""
        crawl = CrawlId(CRAWL)
        with _crawls(redis_url) as crawls:
            view = crawls.view(crawl)
            if view is None:
                return Leftovers(is_over=False, counts={"crawls known": 0})
            dead = [f"{each.leased.body[:200]!r}: {each.why}" for each in crawls.peek(crawl, Shelf.DEAD, limit=20)]
        counts = {
            "pending": view.pending,
            "in flight": view.in_flight,
            "suspects": view.suspects,
            "blocked": view.blocked,
            "seeds": view.seeds,
        }
        return Leftovers(view.is_over, {name: count for name, count in counts.items() if count}, dead)


class StockRig:
    """scrapy-redis with what it needs to run on Scrapy 2.19, and not to wipe the queue when one worker closes."""

    ends_by_itself = False

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def settings(self) -> Mapping[str, object]:
        """Name its scheduler, filter and pipeline."""
        return {
            "SPIDER_MODULES": ["chaos.frontier.spiders.seeded_stock"],
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "SCHEDULER_PERSIST": True,
            "SCHEDULER_QUEUE_CLASS": f"scrapy_redis.queue.{_QUEUES[self._kind.order]}",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300},
        }

    def seed(self, client: redis.Redis, url: str) -> None:
        """Push it to the list."""
        client.lpush(f"{CRAWL}:start_urls", json.dumps({"url": url}))

    def items(self, client: redis.Redis) -> Sequence[Item]:
        """Read the list."""
        bodies: Any = client.lrange(f"{CRAWL}:items", 0, -1)
        return [_item(body) for body in bodies]

    def leftovers(self, redis_url: str) -> Leftovers:
        """Say nothing: it keeps no account of what is in flight."""
        del redis_url
        return Leftovers()


def rig_of(mode: Mode, kind: Kind, *, lease_s: float) -> Rig:
    """Return the way that a run tries."""
    return StockRig(kind) if mode is Mode.STOCK else CrawlctlRig(kind, lease_s=lease_s)


@contextmanager
def _crawls(redis_url: str) -> Iterator[Crawls]:
    store = open_store(Secret(redis_url), Path("none"))
    try:
        assert store.shared is not None
        yield store.shared.crawls
    finally:
        store.close()


def _item(body: bytes) -> Item:
    told = json.loads(body)
    return Item(told["page"], tuple(told["links"]))


def _url_of(client: redis.Redis) -> str:
    where = client.connection_pool.connection_kwargs
    return f"redis://{where['host']}:{where['port']}/0"
