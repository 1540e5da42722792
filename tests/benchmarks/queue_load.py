"""What a large cluster costs its Redis: a thousand simulated nodes that beat and claim through the real store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import redis
from support.redis_server import RedisServer

from toolkit.model.hosts import Secret
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, Session, SpiderName, VersionName
from toolkit.model.nodes import BEATS_A_LEASE, DEFAULT_LEASE_S, NodeReport
from toolkit.model.queue import Claimed, Held, Progress
from toolkit.store.interfaces import Shared, Store
from toolkit.store.open import open_store

PROJECT, VERSION, SPIDER = ProjectName("shop"), VersionName("20261121-090000-aaaaaaa"), SpiderName("products")
JOBS_A_NODE = 4
CLAIMERS = 8
_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Load:
    """What a run cost: shares of one processor core that Redis used, and what was done a second."""

    redis_core: float
    a_second: float


def heartbeats(folder: Path, *, nodes: int, seconds: float) -> Load:
    """Let each node beat as often as real ones do, with all its jobs and their progress, and measure Redis alone."""
    with empty_store(folder) as (store, server):
        shared = shared_of(store)
        _enqueue(shared, nodes * JOBS_A_NODE)
        held = _fill(shared, nodes)
        interval_s = DEFAULT_LEASE_S / BEATS_A_LEASE
        done = 0
        with redis.Redis.from_url(server.url) as client:
            before, began = _processor_s(client), time.monotonic()
            while time.monotonic() - began < seconds:
                # The beats of all nodes are spread evenly over the interval.
                if time.monotonic() - began < done * interval_s / nodes:
                    time.sleep(interval_s / nodes / 2)
                    continue
                number = done % nodes
                shared.nodes.beat(report(number, running=JOBS_A_NODE), held[number])
                # Every node looks for lost jobs in turn, about five times a second over all.
                if done % max(1, round(nodes / interval_s / 5)) == 0:
                    shared.queue.requeue_expired()
                done += 1
            took = time.monotonic() - began
            return Load((_processor_s(client) - before) / took, done / took)


def claims(folder: Path, *, nodes: int, jobs: int) -> Load:
    """Let all nodes claim at once until every job has an owner."""
    with empty_store(folder) as (store, server):
        shared = shared_of(store)
        for number in range(nodes):
            shared.nodes.beat(report(number), [])
        _enqueue(shared, jobs)
        lines = [line.name for line in shared.queue.lines()]
        left, lock = iter(range(jobs)), threading.Lock()

        def claim_in_turn() -> None:
            while True:
                with lock:
                    number = next(left, None)
                if number is None:
                    return
                claimer = replace(report(number % nodes), slots=jobs)
                while not isinstance(shared.queue.claim(claimer, lines, running=number // nodes), Claimed):
                    pass

        with redis.Redis.from_url(server.url) as client, ThreadPoolExecutor(CLAIMERS) as pool:
            before, began = _processor_s(client), time.monotonic()
            for claiming in [pool.submit(claim_in_turn) for _ in range(CLAIMERS)]:
                claiming.result()
            took = time.monotonic() - began
            return Load((_processor_s(client) - before) / took, jobs / took)


@contextmanager
def empty_store(folder: Path) -> Iterator[tuple[Store, RedisServer]]:
    """Give a store on a Redis of its own, and that Redis."""
    with RedisServer(folder) as server:
        store = open_store(Secret(server.url), folder)
        try:
            yield store, server
        finally:
            store.close()


def shared_of(store: Store) -> Shared:
    """Return the rooms that a Redis holds."""
    if store.shared is None:
        raise ValueError("the store is no Redis")
    return store.shared


def _enqueue(shared: Shared, count: int) -> None:
    now = datetime.now(UTC)
    for start in range(0, count, _CHUNK):
        shared.queue.add([_job(number, now) for number in range(start, min(start + _CHUNK, count))])


def _job(number: int, now: datetime) -> Job:
    return Job(
        id=JobId(f"{number:016x}"),
        project=PROJECT,
        spider=SPIDER,
        state=JobState.PENDING,
        version=VERSION,
        args={"page": str(number)},
        settings={},
        priority=0.0,
        attempts=2,
        scheduled_at=now,
    )


def _fill(shared: Shared, nodes: int) -> list[Sequence[Held]]:
    """Give every node its jobs, as if they had run for a while."""
    lines = [line.name for line in shared.queue.lines()]
    progress = Progress(JobState.RUNNING, pages=1000, items=900, errors=3, retries=5, bytes=10**7, memory_mb=120.5)
    held: list[Sequence[Held]] = []
    for number in range(nodes):
        node = report(number)
        shared.nodes.beat(node, [])
        mine = []
        for running in range(JOBS_A_NODE):
            got = shared.queue.claim(node, lines, running=running)
            while not isinstance(got, Claimed):
                time.sleep(got.again_s or 0)
                got = shared.queue.claim(node, lines, running=running)
            mine.append(Held(got.job.id, got.token, progress))
        held.append(mine)
    return held


def report(number: int, *, running: int = 0) -> NodeReport:
    """Return what the simulated node of this number says of itself."""
    return NodeReport(
        name=NodeName(f"node-{number:04}"),
        session=Session("5f2c9a71"),
        home=f"home-{number}",
        address=f"10.0.{number // 250}.{number % 250}:6800",
        slots=JOBS_A_NODE,
        running=running,
        load=0.4,
        memory_free_mb=4000,
        disk_free_mb=20_000,
        versions={PROJECT: (VERSION,)},
        software={"crawlctl": "0.1.0", "scrapy": "2.19.0", "scrapyd": "1.6.0", "python": "3.11.7"},
    )


def _processor_s(client: redis.Redis) -> float:
    info = client.info("cpu")
    return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])
