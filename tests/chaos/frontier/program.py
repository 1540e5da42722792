"""The frontier's chaos run on the command line: what kind of run, one run of it, and a verdict."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from chaos.frontier.checking import Verdict, judge
from chaos.frontier.graph import Shape
from chaos.frontier.plan import Begin, Kind, Mode, kind_of
from chaos.frontier.run import ENDS_WITHIN_S, Run, Sizes, errors_in

from toolkit.model.crawls import QueueOrder, SeedsKind, SeenKind

PREFETCH = 48
"""How many entries a worker has beside those that it works on, at most: ready for the engine, or done and not yet told.
(`toolkit/spider/pace.py`: 24 ahead, and 20 endings that wait for company.)"""
LIMIT_S = 240.0
LIMIT_S_A_PAGE = 0.1
ERRORS_TOLD = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run once, say each broken promise, and end with the line of JSON; 1 when a promise broke."""
    given = _parser().parse_args(arguments)
    sizes = _sizes(given)
    with ExitStack() as closing:
        folder = given.keep or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="chaos-"))) / "run"
        folder.mkdir(parents=True)
        run = Run(folder.resolve(), sizes)
        kind = sizes.kind
        run.say(f"{sizes.mode}: {sizes.pages} pages, {kind.shape}, {kind.order}, {kind.seen} seen set, {_begin(sizes)}")
        verdict = judge(run.perform())
        errors = errors_in(folder, is_told=lambda line: " ERROR: " in line or " CRITICAL: " in line)
    verdict.broken += run.broken
    is_held = sizes.mode is Mode.CRAWLCTL
    for problem in verdict.broken:
        sys.stderr.write(f"{'BROKEN' if is_held else 'lost'}: {problem}\n")
    for error, times in Counter(line.partition(" ERROR: ")[2] for line in errors).most_common(ERRORS_TOLD):
        sys.stderr.write(f"logged {times} times: {error}\n")
    sys.stdout.write(last_line(verdict, sizes=sizes, run=run, errors=len(errors)) + "\n")
    return 1 if verdict.broken and is_held else 0


def last_line(verdict: Verdict, *, sizes: Sizes, run: Run, errors: int) -> str:
    """Return the one JSON object."""
    ended_within_s = verdict.ended_within_s
    return json.dumps(
        {
            "seed": sizes.seed,
            "pages": sizes.pages,
            "faults": len(run.faults),
            "never_fetched": verdict.never_fetched,
            "never_processed": verdict.never_processed,
            "items_missing": verdict.items_missing,
            "items_twice": verdict.items_twice,
            "refetched": verdict.refetched,
            "ended_by_itself": verdict.ended_by_itself,
            "refetched_at_most": verdict.refetched_at_most,
            "refetched_unexplained": verdict.refetched_unexplained,
            "items_wrong": verdict.items_wrong,
            "seeds_twice": verdict.seeds_twice,
            "dead": verdict.dead,
            "ended_within_s": None if ended_within_s is None else round(ended_within_s, 2),
            "mode": sizes.mode.value,
            "shape": sizes.kind.shape.value,
            "order": sizes.kind.order.value,
            "seen": sizes.kind.seen.value if sizes.mode is Mode.CRAWLCTL else "set",
            "begin": sizes.kind.begin.value,
            "seeds": sizes.kind.seeds.value if sizes.kind.is_seeded else None,
            "kinds": dict(Counter(kind.value for kind in run.faults)),
            "errors_logged": errors,
            "broken": verdict.broken,
        }
    )


def _sizes(given: argparse.Namespace) -> Sizes:
    kind = kind_of(given.seed)
    asked = {name: value for name in ("order", "seen", "shape", "begin", "seeds") if (value := getattr(given, name))}
    if given.mode is Mode.STOCK:
        asked["seeds"] = SeedsKind.LIST
    return Sizes(
        seed=given.seed,
        pages=given.pages,
        mode=given.mode,
        kind=replace(kind, **asked),
        workers=given.workers,
        concurrency=given.concurrency,
        prefetch=PREFETCH,
        latency_ms=given.latency_ms,
        lease_s=given.lease_s,
        mean_fault_s=given.mean_fault_s,
        limit_s=given.limit_s or LIMIT_S + given.pages * LIMIT_S_A_PAGE,
        has_faults=given.faults,
        with_rollback=given.rollback,
        slack_s=given.slack_s,
    )


def _begin(sizes: Sizes) -> str:
    kind: Kind = sizes.kind
    graph = sizes.graph
    seeds = f"{len(graph.seeds)} seeds in a {kind.seeds}"
    return f"{graph.starts} start URLs" + (f", {seeds}" if graph.seeds else "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Hold a shared crawl to its promises while everything fails.")
    parser.add_argument(
        "--seed", type=int, default=7, help="decides the crawl's kind and faults; the same, the same plan"
    )
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.CRAWLCTL)
    parser.add_argument("--order", type=QueueOrder, choices=list(QueueOrder), help="instead of the seed's choice")
    parser.add_argument("--seen", type=SeenKind, choices=list(SeenKind), help="likewise")
    parser.add_argument("--shape", type=Shape, choices=list(Shape), help="likewise")
    parser.add_argument("--begin", type=Begin, choices=list(Begin), help="likewise: start URLs, seeds, or both")
    parser.add_argument("--seeds", type=SeedsKind, choices=list(SeedsKind), help="likewise: the kind of their key")
    parser.add_argument("--rollback", action="store_true", help="Redis also comes back some seconds older")
    parser.add_argument("--faults", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=16, help="CONCURRENT_REQUESTS of each worker")
    parser.add_argument("--latency-ms", type=float, default=250.0, metavar="MS", help="of the site, on average")
    parser.add_argument("--lease-s", type=float, default=3.0, metavar="S", help="the workers' lease (product: 30)")
    parser.add_argument("--mean-fault-s", type=float, default=2.5, metavar="S", help="a fault about every S seconds")
    parser.add_argument("--slack-s", type=float, default=ENDS_WITHIN_S, metavar="S", help="lateness of a slow machine")
    parser.add_argument("--limit-s", type=float, metavar="S", help="faults end after S seconds at the latest")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="leave journal, logs and Redis' files in this new folder"
    )
    return parser
