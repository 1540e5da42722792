"""How long an event takes to its webhook: from just before it is told until the server has read the request.

Run by hand from the repository: `PYTHONPATH=tests .venv/bin/python tests/benchmarks/alert_delivery.py`.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

import redis
from support.hook_server import HookServer
from support.plugin_node import running_plugin_nodes, shared_of, shared_store
from support.redis_server import RedisServer
from support.waiting import wait_until

from toolkit.model.alerts import Alerts, Rule, Sink, SinkKind
from toolkit.model.events import Event, EventKind
from toolkit.model.hosts import Secret

LATEST_S = 30.0
IDLE_S = 10.0


def alert_delivery(*, nodes: int = 3, events: int = 300, seed: int = 7) -> dict[str, float]:
    """Return `event_to_webhook_ms` and `event_to_webhook_ms_p99` in a cluster of real nodes, an event now and then.

    `alerts_redis_percent` is the share of a core that an idle sink costs Redis, its nodes' own heartbeats included.
    """
    chance = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
    with tempfile.TemporaryDirectory() as name, ExitStack() as closing:
        folder = Path(name)
        server = closing.enter_context(RedisServer(folder / "redis"))
        hook = closing.enter_context(HookServer())
        closing.enter_context(running_plugin_nodes(nodes, redis_url=server.url, folder=folder, lease_s=15.0))
        shared = shared_of(closing.enter_context(shared_store(server.url, folder / "desk")))
        sink = Sink("hook", SinkKind.WEBHOOK, url=Secret(hook.url), secret=Secret("a secret of sixteen"))
        rule = Rule("failures", ("hook",), events=("job.failed",))
        shared.alerts.put(Alerts({"hook": sink}, {"failures": rule}), by="bench")
        wait_until(lambda: shared.alerts.states(["hook"])["hook"].by, deadline_s=LATEST_S, what="a teller")
        told: dict[str, float] = {}
        for number in range(events):
            time.sleep(chance.uniform(0.0, 0.1))
            told[f"j{number}"] = time.time()
            shared.events.note(Event(EventKind.JOB_FAILED, f"j{number}", {"project": "shop", "spider": "books"}))
        wait_until(lambda: len(hook.taken) >= events, deadline_s=LATEST_S, what="the last message")
        late_ms = [(each.at - told[each.subjects[0]]) * 1000 for each in hook.taken]
        spent = _spent_percent(server.url)
    return {
        "event_to_webhook_ms": round(median(late_ms), 1),
        "event_to_webhook_ms_p99": round(quantiles(late_ms, n=100)[98], 1),
        "alerts_redis_percent": round(spent, 3),
    }


def _spent_percent(url: str) -> float:
    with redis.Redis.from_url(url, decode_responses=True) as client:

        def spent_s() -> float:
            said = client.info("cpu")
            return float(said["used_cpu_user"]) + float(said["used_cpu_sys"])

        before = spent_s()
        time.sleep(IDLE_S)
        return (spent_s() - before) / IDLE_S * 100


if __name__ == "__main__":
    sys.stdout.write(json.dumps(alert_delivery()) + "\n")
