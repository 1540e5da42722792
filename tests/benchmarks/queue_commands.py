"""Whole commands on a cluster of simulated plug-in nodes: 10,000 jobs out of a file, and the status of a thousand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Commands, program
from benchmarks.queue_load import PROJECT, SPIDER, VERSION, empty_store, report, shared_of
from support.cli import NodeEntry, inventory_for

from toolkit.model.releases import Release, Rollout
from toolkit.store.interfaces import Store


def enqueue_from_file(commands: Commands, folder: Path, *, jobs: int, repeats: int) -> Sequence[float]:
    """Return the times of `crawlctl schedule --from FILE` for a file of so many jobs, start of the command included."""
    times = []
    for number in range(repeats):
        place = folder / str(number)
        place.mkdir(parents=True)
        with empty_store(place / "redis") as (store, server):
            _prepare(store, place, server.url, nodes=3)
            lines = (json.dumps({"spider": SPIDER, "args": {"page": str(page)}}) for page in range(jobs))
            (place / "jobs.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            times.append(commands.seconds([program("crawlctl"), "schedule", "--from", "jobs.jsonl"], cwd=place))
            queued = shared_of(store).queue.counts()["pending"]
            assert queued == jobs, f"{queued} of {jobs} jobs are in the queue"
    return times


def status(commands: Commands, folder: Path, *, nodes: int, repeats: int) -> Sequence[float]:
    """Return the times of `crawlctl status` where every node is a plug-in node with a fresh heartbeat."""
    folder.mkdir(parents=True, exist_ok=True)
    with empty_store(folder / "redis") as (store, server):
        _prepare(store, folder, server.url, nodes=nodes)
        words: list[str | Path] = [program("crawlctl"), "status", "--output", "json"]
        return [commands.seconds(words, cwd=folder) for _ in range(repeats)]


def _prepare(store: Store, folder: Path, redis_url: str, *, nodes: int) -> None:
    """Make a release active, register the nodes as its holders, and write the operator's inventory."""
    now = store.now()
    release = Release(PROJECT, VERSION, "a" * 64, (SPIDER,), 1000, None, now, "bench@desk")
    lock = store.releases.lock(PROJECT, who="bench", why="bench", ttl_s=60)
    store.releases.record(release, lock)
    store.releases.activate(
        Rollout(PROJECT, VERSION, "deploy", now, "bench@desk", activated=True, results=()), lock, held_by=[]
    )
    store.releases.unlock(lock)
    for number in range(nodes):
        shared_of(store).nodes.beat(report(number), [])
    entries = [NodeEntry(report(number).name, f"10.0.{number // 250}.{number % 250}", 6800) for number in range(nodes)]
    inventory_for(entries, redis_url, folder / "inventory.yaml")
