"""One history of a shared crawl: workers, a site and faults that a seed decides, and what must be true of it."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from simulation.history import History
from simulation.machines import Host, Process
from simulation.server import Link, Real
from simulation.workers import HOST, Site, Worker, WorkerLife

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName, default_crawl
from toolkit.runs.folder import CLAIM, RunFolder
from toolkit.store.wire_jobs import write_job

FAULTS_END_S = 60.0
SLOTS = 4
DEADLY = 5
SEED = 128
"""So many deaths make an entry a deadly one."""
LEASE_S = 30.0


class CrawlHistory(History):
    """Plays one history of a crawl, and returns what is broken in it."""

    FAULTS: ClassVar = {
        "cut": 3,
        "cut near a lease": 2,
        "answers lost": 2,
        "slow": 1,
        "worker freezes": 2,
        "worker dies": 3,
        "worker closes": 1,
        "Redis restarts": 2,
        "Redis older": 4,
        "Redis away": 2,
        "Redis away and older": 4,
        "Redis freezes": 2,
        "Redis clock steps": 1,
    }

    def __init__(self, seed: int, real: Real, folder: Path, *, say: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, real, folder, say=say, lease_s=LEASE_S, faults_end_s=FAULTS_END_S)
        chance = self.chance
        # Two jobs of one spider, with other arguments, are two crawls.
        categories = chance.choice((("a",), ("a",), ("a",), ("a", "b")))
        self.sites = {category: a_site(chance, category) for category in categories}
        self.lives: list[WorkerLife] = []
        self.workers: dict[str, Worker] = {}
        self.hosts: dict[str, Host] = {}
        self.settings: dict[str, Any] = {"FRONTIER_LEASE_S": LEASE_S}
        if chance.random() < 0.15:
            self.settings["SCHEDULER_FLUSH_ON_START"] = True
        if chance.random() < 0.5:
            self.settings["FRONTIER_RUN"] = f"run-{seed}"
        links = {path: found for site in self.sites.values() for path, found in site.links.items()}
        # So that the crawl takes some of the time in which there are faults.
        self.pace_s = chance.uniform(8, 50) * SLOTS * 2 / len(links)
        self.start_pace_s = chance.choice((0.0, 0.02, 0.5))
        self.slow = set(chance.sample(sorted(links), 2)) if chance.random() < 0.3 else set()
        self.pushed: dict[str, float] = {}
        self._categories: dict[str, str] = {}
        self._jobs: dict[str, str] = {}
        self._number = 0
        self._awaited: set[str] = set()
        self._over: set[str] = set()
        self._was_alone = False

    def begin(self) -> None:
        """Bring up hosts, seeds and workers."""
        categories = sorted(self.sites)
        for number in range(max(len(categories), self.chance.choice((1, 2, 2, 3, 3, 4)))):
            name = f"host-{number + 1}"
            link = Link(self.world, self.server, self.orderly, name=name)
            host = self.hosts[name] = Host(self.world, name, link)
            link.owner = host
            self._categories[name] = categories[number % len(categories)]
            self.later(self.chance.choice((0.0, 0.2, 3.0)), partial(self._start, host))
        for site in self.sites.values():
            for seed in site.seeds:
                self.later(self.chance.choice((0.0, self.chance.uniform(0, 60))), partial(self._push, seed))

    def links(self) -> dict[str, Link]:
        """Return whose way to Redis can be cut."""
        return {name: host.link for name, host in self.hosts.items()}

    def fault(self, kind: str, name: str, *, length: float, which: float) -> None:
        """Do one of the faults that are the workers' own."""
        host, worker = self.hosts[name], self.workers.get(name)
        if worker is None or worker.process.is_gone or host.holder() is not None:
            return
        if kind == "worker freezes":
            for_s = LEASE_S * (0.1 + 1.6 * length)
            self.note(kind, name, for_s)
            host.freeze()
            self.world.after(for_s, self.orderly, lambda: host.thaw(self.world))
        elif kind == "worker dies":
            self.note(kind, name, 0.0)
            worker.process.exit(signal=signal.SIGKILL)
        else:
            self.note(kind, name, 0.0)
            worker.process.receive(signal.SIGINT)

    def mend(self) -> None:
        """Bring everything back that is away."""
        for host in self.hosts.values():
            if host.holder() is not None:
                host.thaw(self.world)

    def is_late(self) -> bool:
        """Tell whether nobody works on the crawls any more."""
        return self._over == self.sites.keys() and all(worker.process.is_gone for worker in self.workers.values())

    def is_settled(self) -> bool:
        """Tell whether all workers have ended by themselves."""
        return self.is_late() and not self._awaited

    def judge(self, *, is_settled: bool) -> None:
        """Say what is not as it must be."""
        if not is_settled:
            left = {life.name: life.end for life in self.lives if life.ended_at is None}
            self.broken.append(f"the crawl never ended: {left}, {self._counts()}")
        items = self._items()
        forgotten = {
            seed for seed, at in self.pushed.items() if any(since < at < back for back, since in self.server.rollbacks)
        }
        roots = self.pushed.keys() - self._unread() - forgotten
        wanted: set[str] = set()
        in_vain = self._ended_in_vain()
        for site in (site for category, site in self.sites.items() if category not in in_vain):
            found = reachable(site, [*site.starts, *(roots & set(site.seeds))])
            wanted |= {item for path in found for item in site.items(path)}
        if missing := sorted(wanted - items.keys()):
            self.broken.append(f"{len(missing)} of {len(wanted)} items are lost: {missing[:5]}")
        may_begin_anew = self._began_anew() or (self._was_alone and "SCHEDULER_FLUSH_ON_START" in self.settings)
        twice = sorted(path for path, count in items.items() if count > 1 and path.split("#")[0] not in self.pushed)
        if twice and not may_begin_anew:
            self.broken.append(f"{len(twice)} items are there twice: {twice[:5]}")
        for life in self.lives:
            if strange := [path for _, path in life.pages if path not in self.sites[life.category].links]:
                self.broken.append(f"{life.name} of {life.category} worked on pages of others: {strange[:3]}")
        pending, in_flight, dead = self._counts()
        if is_settled and (pending > len(self._given_back()) or in_flight) and not in_vain:
            self.broken.append(f"the crawl ended with {pending} pending and {in_flight} in flight")
        if dead:
            deaths = sum(life.end == "SIGKILL" for life in self.lives)
            if deaths < DEADLY:
                self.broken.append(f"{dead} entries count as deadly, after {deaths} deaths")

    def _ended_in_vain(self) -> set[str]:
        """Return the categories of which Redis has forgotten the end when nobody was there any more who knew of it."""
        return {
            category
            for category in self.sites
            for back, since in self.server.rollbacks
            if any(
                life.end == "finished" and life.ended_at and since < life.ended_at < back
                for life in self.lives
                if life.category == category
            )
            and all(life.ended_at and life.ended_at < back for life in self.lives if life.category == category)
        }

    def _began_anew(self) -> bool:
        """Tell whether a worker came when the crawl was over: a new one, unless its run was over and no seed came."""
        return any(
            ended.end == "finished"
            and ended.ended_at
            and life.pages
            and life.pages[0][0] > ended.ended_at
            and ("FRONTIER_RUN" not in self.settings or self._late_seeds(life.category))
            for ended in self.lives
            for life in self.lives
            if life.category == ended.category
        )

    def _start(self, host: Host) -> None:
        self._awaited.discard(host.name)
        if host.holder() is not None:
            self._soon(host, 1.0)
            return
        category = self._categories[host.name]
        if category in self._over and host.name not in self._jobs:
            return
        self._number += 1
        job_id = self._jobs.setdefault(host.name, f"job-{self._number}")
        token = f"{self._number}.{round(self.world.now * 1000)}.1:{host.name}:life"
        folder = RunFolder(self.folder / f"{job_id}~{self._number}")
        folder.path.mkdir(parents=True)
        args = self._args_of(category)
        job = Job(JobId(job_id), ProjectName("shop"), SpiderName("books"), JobState.STARTING, args=args)
        folder.write(CLAIM, {"job_id": job.id, "token": token, "project": job.project, "job": write_job(job)})
        life = WorkerLife(f"{job_id}~{self._number}", self.world.now, category)
        self.lives.append(life)
        process = Process(host, None)
        worker = Worker(process, folder, self.sites[category], life, settings=self.settings, args=args, paces=self)
        process.program = worker
        process.watch(self.orderly, lambda: self._ended(host, life))
        self.workers[host.name] = worker
        self.world.say("{} begins on {}, category {}", life.name, host.name, category)
        worker.begin()

    def _ended(self, host: Host, life: WorkerLife) -> None:
        """Begin a killed one's job again, as a node does, and another in place of one that was ended on purpose."""
        others = [worker for name, worker in self.workers.items() if self._categories[name] == life.category]
        self._was_alone = self._was_alone or all(worker.process.is_gone for worker in others)
        if life.end == "finished":
            self._over.add(life.category)
            return
        if life.end != "SIGKILL":
            del self._jobs[host.name]
        self._soon(host, self.chance.choice((0.2, 5.0, 40.0)))

    def _soon(self, host: Host, in_s: float) -> None:
        self._awaited.add(host.name)
        self.later_s(in_s, partial(self._start, host))

    def page_s(self, path: str) -> float:
        """Return how long a page takes."""
        return self.chance.uniform(10, 50) if path in self.slow else self.chance.uniform(0.2, 1.8) * self.pace_s

    def start_s(self) -> float:
        """Return how long `start()` takes for the next request."""
        return self.chance.uniform(0, 2) * self.start_pace_s

    def _push(self, seed: str) -> None:
        if self.is_late():
            return
        if self.server.is_down or self.server.holder() is not None:
            self.later_s(1.0, partial(self._push, seed))
            return
        (category,) = (name for name, site in self.sites.items() if seed in site.seeds)
        key = f"{default_crawl('books', self._args_of(category))}:start_urls"
        self.server.carry_out(lambda: self.real.text.rpush(key, HOST + seed))
        self.pushed[seed] = self.world.now
        self.world.say("seed {} is pushed to {}", seed, key)

    def _args_of(self, category: str) -> dict[str, str]:
        return {"category": category} if len(self.sites) > 1 else {}

    def _late_seeds(self, category: str) -> set[str]:
        """Return the seeds that came when the crawl was over for one of its workers."""
        over = [life.ended_at for life in self.lives if life.category == category and life.end == "finished"]
        over_at = min(filter(None, over), default=self.world.now)
        return {seed for seed in self.sites[category].seeds if self.pushed.get(seed, 0.0) > over_at}

    def _unread(self) -> set[str]:
        urls: list[Any] = []
        for key in self.real.text.scan_iter("*:start_urls"):
            urls += self.real.text.lrange(key, 0, -1)
        return {url.removeprefix(HOST) for url in urls} | self._given_back()

    def _given_back(self) -> set[str]:
        """Return late seeds that a worker was given while it ended, and that wait for the next one."""
        redis: Any = self.real.bytes
        members = [each for key in redis.scan_iter("*:requests") for each in redis.zrange(key, 0, -1)]
        late = {seed for category in self.sites for seed in self._late_seeds(category)}
        return late & {each[9:].decode(errors="replace").removeprefix(HOST) for each in members if each[8] >= SEED}

    def _items(self) -> Counter[str]:
        items: Counter[str] = Counter()
        for key in self.real.text.scan_iter("*:items"):
            entries: Any = self.real.text.xrange(key)
            items.update(fields["v"] for _, fields in entries)
        return items

    def _counts(self) -> tuple[int, int, int]:
        text = self.real.text
        pending = sum(text.zcard(key) for key in (*text.scan_iter("*:requests"), *text.scan_iter("*:suspects")))
        in_flight = sum(text.hlen(key) for key in text.scan_iter("*:requests:inflight:*"))
        return pending, in_flight, sum(text.hlen(key) for key in text.scan_iter("*:requests:dead"))


def a_site(chance: Any, category: str) -> Site:
    """Return a tree of pages below some starts, a few linked twice."""
    pages = chance.choice((10, 40, 90))
    starts = [f"{category}-s{number}" for number in range(chance.choice((1, 1, 5, 30)))]
    seeds = [f"{category}-d{number}" for number in range(chance.choice((0, 0, 3, 8)))]
    if seeds and chance.random() < 0.3:
        starts = []
    links: dict[str, list[str]] = {root: [] for root in (*starts, *seeds)}
    known = list(links)
    for number in range(pages):
        path = f"{category}-p{number}"
        links[path] = []
        links[chance.choice(known[-30:])].append(path)
        known.append(path)
    for _ in range(pages // 5):
        links[chance.choice(known)].append(f"{category}-p{chance.randrange(pages)}")
    dump = chance.choice(known) if chance.random() < 0.15 else ""
    return Site(links, starts, seeds, dump)


def reachable(site: Site, roots: list[str]) -> set[str]:
    """Return the pages that are found from these."""
    found: set[str] = set()
    left = list(roots)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += site.links[path]
    return found
