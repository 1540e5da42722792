"""What `crawlctl top` costs: how long a refresh takes, from the look to the last drawn line, and how much of Redis.

Run by hand from the repository: `PYTHONPATH=tests .venv/bin/python tests/benchmarks/top_refresh.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import redis
from support.busy_cluster import BusyCluster
from support.queue_desk import queue_desk
from support.redis_server import RedisServer

from toolkit.cluster.acts import Acts
from toolkit.top.app import Top
from toolkit.top.watcher import Watcher

EVERY_S = 2.0
"""The interval at which `top` looks unless another is asked for."""


def top_refresh(*, nodes: int = 300, jobs: int = 5_000, looks: int = 15) -> dict[str, float]:
    """Return `top_refresh_ms` (median), `_max`, the processor's share, and `top_redis_percent` of a core for it.

    A quarter of the jobs run, most others wait, some have ended; at each look forty have ended or come, and every node
    has told of its jobs.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder) / "redis") as server,
        queue_desk(server.url, Path(folder) / "desk") as queue,
    ):
        cluster = BusyCluster(queue, nodes=nodes, slots=4)
        cluster.schedule(jobs // 5)
        cluster.start()
        cluster.end(jobs // 6)
        cluster.schedule(jobs - jobs // 5)
        cluster.start()
        cluster.beat(pages=5)
        return asyncio.run(_measured(cluster, server.url, looks=looks))


async def _measured(cluster: BusyCluster, url: str, *, looks: int) -> dict[str, float]:
    watcher = Watcher(cluster.desk)
    app = Top(_Never(watcher), Acts(cluster.desk, who="bench"), name="main", every_s=3600)
    spent_s: list[float] = []
    redis_s: list[float] = []
    processor_s: list[float] = []
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.pause()
        app._take(await asyncio.to_thread(watcher.look))
        await _drawn(app)
        for _ in range(looks):
            cluster.end(20)
            cluster.start()
            cluster.schedule(20)
            cluster.beat(pages=5)
            before_s, began_s = _processor_s(url), time.perf_counter()
            visible = frozenset(row.job.id for row in app._main.visible_jobs)
            worked_s = time.process_time()
            app._take(await asyncio.to_thread(watcher.look, visible=visible))
            await _drawn(app)
            processor_s.append(time.process_time() - worked_s)
            spent_s.append(time.perf_counter() - began_s)
            redis_s.append(_processor_s(url) - before_s)
    return {
        "top_refresh_ms": round(median(spent_s) * 1000, 1),
        "top_refresh_ms_max": round(max(spent_s) * 1000, 1),
        "top_processor_ms": round(median(processor_s) * 1000, 1),
        "top_redis_percent": round(sum(redis_s) / len(redis_s) / EVERY_S * 100, 2),
    }


class _Never:
    """Looks once, so that the bench alone says when it is looked."""

    def __init__(self, watcher: Watcher) -> None:
        self.look = watcher.look


async def _drawn(app: Top) -> None:
    """Wait until what has changed is on the screen."""
    done = asyncio.Event()
    app.screen.call_after_refresh(done.set)
    await done.wait()


def _processor_s(url: str) -> float:
    with redis.Redis.from_url(url) as client:
        spent = client.info("cpu")
    return float(spent["used_cpu_user"]) + float(spent["used_cpu_sys"])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(top_refresh()) + "\n")
