"""A cluster worth looking at: nodes in several states, jobs of every kind, a crawl, releases, crons, a past hour.

All of it lies in a real Redis; the nodes are only heard, and run nothing. With hundreds of nodes and thousands of jobs
it is what the pages are measured with.
"""

from __future__ import annotations

import json
import math
import os
import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import redis
from support.crawl_desk import Worker, a_plan, acknowledge
from support.queue_desk import a_pending_job, a_report, an_ending
from support.stores import SHOP, V1, V2, a_lock, a_release

from toolkit.model.crons import Cron, Due
from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobState
from toolkit.model.names import DEFAULT_CLUSTER, NodeName, SpiderName
from toolkit.model.nodes import NodeReport
from toolkit.model.queue import Claimed, Ending, Held, Progress
from toolkit.model.releases import NodeResult, Rollout
from toolkit.store.frontier import open_frontier
from toolkit.store.interfaces import Shared, Store
from toolkit.store.keys import Keys
from toolkit.store.open import open_store

SPIDERS = ("books", "prices", "reviews", "stock-levels", "sitemap")
BEAT_EVERY_S = 2.0
LEASE_S = 15.0
HOUR_SAMPLES = 360
JOBS_A_CALL = 500
_CLUSTER, _JOB = struct.Struct(">dIIIIddd"), struct.Struct(">dIIIf")


class Scene:
    """The cluster's store, and the nodes that give signs of life while it is open."""

    def __init__(self, store: Store, client: redis.Redis, *, nodes: int, jobs: int, is_live: bool) -> None:
        assert store.shared is not None
        self.store = store
        self.shared: Shared = store.shared
        self.keys = Keys(DEFAULT_CLUSTER)
        self.client = client
        self.chance = random.Random(7)  # noqa: S311 - the same scene each time
        self.held: dict[NodeName, list[Claimed]] = {}
        self.progress: dict[str, Progress] = {}
        self.reports = [self._report(number) for number in range(1, nodes + 1)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True) if is_live else None
        self._fill(jobs)

    def begin(self) -> None:
        """Let the nodes be heard from now on."""
        if self._thread is not None:
            self._thread.start()

    def end(self) -> None:
        """Let them fall silent."""
        self._over.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def beat(self, *, pages: int = 0) -> None:
        """Let each node give a sign of life; each job has fetched so many pages more, or fewer."""
        for report in self.reports:
            held = self.held.get(report.name, [])
            for claim in held:
                self._advance(claim, pages)
            told = [Held(claim.job.id, claim.token, self.progress[claim.job.id]) for claim in held]
            answer = self.shared.nodes.beat(replace(report, running=len(held)), told)
            for claim in [*held]:
                wish = answer.wishes.get(claim.token)
                if wish is not None and wish.is_cancel:
                    self.finish(claim, an_ending(JobState.CANCELLED))
                elif wish is not None:
                    state = JobState.PAUSED if wish.is_paused else JobState.RUNNING
                    self.progress[claim.job.id] = replace(self.progress[claim.job.id], state=state)

    def finish(self, claim: Claimed, ending: Ending) -> None:
        """Let a job's process end."""
        assert claim.job.node is not None
        self.held[claim.job.node].remove(claim)
        self.shared.queue.finish(claim.job.id, claim.token, ending)

    def running(self) -> list[Claimed]:
        """Return the jobs that run."""
        return [claim for held in self.held.values() for claim in held]

    def _live(self) -> None:
        while not self._over.wait(BEAT_EVERY_S):
            try:
                self.beat(pages=40)
            except Exception as error:  # noqa: BLE001 - Redis may be away in a test, and nodes go on then too
                self.last_error = error

    def _advance(self, claim: Claimed, pages: int) -> None:
        before = self.progress[claim.job.id]
        if before.state is JobState.PAUSED or not pages:
            return
        more = self.chance.randint(pages // 2, pages)
        self.progress[claim.job.id] = replace(
            before,
            pages=(before.pages or 0) + more,
            items=(before.items or 0) + more // 2,
            errors=(before.errors or 0) + (self.chance.random() < 0.02),
        )

    def _report(self, number: int) -> NodeReport:
        report = a_report(f"node-{number}", slots=8, lease_s=LEASE_S, versions={SHOP: (V1, V2)})
        return replace(
            report,
            load=round(self.chance.uniform(0.1, 0.9), 2),
            memory_free_mb=self.chance.randint(900, 7000),
            disk_free_mb=self.chance.randint(9_000, 90_000),
            labels={"place": self.chance.choice(["berlin", "oslo"])},
            software={"python": "3.11.7", "scrapy": "2.19.0", "scrapyd": "1.6.0", "crawlctl": "0.6.0"},
            started_at=datetime.now(UTC) - timedelta(hours=31),
        )

    def _fill(self, jobs: int) -> None:
        self._release()
        for report in self.reports:
            self.shared.nodes.beat(report, [])
        names = [self._new_id() for _ in range(jobs)]
        now = datetime.now(UTC)
        for begin in range(0, jobs, JOBS_A_CALL):
            self.shared.queue.add(
                [
                    replace(
                        a_pending_job(name, spider=SPIDERS[at % len(SPIDERS)], version=V2),
                        scheduled_at=now - timedelta(seconds=3 * (jobs - at)),
                        args={"city": "Zürich", "max_pages": str(100 * at)},
                    )
                    for at, name in enumerate(names[begin : begin + JOBS_A_CALL], begin)
                ]
            )
        self._run(jobs)
        self._past()
        self._crawl()
        self._crons()
        self.shared.nodes.drain([self.reports[-1].name], who="ann@desk")

    def _run(self, jobs: int) -> None:
        """Let most jobs have ended, some run, and some wait."""
        lines = [line.name for line in self.shared.queue.lines()]
        time.sleep(0.3)
        ends, runs = jobs * 6 // 10, min(jobs * 3 // 10, 6 * (len(self.reports) - 1))
        for at in range(ends + runs):
            report = self.reports[at % max(1, len(self.reports) - 1)]
            answer = self.shared.queue.claim(report, lines, running=0)
            if not isinstance(answer, Claimed):
                continue
            self.shared.queue.started(answer.job.id, answer.token, pid=4000 + at)
            told = Progress(
                JobState.RUNNING,
                pages=self.chance.randint(50, 9000),
                items=self.chance.randint(10, 4000),
                errors=self.chance.choice([0, 0, 0, 0, 3, 17]),
                retries=self.chance.randint(0, 30),
                bytes=self.chance.randint(10**6, 10**9),
                pages_per_minute=float(self.chance.randint(60, 900)),
                memory_mb=float(self.chance.randint(90, 400)),
            )
            if at >= ends:
                self.held.setdefault(report.name, []).append(replace(answer, job=replace(answer.job, node=report.name)))
                self.progress[answer.job.id] = told
                continue
            is_bad = at % 9 == 4
            state = JobState.FAILED if is_bad else JobState.FINISHED
            reason = "its process ended with exit code 1: KeyError: 'price'" if is_bad else "finished"
            ending = Ending(state, reason, exit_code=1 if is_bad else 0, progress=told, ago_s=float(ends - at))
            self.shared.queue.finish(answer.job.id, answer.token, ending)
        self.beat()

    def _release(self) -> None:
        lock = a_lock(self.store)
        names = tuple(SpiderName(name) for name in SPIDERS)
        now = datetime.now(UTC)
        results = tuple(
            NodeResult(report.name, ok=True, step="read back", seconds=0.7, spiders=5) for report in self.reports
        )
        for version, hours in ((V1, 30), (V2, 3)):
            release = replace(a_release(version, digest=version[-7:] * 9), spiders=names)
            release = replace(release, created_at=now - timedelta(hours=hours))
            self.store.releases.record(release, lock)
            rollout = Rollout(SHOP, version, "deploy", now - timedelta(hours=hours), "ann@desk", True, results)  # noqa: FBT003
            self.store.releases.activate(rollout, lock, held_by=[report.name for report in self.reports])
        self.store.releases.unlock(lock)

    def _past(self) -> None:
        """Give the cluster an hour, and each job that runs its course."""
        now_ms = time.time() * 1000
        records = []
        for at in range(HOUR_SAMPLES):
            wave = 1 + math.sin(at / 29) / 3 + self.chance.uniform(-0.07, 0.07)
            errors = 0.4 if 200 < at < 216 else 0.02 * wave
            active = round(len(self.running()) * (0.6 + wave / 4))
            at_ms = now_ms - (HOUR_SAMPLES - at) * 10_000
            records.append(_CLUSTER.pack(at_ms, round(60 * wave), active, 12, 96, 210 * wave, 84 * wave, errors))
        self.client.rpush(self.keys.cluster_samples, *records)
        for claim in self.running()[:40]:
            told = self.progress[claim.job.id]
            course = b"".join(
                _JOB.pack(
                    now_ms - (90 - at) * 10_000,
                    round((told.pages or 0) * (at / 90) ** 0.9),
                    round((told.items or 0) * (at / 90)),
                    round((told.errors or 0) * at / 90),
                    120 + 60 * (at / 90) ** 0.5 + self.chance.uniform(-3, 3),
                )
                for at in range(90)
            )
            self.client.set(self.keys.samples_of(claim.job.id), course)
            facts = json.loads(self.client.hget(self.keys.jobs, claim.job.id) or b"{}")
            begun = json.dumps({**facts, "started_ms": round(now_ms - 900_000)})
            self.client.hset(self.keys.jobs, claim.job.id, begun)

    def _crawl(self) -> None:
        plan = a_plan("books")
        url = self.client.connection_pool.connection_kwargs
        place = f"redis://{url['host']}:{url['port']}/0"
        for claim in self.running()[:2]:
            with_frontier = open_frontier(Secret(place), plan)
            name = f"{claim.job.id}~1"
            worker = Worker(with_frontier, name)
            worker.join()
            worker.push(*(f"https://shop-{at % 7}.example/{name}/{at}" for at in range(120)))
            taken = worker.take(16)
            worker.commit(done=acknowledge(*taken[:10], items=[b'{"title": "A book"}']))
            with_frontier.close()

    def _crons(self) -> None:
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        crons: Sequence[tuple[str, str, str, int]] = (
            ("nightly-books", "books", "0 2 * * *", 190),
            ("hourly-prices", "prices", "15 * * * *", 22),
            ("reviews-weekdays", "reviews", "30 6 * * 1-5", 700),
            ("stock", "stock-levels", "*/10 * * * *", 4),
        )
        made = [
            Cron(name=name, spider=SpiderName(spider), project=SHOP, at=at, comment="what the shop shows")
            for name, spider, at, _ in crons
        ]
        dues = {name: now + timedelta(minutes=minutes) for name, _, _, minutes in crons}
        self.shared.crons.put(made, by="ann@desk", due={name: Due(at, at) for name, at in dues.items()})

    def _new_id(self) -> str:
        return f"{self.chance.getrandbits(128):032x}"


@contextmanager
def web_scene(url: str, folder: Path, *, nodes: int = 12, jobs: int = 160, is_live: bool = True) -> Iterator[Scene]:
    """Fill an empty Redis, and keep its nodes alive until the context is left."""
    store = open_store(Secret(url), folder)
    with redis.Redis.from_url(url) as client:
        scene = Scene(store, client, nodes=nodes, jobs=jobs, is_live=is_live)
        scene.begin()
        try:
            yield scene
        finally:
            scene.end()
            store.close()


@contextmanager
def far_scene(url: str, folder: Path, *, nodes: int, jobs: int) -> Iterator[int]:
    """Fill an empty Redis from a process of its own, whose nodes are heard until the context is left; give its pid."""
    command = [sys.executable, "-m", "support.web_scene", url, str(folder), str(nodes), str(jobs)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n", "the scene could not be made"
            yield process.pid
        finally:
            process.stdin.close()
            process.wait(30)


def main() -> None:
    """Keep a scene alive until standard input ends."""
    url, folder, nodes, jobs = sys.argv[1:]
    with web_scene(url, Path(folder), nodes=int(nodes), jobs=int(jobs)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
