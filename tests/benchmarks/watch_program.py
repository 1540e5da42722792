"""The watching benchmark's command line: what a look costs, how late a cron fires, how soon an alert is there."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import cron_lateness
from benchmarks.alert_delivery import alert_delivery
from benchmarks.measuring import described_machine
from benchmarks.sampling_cost import sampling_cost
from benchmarks.top_refresh import top_refresh
from benchmarks.web_overview import measure_web
from support.fleet import Fleet
from support.processes import quiet_environment

_ROW = "{:<66} {:>10}  {}"
_ONE_BY_ONE = Path(__file__).with_name("one_by_one.py")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a cluster is measured, and how often."""

    nodes: int = 300
    jobs: int = 5_000
    crons: int = 100_000
    contenders: int = 1_000
    events: int = 300
    looks: int = 15
    watched_s: float = 20.0


QUICK = Size(nodes=12, jobs=200, crons=500, contenders=40, events=20, looks=3, watched_s=1.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, print the table, and end with the line of JSON."""
    parser = argparse.ArgumentParser(prog="bench_watch.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small cluster, to see whether it runs")
    given = parser.parse_args(arguments)
    size = QUICK if given.quick else Size()
    _say(described_machine())
    _say(_ROW.format("what", "found", "asked"))
    told: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="bench-watch-") as scratch:
        for rows, figures in _steps(Path(scratch), size):
            for row in rows:
                _say(_ROW.format(*row).rstrip())
            told |= figures
    _say(json.dumps(told))
    return 0


Rows = list[tuple[str, str, str]]


def _steps(scratch: Path, size: Size) -> Iterator[tuple[Rows, dict[str, float]]]:
    crowd = f"{size.nodes} nodes, {size.jobs} jobs"
    web = measure_web(scratch / "web", nodes=size.nodes, jobs=size.jobs, looks=size.looks, watched_s=size.watched_s)
    walk_ms = _walk_ms(scratch, nodes=size.nodes)
    yield (
        [
            (f"overview page, {crowd}, all of it read anew", f"{web.web_overview_ms:.0f} ms", "under 200 ms"),
            ("  a walk over as many stock nodes, one after the other", f"{walk_ms:.0f} ms", ""),
            ("  ratio", f"{walk_ms / web.web_overview_ms:.1f}x", ""),
            ("  its weight with all that it loads", f"{web.page_kb:.0f} kB", "under 150 kB"),
            ("  first paint in Chromium", f"{web.first_paint_ms:.0f} ms", "under 1,000 ms"),
            ("  share of a core of Redis while it is open", f"{web.redis_percent:.2f} %", "under 1 %"),
        ],
        {"web_overview_ms": round(web.web_overview_ms, 1), "page_kb": round(web.page_kb, 1)},
    )
    top = top_refresh(nodes=size.nodes, jobs=size.jobs, looks=size.looks)
    yield (
        [
            (f"a refresh of crawlctl top, {crowd}", f"{top['top_refresh_ms']:.0f} ms", "under 200 ms"),
            ("  its share of a core of Redis", f"{top['top_redis_percent']:.2f} %", "under 1 %"),
        ],
        {"top_refresh_ms": top["top_refresh_ms"]},
    )
    late = cron_lateness.measure(scratch / "crons", entries=size.crons, nodes=size.contenders)
    yield (
        [
            (f"a cron among {size.crons}, {size.contenders} contenders: late, p99", f"{late.p99_ms:.0f} ms", ""),
            ("  the latest of all", f"{late.max_ms:.0f} ms", "under 1,000 ms"),
            ("  share of a core of Redis meanwhile", f"{late.redis_cpu_percent:.1f} %", ""),
        ],
        {"cron_late_ms_p99": round(late.p99_ms, 1)},
    )
    alerts = alert_delivery(events=size.events)
    yield (
        [
            ("an event at its webhook, three real nodes, median", f"{alerts['event_to_webhook_ms']:.0f} ms", ""),
            ("  p99", f"{alerts['event_to_webhook_ms_p99']:.0f} ms", "under 1,000 ms"),
        ],
        {},
    )
    cost = sampling_cost(nodes=size.nodes, jobs=size.jobs, turns=size.looks)
    yield (
        [
            (f"sampling {size.jobs} active jobs: share of a core of Redis", f"{cost['sampling_redis_percent']} %", ""),
            ("  a step of it, in which Redis stands still", f"{cost['sampling_step_ms']} ms", ""),
            ("one reading for /metrics", f"{cost['metrics_ms']:.0f} ms", ""),
            ("  its share of a core of Redis, every 15 s", f"{cost['metrics_redis_percent']} %", ""),
        ],
        {},
    )


def _walk_ms(scratch: Path, *, nodes: int) -> float:
    """Return how long a page takes that asks each node in turn, as the panels do that live beside Scrapyd today.

    The nodes are simulated and answer at once; the time that the script itself needs to start is taken off.
    """
    home = scratch / "walk"
    home.mkdir()
    environment = quiet_environment(home)

    def once(*urls: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, str(_ONE_BY_ONE), "status", *urls], env=environment, check=True, cwd=home)
        return time.perf_counter() - began

    with Fleet(nodes=nodes, project="shop", spiders=["books"]) as fleet:
        spent = [once(*fleet.urls) - once() for _ in range(3)]
    return median(spent) * 1000


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
