"""The chaos run's command line: a cluster, jobs, faults by a seed until every job has an outcome, and a verdict."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from chaos.aftermath import aftermath
from chaos.checking import SLACK_S, Evidence, Verdict, judge
from chaos.injection import Injector, Terms
from chaos.journal import read_journal
from chaos.machines import Machines
from chaos.operating import Operator, deploy, wait_until_held
from chaos.plan import FaultKind, faults, orders
from chaos.watching import Watcher

from toolkit.model.hosts import Secret
from toolkit.store.open import open_store

HELD_WITHIN_S = 60.0
LIMIT_LEASES = 20
LIMIT_S_A_JOB = 2.0
REDIS_AWAY_LEASES = 1.5
REDIS_AWAY_FULL_S = 60.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a run is. After `limit_s` of faults, what has no outcome yet has broken the promise."""

    seed: int
    jobs: int
    lease_s: float
    nodes: int
    slots: int
    mean_fault_s: float
    limit_s: float
    redis_away_s: float
    slack_s: float


class Run:
    """One run in a folder, from an empty Redis to the verdict."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self._folder = folder
        self._sizes = sizes
        self._journal = folder / "journal"
        self._since = time.monotonic()

    def say(self, text: str) -> None:
        """Tell of the progress, with the seconds since the start."""
        sys.stderr.write(f"{time.monotonic() - self._since:7.1f} s  {text}\n")
        sys.stderr.flush()

    def perform(self) -> tuple[Verdict, list[FaultKind]]:
        """Do it; return the verdict and the faults that there were."""
        sizes = self._sizes
        with ExitStack() as closing:
            machines = closing.enter_context(Machines(self._folder, lease_s=sizes.lease_s, slots=sizes.slots))
            store = open_store(Secret(machines.url), self._folder)
            closing.callback(store.close)
            deploy(store)
            with ThreadPoolExecutor(sizes.nodes) as pool:
                list(pool.map(lambda _: machines.add(), range(sizes.nodes)))
            wait_until_held(store, [machine.name for machine in machines.all], deadline_s=HELD_WITHIN_S)
            self.say(f"{sizes.nodes} nodes of {sizes.slots} slots are up, lease {sizes.lease_s:g} s")
            watcher = Watcher(machines.url, self._journal, lease_s=sizes.lease_s)
            watcher.start()
            plan = faults(sizes.seed, mean_s=sizes.mean_fault_s)
            terms = Terms(sizes.lease_s, sizes.redis_away_s)
            injector = Injector(machines, watcher, plan, terms=terms, journal=self._journal, say=self.say)
            operator = Operator(
                store,
                orders(sizes.seed, sizes.jobs, nodes=sizes.nodes),
                self._journal,
                slots=sizes.slots * sizes.nodes,
                forgetting=injector.forgetting,
                say=self.say,
            )
            operator.start()
            injector.start()
            operator.is_done.wait(sizes.limit_s)
            injector.stop()
            self.say("no more faults")
            operator.is_done.wait(sizes.limit_s)
            operator.stopping.set()
            operator.join(30)
            broken = [*injector.broken, *operator.broken]
            broken += aftermath(machines, store, watcher, self._journal, lease_s=sizes.lease_s, say=self.say)
            watcher.stop()
            verdict = judge(
                Evidence(
                    lease_s=sizes.lease_s,
                    orders=operator.accepted,
                    jobs=operator.records(),
                    runs=read_journal(self._journal),
                    seen=watcher.seen,
                    hits=injector.hits,
                    cancels=operator.cancels,
                    slack_s=sizes.slack_s,
                )
            )
            verdict.broken += broken
            return verdict, [hit.kind for hit in injector.hits]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run once, say each broken promise, and end with the line of JSON; 1 when a promise broke."""
    given = _parser().parse_args(arguments)
    sizes = Sizes(
        seed=given.seed,
        jobs=given.jobs,
        lease_s=given.lease_s,
        nodes=given.nodes,
        slots=given.slots,
        mean_fault_s=given.mean_fault_s or given.lease_s / 2,
        limit_s=given.limit_s or LIMIT_LEASES * given.lease_s + given.jobs * (LIMIT_S_A_JOB + given.lease_s / 2),
        redis_away_s=REDIS_AWAY_FULL_S if given.full else REDIS_AWAY_LEASES * given.lease_s,
        slack_s=given.slack_s,
    )
    with ExitStack() as closing:
        folder = given.keep or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        verdict, hits = Run(folder.resolve(), sizes).perform()
    for problem in verdict.broken:
        sys.stderr.write(f"BROKEN: {problem}\n")
    sys.stdout.write(last_line(verdict, sizes=sizes, hits=hits) + "\n")
    return 1 if verdict.broken else 0


def last_line(verdict: Verdict, *, sizes: Sizes, hits: Sequence[FaultKind]) -> str:
    """Return the one JSON object."""
    requeues = verdict.requeues
    return json.dumps(
        {
            "seed": sizes.seed,
            "jobs": sizes.jobs,
            "faults": len(hits),
            "outcomes": verdict.outcomes,
            "without_outcome": verdict.without_outcome,
            "ran_twice_wrongly": verdict.ran_twice_wrongly,
            "requeue_s_max": round(max(requeues), 2) if requeues else None,
            "requeued": len(requeues),
            "ran_twice": verdict.ran_twice,
            "interrupted_wrongly": verdict.interrupted_wrongly,
            "lost_without_fault": verdict.lost_without_fault,
            "begun_too_often": verdict.begun_too_often,
            "lease_s": sizes.lease_s,
            "kinds": dict(Counter(kind.value for kind in hits)),
            "broken": verdict.broken,
        }
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Hold a real cluster to its promises while everything fails.")
    parser.add_argument("--seed", type=int, default=7, help="decides jobs and faults; the same seed, the same plan")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=4, help="so many at the start; one more is added later")
    parser.add_argument("--slots", type=int, default=2, help="slots of each node")
    parser.add_argument("--lease-s", type=float, default=3.0, metavar="S", help="the nodes' lease (product: 15)")
    parser.add_argument("--mean-fault-s", type=float, metavar="S", help="a fault about every S seconds (half a lease)")
    parser.add_argument("--limit-s", type=float, metavar="S", help="faults end after S seconds at the latest")
    parser.add_argument("--slack-s", type=float, default=SLACK_S, metavar="S", help="lateness of a slow machine")
    parser.add_argument("--full", action="store_true", help="stop Redis for a whole minute each time")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave journal and logs in this folder")
    return parser
