"""The command line of the queue's benchmark: what is measured, how large, and what is printed of it."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import queue_commands, queue_load, starting
from benchmarks.measuring import Commands, described_machine

_ROW = "{:<62} {:>12} {:>12} {:>8}  {}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a run is; the names in the last line are those of the full one."""

    starts: int = 40
    stock_starts: int = 30
    nodes: int = 20
    enqueued: int = 10_000
    repeats: int = 5
    simulated: int = 1000
    beating_s: float = 30.0


FULL = Sizes()
QUICK = Sizes(starts=2, stock_starts=1, nodes=2, enqueued=200, repeats=1, simulated=10, beating_s=1.0)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `stock` and `target` where there are any."""

    what: str
    crawlctl: str
    stock: str = ""
    ratio: str = ""
    target: str = ""

    def __str__(self) -> str:
        return _ROW.format(self.what, self.crawlctl, self.stock or "-", self.ratio or "-", self.target).rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts, print the table, and end with the line of JSON."""
    parser = argparse.ArgumentParser(description="The shared queue beside stock Scrapyd.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it all still work?")
    sizes = QUICK if parser.parse_args(arguments).quick else FULL
    _say(described_machine())
    if sizes is QUICK:
        _say("quick: sizes are smaller than the names in the last line say")
    figures: list[Figure] = []
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for part in (_starts, _commands, _load, _memory):
            new, said = part(Path(folder) / part.__name__.strip("_"), sizes)
            sys.stderr.write("".join(f"{figure}\n" for figure in new))
            figures += new
            told |= said
    _say(_ROW.format("what", "crawlctl", "stock", "ratio", "target"))
    for figure in figures:
        _say(str(figure))
    _say(json.dumps(told))
    return 0


def _starts(folder: Path, sizes: Sizes) -> tuple[list[Figure], dict[str, Any]]:
    ours = starting.shared_queue(folder / "one", nodes=1, jobs=sizes.starts)
    many = starting.shared_queue(folder / "many", nodes=sizes.nodes, jobs=sizes.starts)
    posted = starting.shared_queue(folder / "api", nodes=1, jobs=sizes.starts, through_api=True)
    stock = starting.stock(folder / "stock", jobs=sizes.stock_starts)
    rows = [
        _start_row("start: handed over to first line of the process, 1 node", ours, stock, "p50 < 50 ms"),
        _start_row(f"start: {sizes.nodes} nodes", many, stock, "p50 < 50 ms"),
        _start_row("start: 1 node, through its schedule.json as stock's is", posted, stock, ""),
    ]
    told = {
        "start_ms": {"crawlctl": _spread_ms(ours), "stock": _spread_ms(stock)},
        f"start_ms_{FULL.nodes}_nodes": _spread_ms(many),
    }
    return rows, told


def _commands(folder: Path, sizes: Sizes) -> tuple[list[Figure], dict[str, Any]]:
    commands = Commands(folder / "home")
    times = queue_commands.enqueue_from_file(commands, folder / "file", jobs=sizes.enqueued, repeats=sizes.repeats)
    status = queue_commands.status(commands, folder / "status", nodes=sizes.simulated, repeats=sizes.repeats)
    rows = [
        Figure(f"schedule --from FILE, {sizes.enqueued} jobs, whole command", _seconds(times), target="< 2 s"),
        Figure(f"status, {sizes.simulated} plug-in nodes, whole command", _seconds(status), target="< 0.5 s"),
    ]
    return rows, {"enqueue_10000_s": round(statistics.median(times), 3)}


def _load(folder: Path, sizes: Sizes) -> tuple[list[Figure], dict[str, Any]]:
    beats = queue_load.heartbeats(folder / "beats", nodes=sizes.simulated, seconds=sizes.beating_s)
    claims = queue_load.claims(folder / "claims", nodes=sizes.simulated, jobs=sizes.enqueued)
    rows = [
        Figure(
            f"heartbeats of {sizes.simulated} nodes ({beats.a_second:.0f}/s): Redis, of one core",
            f"{beats.redis_core:.1%}",
            target="< 5 %",
        ),
        Figure(
            f"claims by {sizes.simulated} nodes in {queue_load.CLAIMERS} threads (Redis {claims.redis_core:.0%})",
            f"{claims.a_second:.0f}/s",
        ),
    ]
    return rows, {"heartbeat_1000_nodes_redis_core": round(beats.redis_core, 4)}


def _memory(folder: Path, sizes: Sizes) -> tuple[list[Figure], dict[str, Any]]:
    extra = statistics.median(starting.extra_memory_mb(folder / str(number)) for number in range(min(3, sizes.repeats)))
    row = Figure("resident memory of an idle node beyond a stock one's", f"{extra:.1f} MB", target="<= 15 MB")
    return [row], {"node_extra_mb": round(extra, 1)}


def _start_row(what: str, ours: Sequence[float], stock: Sequence[float], target: str) -> Figure:
    mine, theirs = _spread_ms(ours), _spread_ms(stock)
    return Figure(
        f"{what} (p50/p95, n={len(ours)}/{len(stock)})",
        f"{mine['p50']}/{mine['p95']}ms",
        f"{theirs['p50']:.0f}/{theirs['p95']:.0f}ms",
        f"{theirs['p50'] / mine['p50']:.0f}x",
        target,
    )


def _spread_ms(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    return {"p50": round(statistics.median(ordered) * 1000, 1), "p95": round(p95 * 1000, 1)}


def _seconds(times: Sequence[float]) -> str:
    return f"{statistics.median(times):.3f} s"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
