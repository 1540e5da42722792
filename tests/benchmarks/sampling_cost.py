"""What sampling and `/metrics` cost: the processor time of Redis for a turn, and how long a reading takes.

Run by hand from the repository: `PYTHONPATH=tests .venv/bin/python tests/benchmarks/sampling_cost.py`.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import redis
from support.busy_cluster import BusyCluster
from support.queue_desk import QueueDesk, queue_desk
from support.redis_server import RedisServer

from toolkit.cluster.reading import take_reading
from toolkit.duties.sample import EVERY_S
from toolkit.store.wire_samples import FINEST
from toolkit.views.metrics import exposition

SCRAPE_S = 15.0
"""How often Prometheus usually asks."""

STEP_US = 300
"""What takes Redis less is no step of sampling."""

LONG_SERIES = 400
"""How many samples a job of a week has."""


def sampling_cost(*, nodes: int = 300, jobs: int = 5_000, turns: int = 10) -> dict[str, float]:
    """Return what a turn of sampling so many active jobs costs, all a week old, and what a scrape does.

    `sampling_redis_ms` is Redis' processor time a turn, `sampling_redis_percent` the share of a core at the usual pace,
    `sampling_turn_ms` how long the node is at it, `sampling_step_ms` how long Redis stands still for others at a step.
    `metrics_redis_ms`, `metrics_redis_percent` and `metrics_ms` are those of one reading with its text.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as closing:
        folder = Path(name)
        server = closing.enter_context(RedisServer(folder / "redis"))
        queue = closing.enter_context(queue_desk(server.url, folder / "desk"))
        client = closing.enter_context(redis.Redis.from_url(server.url))
        cluster = BusyCluster(queue, nodes=nodes, slots=-(-jobs // nodes))
        cluster.schedule(jobs)
        cluster.start()
        cluster.schedule(jobs // 10)
        cluster.beat(pages=50_000)
        _age(queue)
        return {**_turns(cluster, client, turns=turns), **_scrapes(cluster, client, turns=turns)}


def _turns(cluster: BusyCluster, client: redis.Redis, *, turns: int) -> dict[str, float]:
    samples, nodes, counts = cluster.queue.shared.samples, cluster.queue.nodes, cluster.queue.queue.counts
    took_s, spent_s = [], []
    client.config_set("slowlog-log-slower-than", STEP_US)
    client.config_set("slowlog-max-len", 1024)
    client.slowlog_reset()
    for _ in range(turns):
        turn = samples.begin(every_s=0.001)
        while turn is None:
            turn = samples.begin(every_s=0.001)
        before_s, began_s = _processor_s(client), time.perf_counter()
        count = samples.sample_jobs(turn)
        told = counts()
        records = nodes.all()
        samples.sample_cluster(turn, pending=told["pending"], active=count, nodes_live=len(records), slots=count)
        took_s.append(time.perf_counter() - began_s)
        spent_s.append(_processor_s(client) - before_s)
    steps_us = [entry["duration"] for entry in client.slowlog_get(1024)] or [STEP_US]
    return {
        "sampling_redis_ms": round(median(spent_s) * 1000, 1),
        "sampling_redis_percent": round(median(spent_s) / EVERY_S * 100, 2),
        "sampling_turn_ms": round(median(took_s) * 1000, 1),
        "sampling_step_ms": round(median(steps_us) / 1000, 2),
    }


def _scrapes(cluster: BusyCluster, client: redis.Redis, *, turns: int) -> dict[str, float]:
    took_s, spent_s = [], []
    for _ in range(turns):
        before_s, began_s = _processor_s(client), time.perf_counter()
        exposition(take_reading(cluster.desk))
        took_s.append(time.perf_counter() - began_s)
        spent_s.append(_processor_s(client) - before_s)
    return {
        "metrics_redis_ms": round(median(spent_s) * 1000, 1),
        "metrics_redis_percent": round(median(spent_s) / SCRAPE_S * 100, 2),
        "metrics_ms": round(median(took_s) * 1000, 1),
    }


def _age(queue: QueueDesk) -> None:
    """Give every active job the series of a week."""
    now_ms = time.time() * 1000
    turn = queue.shared.samples.begin(every_s=0.001)
    assert turn is not None
    queue.shared.samples.sample_jobs(turn)
    ages_s = [EVERY_S * number for number in range(1, FINEST + 1)]
    while len(ages_s) < LONG_SERIES:
        ages_s.append(ages_s[-1] * (1 + 1 / FINEST))
    series = b"".join(struct.pack(">dIIIf", now_ms - age * 1000, 1000, 900, 1, 80.0) for age in reversed(ages_s))
    for key in list(queue.redis_bytes.scan_iter(f"{queue.keys.samples_prefix}*")):
        queue.redis_bytes.set(key, series, keepttl=True)


def _processor_s(client: redis.Redis) -> float:
    spent = client.info("cpu")
    return float(spent["used_cpu_user"]) + float(spent["used_cpu_sys"])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sampling_cost()) + "\n")
