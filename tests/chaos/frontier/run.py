"""One run in a folder: a site, a Redis, workers that share one crawl, faults until every page is processed, an end."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import redis
from chaos.frontier.checking import FINISHED, Evidence, Life
from chaos.frontier.graph import Graph
from chaos.frontier.injection import Injector, Scene
from chaos.frontier.journal import Journal
from chaos.frontier.plan import Begin, FaultKind, Kind, Mode, faults
from chaos.frontier.rigs import SEEDED_IDLE_S, Rig, rig_of
from chaos.frontier.site import Site
from chaos.frontier.workers import Place, Worker, Workers
from chaos.links import Links
from support.redis_server import RedisServer

LOOK_S = 0.2
STALL_S = 30.0
"""A crawl that ends by itself, and has done nothing for so long after the last fault, has stuck."""
IDLE_S = 12.0
"""One that does not is taken for over when it has done nothing for so long: longer than any fault lasts."""
ENDS_WITHIN_S = 5.0
ROOTS_SHARE = 10
"""In a crawl of many start URLs or seeds, one of so many pages is one."""
SEEDS_AHEAD = 0.2
"""Seeds are pushed while the crawl goes on: always such a share of them more than of the pages is done."""
MAX_ENDS_BY_THEMSELVES = 10


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a run is. After `limit_s` of faults there are no more."""

    seed: int
    pages: int
    mode: Mode
    kind: Kind
    workers: int
    concurrency: int
    prefetch: int
    latency_ms: float
    lease_s: float
    mean_fault_s: float
    limit_s: float
    has_faults: bool = True
    with_rollback: bool = False
    slack_s: float = ENDS_WITHIN_S

    @property
    def graph(self) -> Graph:
        """The site."""
        many = max(2, self.pages // ROOTS_SHARE)
        counts = {Begin.ROOT: (0, 1), Begin.STARTS: (many, many), Begin.SEEDS: (many, 0), Begin.BOTH: (many, many // 2)}
        roots, starts = counts[self.kind.begin]
        if self.mode is Mode.STOCK:
            # Without seeds, scrapy-redis' first worker that finds the queue empty for a moment ends.
            roots, starts = max(1, roots), 0
        return Graph(self.pages, roots, self.kind.shape, self.seed, starts)


class Run:
    """From an empty Redis to the evidence."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self._folder = folder
        self._sizes = sizes
        self._rig: Rig = rig_of(sizes.mode, sizes.kind, lease_s=sizes.lease_s)
        self._journal = Journal(folder / "journal")
        self._redis = RedisServer(folder / "redis")
        self._since = time.monotonic()
        self._seeds_left: list[int] = []
        self._progress = (0, 0)
        self._progress_at = self._since
        self._ended_by_themselves: dict[str, Worker] = {}
        self.faults: list[FaultKind] = []
        self.broken: list[str] = []

    def say(self, text: str) -> None:
        """Tell of the progress, with the seconds since the start."""
        sys.stderr.write(f"{time.monotonic() - self._since:7.1f} s  {text}\n")
        sys.stderr.flush()

    def perform(self) -> Evidence:
        """Do it, and return what there is to be judged."""
        sizes, graph = self._sizes, self._sizes.graph
        with ExitStack() as closing:
            links = closing.enter_context(Links())
            closing.enter_context(self._redis)
            site = closing.enter_context(Site(self._folder, graph, latency_ms=sizes.latency_ms))
            place = Place(self._folder, self._journal.path, site.url, graph.starts)
            place.prepare(self._rig.settings(), concurrency=sizes.concurrency)
            workers = Workers(place, links, count=sizes.workers, redis_port=self._redis.port)
            closing.callback(workers.end)
            self._seeds_left = list(graph.seeds)
            workers.start()
            scene = Scene(workers, self._redis, sizes.lease_s, may_roll_back=self._has_work)
            plan = faults(sizes.seed, mean_s=sizes.mean_fault_s, with_rollback=sizes.with_rollback)
            injector = Injector(scene, plan if sizes.has_faults else iter(()), say=self.say)
            injector.start()
            closing.callback(injector.stop)
            self._crawl(site, workers, injector)
            injector.stop()
            self.faults = [hit.kind for hit in injector.hits]
            self.broken += injector.broken
            return self._evidence(site, workers, injector)

    def _has_work(self) -> bool:
        self._journal.look()
        return len(self._journal.processed) < self._sizes.pages

    def _crawl(self, site: Site, workers: Workers, injector: Injector) -> None:
        """Watch the workers until all have ended, or nothing happens any more."""
        started_at = time.monotonic()
        is_disturbed = True
        while not workers.have_ended():
            time.sleep(LOOK_S)
            self._journal.look()
            self._note_progress(site.fetched())
            self._push_seeds(site, injector)
            self._replace_fallen(workers)
            now = time.monotonic()
            is_late = now - started_at > self._sizes.limit_s
            if is_disturbed and (is_late or not self._has_work()):
                self.say("no more faults" + (": too late" if is_late else ""))
                injector.stop()
                is_disturbed = False
                self._progress_at = time.monotonic()
            quiet_s = now - self._progress_at
            if self._rig.ends_by_itself:
                if quiet_s > STALL_S and not is_disturbed:
                    self.say("stuck")
                    return
            elif quiet_s > IDLE_S or not self._has_work():
                return

    def _note_progress(self, fetched: int) -> None:
        progress = (fetched, len(self._journal.processed))
        if progress != self._progress:
            self._progress, self._progress_at = progress, time.monotonic()

    def _push_seeds(self, site: Site, injector: Injector) -> None:
        """Push some more seeds while Redis is there, and will not forget them."""
        seeds, fetched = site.graph.seeds, self._progress[0]
        count = len(self._seeds_left) - round(len(seeds) * max(0.0, 1 - SEEDS_AHEAD - fetched / site.graph.pages))
        if count <= 0 or not injector.redis_lock.acquire(blocking=False):
            return
        try:
            with redis.Redis.from_url(self._redis.url) as client:
                for page in self._seeds_left[:count]:
                    self._rig.seed(client, f"{site.url}/pages/{page}")
            del self._seeds_left[:count]
        finally:
            injector.redis_lock.release()

    def _replace_fallen(self, workers: Workers) -> None:
        """Start anew whoever ended though nobody had done anything to him, and the crawl was not over."""
        for slot in workers.slots:
            worker = slot.worker
            if not slot.is_sound or worker.code is None or worker.name in self._ended_by_themselves:
                continue
            self._journal.look()
            ending = self._journal.endings.get(worker.name)
            self._ended_by_themselves[worker.name] = worker
            if ending is not None and ending.reason == FINISHED and worker.code == 0:
                continue
            self.say(f"{worker.name} ended by itself with {worker.code}")
            if len(self._ended_by_themselves) <= MAX_ENDS_BY_THEMSELVES:
                slot.start()

    def _evidence(self, site: Site, workers: Workers, injector: Injector) -> Evidence:
        sizes = self._sizes
        lives = [self._life(worker) for slot in workers.slots for worker in slot.lives]
        last = {slot.worker.name for slot in workers.slots}
        self.say(f"{len(injector.hits)} faults, {len(lives)} processes; reading what is in Redis")
        with redis.Redis.from_url(self._redis.url) as client:
            items = self._rig.items(client)
        told = {"hits": list(map(asdict, injector.hits)), "fetches": list(map(asdict, site.fetches()))}
        (self._folder / "seen.json").write_text(json.dumps(told))
        return Evidence(
            graph=site.graph,
            fetches=site.fetches(),
            processed=self._journal.processed,
            items=items,
            lives=sorted(lives, key=lambda life: life.worker in last),
            hits=injector.hits,
            leftovers=self._rig.leftovers(self._redis.url),
            in_hand=sizes.concurrency + sizes.prefetch,
            workers=sizes.workers,
            ends_within_s=sizes.slack_s + sizes.lease_s + (SEEDED_IDLE_S if sizes.kind.is_seeded else 0),
            last_page_at=self._journal.last_page_at,
        )

    def _life(self, worker: Worker) -> Life:
        self._journal.look()
        return Life(
            worker=worker.name,
            started_at=worker.started_at,
            code=worker.code,
            ending=self._journal.endings.get(worker.name),
            was_hit=worker.name not in self._ended_by_themselves,
        )


def errors_in(folder: Path, *, is_told: Callable[[str], bool]) -> list[str]:
    """Return the lines of the workers' logs that tell of errors."""
    found = []
    for log in sorted(folder.glob("worker-*.log")):
        lines = log.read_text(errors="replace").splitlines()
        found += [f"{log.stem}: {line}" for line in lines if is_told(line)]
    return found
