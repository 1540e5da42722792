"""The chaos run of crons: many due at the same moments, faults by a seed around these, and a verdict."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path

from chaos.crons.checking import IN_TIME_MS, Evidence, Told, Verdict, judge
from chaos.crons.injection import Contenders, Injector
from chaos.crons.working import Worker
from support.plugin_node import PluginNode
from support.redis_server import RedisServer
from support.stores import SHOP, V1, a_lock, a_release, a_rollout
from support.waiting import wait_until

from toolkit.crons.due import dues, next_due
from toolkit.model.crons import After, Cron, Late, Overlap, Trigger
from toolkit.model.events import EventKind
from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobFilter
from toolkit.model.names import SpiderName
from toolkit.store.interfaces import Shared, Store
from toolkit.store.open import open_store

EXPRESSIONS = ("* * * * * *", "*/2 * * * * *", "*/3 * * * * *", "*/5 * * * * *")
"""With seconds, which operators cannot have: a minute would be long for a test."""

FEEDER, FOLLOWER, IN_TURN = "feeder", "follower", "in-turn"
SETTLED_WITHIN_S = 60.0
MAX_EVENTS_READ = 100_000
FOLLOWED, TURNS, IDLE = SpiderName("books"), SpiderName("prices"), SpiderName("idle")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a run is."""

    seed: int
    seconds: float
    crons: int
    nodes: int
    contenders: int
    slack_ms: int


class Run:
    """One run in a folder, from an empty Redis to the verdict."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self._folder, self._sizes = folder, sizes
        self._since = time.monotonic()

    def say(self, text: str) -> None:
        """Tell of the progress, with the seconds since the start."""
        sys.stderr.write(f"{time.monotonic() - self._since:7.1f} s  {text}\n")
        sys.stderr.flush()

    def perform(self) -> tuple[Verdict, Mapping[str, int]]:
        """Do it; return the verdict and how many faults of each kind there were."""
        sizes = self._sizes
        with ExitStack() as closing:
            redis = closing.enter_context(RedisServer(self._folder / "redis"))
            store = open_store(Secret(redis.url), self._folder)
            closing.callback(store.close)
            _release(store)
            nodes = [
                PluginNode(self._folder / f"node-{number}", redis_url=redis.url, name=f"node-{number}")
                for number in range(1, sizes.nodes + 1)
            ]
            for node in nodes:
                closing.callback(node.kill)
                node.start()
            contenders = Contenders(sizes.contenders, redis.url, self._folder, seed=sizes.seed)
            closing.callback(contenders.end)
            contenders.look()
            workers = [
                Worker(redis.url, self._folder, f"worker-{spider}", [spider], seed=sizes.seed)
                for spider in (FOLLOWED, TURNS)
            ]
            for worker in workers:
                closing.callback(worker.stopping.set)
                worker.start()
            begin = store.now().replace(microsecond=0) + timedelta(seconds=2)
            crons = _define(store, sizes, begin=begin)
            self.say(f"{len(crons)} crons, {sizes.nodes} nodes, {sizes.contenders} contenders")
            injector = Injector(redis, nodes, contenders, seed=sizes.seed, say=self.say)
            ends_at = time.monotonic() + sizes.seconds
            while time.monotonic() < ends_at:
                injector.next()
            contenders.look()
            self.say("no more faults")
            wait_until(lambda: _is_settled(store), deadline_s=SETTLED_WITHIN_S, what="everything due to be fired")
            evidence = _evidence(store, crons, begin, injector)
            return judge(replace(evidence, slack_ms=sizes.slack_ms)), injector.kinds


def _release(store: Store) -> None:
    """Make a release active that no node holds: most jobs stay pending, and are counted."""
    lock = a_lock(store)
    release = a_release(V1)
    store.releases.record(replace(release, spiders=(*release.spiders, IDLE)), lock)
    store.releases.activate(a_rollout(V1), lock, held_by=[])
    store.releases.unlock(lock)


def _define(store: Store, sizes: Sizes, *, begin: datetime) -> list[Cron]:
    end = begin + timedelta(seconds=sizes.seconds)
    term = {"starts_at": begin, "ends_at": end, "late": Late.ALL, "project": SHOP}
    crons = [
        Cron(
            f"cron-{number}",
            IDLE,
            at=EXPRESSIONS[number % len(EXPRESSIONS)],
            overlap=Overlap.ALLOW,
            jitter_s=0.5 if number % 7 == 0 else 0.0,
            **term,  # type: ignore[arg-type]
        )
        for number in range(sizes.crons)
    ]
    crons.append(Cron(FEEDER, FOLLOWED, at="*/2 * * * * *", overlap=Overlap.ALLOW, **term))  # type: ignore[arg-type]
    crons.append(Cron(IN_TURN, TURNS, at="* * * * * *", overlap=Overlap.QUEUE, **term))  # type: ignore[arg-type]
    shared = _shared(store)
    chain = Cron(FOLLOWER, IDLE, after=After(FOLLOWED), project=SHOP, overlap=Overlap.ALLOW)
    due = {cron.name: first for cron in crons if (first := next_due(cron, after=begin - timedelta(seconds=1)))}
    shared.crons.put([*crons, chain], by="chaos", due=due)
    return crons


def _is_settled(store: Store) -> bool:
    views = _shared(store).crons.all()
    if any(view.next_at is not None or view.waiting for view in views):
        return False
    jobs = store.jobs.recent(JobFilter(spider=FOLLOWED), limit=100_000)
    followers = store.jobs.recent(JobFilter(spider=IDLE), limit=100_000)
    ended = sum(job.state.is_final for job in jobs)
    return ended == len(jobs) == sum(job.scheduled_by == f"cron {FOLLOWER}" for job in followers)


def _evidence(store: Store, crons: Sequence[Cron], begin: datetime, injector: Injector) -> Evidence:
    shared = _shared(store)
    events = shared.events.after("0-0", limit=MAX_EVENTS_READ)
    fired = [event for event in events if event.kind is EventKind.CRON_FIRED]
    jobs = {job.id: job for job in store.jobs.recent(JobFilter(), limit=1_000_000)}
    due = {}
    for cron in crons:
        assert cron.ends_at is not None
        last = cron.ends_at
        times = takewhile(lambda each, last=last: each.at <= last, dues(cron, after=begin - timedelta(seconds=1)))  # type: ignore[misc]
        due[cron.name] = [
            (Trigger(each.at), int(each.fires_at.timestamp() * 1000), f"{each.at:%H:%M:%S}") for each in times
        ]
    told = [
        Told(event.subject, event.about["due"], job, int(event.id.partition("-")[0]))  # type: ignore[arg-type]
        for event in fired
        for job in event.about["jobs"].split()
    ]
    skipped = sum(event.kind in {EventKind.CRON_SKIPPED, EventKind.CRON_FAILED} for event in events)
    return Evidence(due, told, skipped, jobs, injector.disturbed, FOLLOWED, FOLLOWER, IN_TURN)


def _shared(store: Store) -> Shared:
    assert store.shared is not None
    return store.shared


def main(arguments: Sequence[str] | None = None) -> int:
    """Run once, say each broken promise, and end with the line of JSON; 1 when a promise broke."""
    given = _parser().parse_args(arguments)
    sizes = Sizes(given.seed, given.seconds, given.crons, given.nodes, given.contenders, given.slack_ms)
    with ExitStack() as closing:
        folder = given.keep or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        verdict, faults = Run(folder.resolve(), sizes).perform()
    for problem in verdict.broken:
        sys.stderr.write(f"BROKEN: {problem}\n")
    sys.stdout.write(last_line(verdict, sizes=sizes, faults=faults) + "\n")
    return 1 if verdict.broken else 0


def last_line(verdict: Verdict, *, sizes: Sizes, faults: Mapping[str, int]) -> str:
    """Return the one JSON object."""
    return json.dumps(
        {
            "seed": sizes.seed,
            "firings_due": verdict.due,
            "fired": verdict.fired,
            "missed": verdict.missed,
            "doubled": verdict.doubled,
            "late_ms_max": verdict.late_ms_max,
            "faults": sum(faults.values()),
            "kinds": dict(faults),
            "broken": verdict.broken,
        }
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Hold crons to their promises while nodes and Redis are killed.")
    parser.add_argument("--seed", type=int, default=7, help="decides the faults; the same seed, the same plan")
    parser.add_argument("--seconds", type=float, default=90.0, help="for so long crons are due, and things fail")
    parser.add_argument("--crons", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=2, help="real nodes")
    parser.add_argument("--contenders", type=int, default=5, help="processes that only fire, and die at bad moments")
    parser.add_argument("--slack-ms", type=int, default=IN_TIME_MS, metavar="MS", help="lateness of a slow machine")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the logs in this folder")
    return parser
