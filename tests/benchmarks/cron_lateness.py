"""How late crons fire: 100,000 of them in one Redis, and as many looks at it as 1,000 nodes take.

A process plays many nodes one after the other, each at the moments at which it would look; what it cannot keep up with
makes firings later, so the figures are on the side of caution. Run: `python -m benchmarks.cron_lateness` in `tests`.
"""

from __future__ import annotations

import heapq
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from support.processes import end, quiet_environment, start
from support.redis_server import RedisServer
from support.stores import SHOP, V1, a_lock, a_release, a_rollout
from support.waiting import wait_until

from toolkit.duties import fire
from toolkit.model.crons import Cron, Due, Overlap
from toolkit.model.events import EventKind
from toolkit.model.hosts import Secret
from toolkit.model.names import SpiderName
from toolkit.store.interfaces import Shared, Store
from toolkit.store.open import open_store

ENTRIES, NODES, PROCESSES = 100_000, 1000, 2
MOMENTS, EACH, BURST = 10, 100, 1000
"""So many crons are due at each of so many moments, a second apart; and then as many as a burst has, at one moment."""

ENTRIES_A_CALL = 1000
LEAD_S = 3.0
FIRED_WITHIN_S = 120.0
_TESTS = Path(__file__).parents[1]
_FAR = timedelta(days=300)
_YEARLY = Cron("x", SpiderName("books"), at="0 0 1 1 *", project=SHOP, overlap=Overlap.ALLOW)


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late firings were, in milliseconds; the burst's are among them, and told apart too."""

    fired: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    burst_max_ms: float
    looks_per_s: float
    redis_cpu_percent: float


def measure(folder: Path, *, entries: int = ENTRIES, nodes: int = NODES) -> Lateness:
    """Measure once, in a Redis of its own."""
    with ExitStack() as closing:
        redis = closing.enter_context(RedisServer(folder / "redis"))
        store = open_store(Secret(redis.url), folder)
        closing.callback(store.close)
        _release(store)
        shared = _shared(store)
        _define(shared, "far", entries, at=store.now() + _FAR)
        for number in range(PROCESSES):
            words = [redis.url, str(nodes), str(nodes // PROCESSES), str(number)]
            command = [sys.executable, "-m", "benchmarks.cron_lateness", "play", *words]
            env = {**quiet_environment(folder), "PYTHONPATH": f"{_TESTS}:{_TESTS.parent}"}
            with (folder / "players.log").open("ab") as log:
                closing.callback(end, start(command, cwd=folder, env=env, output=log))
        return _fired(store, shared)


def _fired(store: Store, shared: Shared) -> Lateness:
    # Defining them takes a while, and nobody shall find them due already.
    count = MOMENTS * EACH + BURST
    begin = store.now().replace(microsecond=0) + timedelta(seconds=LEAD_S + count / 1000)
    for number in range(MOMENTS):
        _define(shared, f"moment-{number}", EACH, at=begin + timedelta(seconds=number))
    burst_at = begin + timedelta(seconds=MOMENTS + 1)
    _define(shared, "burst", BURST, at=burst_at)
    wait_until(lambda: store.now() > begin - timedelta(seconds=1), deadline_s=60, what="the first moment", pause_s=0.2)
    before, began = _work(store), time.monotonic()

    def late_ms() -> list[tuple[float, bool]] | None:
        events = shared.events.after("0-0", limit=100_000)
        told = [event for event in events if event.kind is EventKind.CRON_FIRED]
        if len(told) < count:
            return None
        due = [datetime.fromisoformat(event.about["due"]) for event in told]
        at_ms = [int(event.id.partition("-")[0]) for event in told]
        return [(ms - each.timestamp() * 1000, each == burst_at) for ms, each in zip(at_ms, due, strict=True)]

    found = wait_until(late_ms, deadline_s=FIRED_WITHIN_S, what=f"{count} firings", pause_s=1.0)
    took_s, after = time.monotonic() - began, _work(store)
    times = sorted(late for late, _ in found)
    return Lateness(
        fired=len(times),
        p50_ms=times[len(times) // 2],
        p99_ms=times[int(len(times) * 0.99)],
        max_ms=times[-1],
        burst_max_ms=max(late for late, is_burst in found if is_burst),
        looks_per_s=round((after[0] - before[0]) / took_s),
        redis_cpu_percent=round(100 * (after[1] - before[1]) / took_s, 1),
    )


def _define(shared: Shared, prefix: str, count: int, *, at: datetime) -> None:
    for first in range(0, count, ENTRIES_A_CALL):
        names = [f"{prefix}-{number}" for number in range(first, min(count, first + ENTRIES_A_CALL))]
        shared.crons.put(
            [replace(_YEARLY, name=name) for name in names], by="bench", due=dict.fromkeys(names, Due(at, at))
        )


def _work(store: Store) -> tuple[int, float]:
    """Return how many scripts Redis has run, and how many seconds of processor time it has used."""
    door = store._door  # type: ignore[attr-defined]
    commands, cpu = door.ask("INFO", "commandstats"), door.ask("INFO", "cpu")
    return int(commands["cmdstat_evalsha"]["calls"]), float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


def _release(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(V1), lock)
    store.releases.activate(a_rollout(V1), lock, held_by=[])
    store.releases.unlock(lock)


def _shared(store: Store) -> Shared:
    assert store.shared is not None
    return store.shared


def play(url: str, *, live_nodes: int, mine: int, seed: int) -> None:
    """Be so many nodes, until the process is killed: each looks when it would look, and fires what it is given."""
    chance = random.Random(seed)  # noqa: S311 - a plan, no secret
    store = open_store(Secret(url), Path(tempfile.gettempdir()))
    looks = [(time.monotonic() + chance.random() * fire.LOOK_EVERY_S, number) for number in range(mine)]
    heapq.heapify(looks)
    while True:
        at, number = heapq.heappop(looks)
        time.sleep(max(0.0, at - time.monotonic()))
        fired = fire.fire(store, by=f"node-{seed}-{number}")
        wait_s = fire.interval_s(fired.next_in_s, live_nodes=live_nodes, chance=chance.random())
        heapq.heappush(looks, (time.monotonic() + wait_s, number))


def main(arguments: Sequence[str]) -> None:
    """Measure, or play nodes for somebody who does."""
    if arguments[:1] == ["play"]:
        url, live_nodes, mine, seed = arguments[1:]
        play(url, live_nodes=int(live_nodes), mine=int(mine), seed=int(seed))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        found = measure(Path(folder))
    sys.stdout.write(json.dumps({name: getattr(found, name) for name in found.__dataclass_fields__}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
