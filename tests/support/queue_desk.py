"""A shared queue on a real Redis as tests work on it: values to put in, nodes that claim, and what is left behind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import redis
from support.stores import BEGIN, SHOP, V1
from support.waiting import wait_until

from toolkit.model.hosts import Secret
from toolkit.model.jobs import DEFAULT_ATTEMPTS, Job, JobState
from toolkit.model.names import DEFAULT_CLUSTER, JobId, NodeName, ProjectName, Session, SpiderName, VersionName
from toolkit.model.nodes import NodeReport
from toolkit.model.queue import BeatAnswer, Claimed, Ending, Held, NothingToClaim, Progress, unfit
from toolkit.store.interfaces import Shared, Store
from toolkit.store.keys import Keys
from toolkit.store.open import open_store

SHORT_S = 0.4
"""A lease that a test can wait for."""
SOON_S = 30.0
"""Within this, whatever a test waits for has happened."""


def a_report(
    name: str = "node-1",
    *,
    session: str = "life-1",
    home: str | None = None,
    slots: int = 4,
    running: int = 0,
    lease_s: float = 60.0,
    versions: Mapping[ProjectName, tuple[VersionName, ...]] | None = None,
    unfit: str | None = None,
) -> NodeReport:
    """Return what a node says of itself; it holds the shop's first version unless told otherwise."""
    return NodeReport(
        name=NodeName(name),
        session=Session(session),
        home=home or f"home of {name}",
        address=f"{name}.example:6800",
        slots=slots,
        running=running,
        lease_s=lease_s,
        versions={SHOP: (V1,)} if versions is None else versions,
        unfit=unfit,
    )


def a_pending_job(
    job_id: str,
    *,
    spider: str = "books",
    project: ProjectName = SHOP,
    version: VersionName = V1,
    priority: float = 0.0,
    on: Sequence[str] | None = None,
    attempts: int = DEFAULT_ATTEMPTS,
    retries_failed: bool = False,
    is_held: bool = False,
    due_at: datetime | None = None,
    args: Mapping[str, str] | None = None,
) -> Job:
    """Return a job as an operator hands it to the queue; its arguments differ from any other's unless given."""
    return Job(
        id=JobId(job_id),
        project=project,
        spider=SpiderName(spider),
        state=JobState.PENDING,
        version=version,
        args={"number": job_id} if args is None else args,
        settings={"LOG_LEVEL": "INFO"},
        priority=priority,
        scheduled_at=BEGIN,
        on=None if on is None else tuple(NodeName(name) for name in on),
        attempts=attempts,
        retries_failed=retries_failed,
        is_held=is_held,
        due_at=due_at,
        scheduled_by="ann@desk",
    )


def an_ending(
    state: JobState = JobState.FINISHED,
    *,
    finish_reason: str | None = None,
    exit_code: int = 0,
    signal: str | None = None,
    ago_s: float = 0.0,
) -> Ending:
    """Return how a process ended; its reporter counted a page, and gave Scrapy's word for the end if one is given."""
    progress = Progress(state=state, pages=1, items=2, finish_reason=finish_reason)
    return Ending(
        state=state, reason=f"it {state.value}", exit_code=exit_code, signal=signal, progress=progress, ago_s=ago_s
    )


def names(*job_ids: str) -> list[JobId]:
    """Return the ids as the queue's calls take them."""
    return [JobId(job_id) for job_id in job_ids]


class QueueDesk:
    """One cluster's queue, opened as one process opens it, beside a plain client that looks at the keys."""

    def __init__(self, store: Store, client: redis.Redis, client_for_bytes: redis.Redis, *, cluster: str) -> None:
        assert store.shared is not None
        self.shared: Shared = store.shared
        self.store = store
        self.queue = store.shared.queue
        self.nodes = store.shared.nodes
        self.eggs = store.shared.eggs
        self.redis = client
        self.redis_bytes = client_for_bytes
        self.keys = Keys(cluster)

    def add(self, *job_ids: str, spider: str = "books", priority: float = 0.0, attempts: int = 2) -> None:
        """Put jobs into the queue that differ in nothing but id and arguments."""
        self.queue.add(
            [a_pending_job(job_id, spider=spider, priority=priority, attempts=attempts) for job_id in job_ids]
        )

    def register(self, report: NodeReport) -> NodeReport:
        """Let a node give its first sign of life."""
        self.nodes.beat(report, [])
        return report

    def beat(self, report: NodeReport, *held: Claimed, progress: Progress | None = None) -> BeatAnswer:
        """Let a node give a sign of life for these jobs."""
        return self.nodes.beat(report, [Held(claim.job.id, claim.token, progress) for claim in held])

    def look(self, report: NodeReport, *, running: int = 0) -> Claimed | NothingToClaim:
        """Let a node ask once for a job of the lines that it is fit for, as the plug-in does."""
        lines = [
            line.name for line in self.queue.lines() if not unfit(line, node=report.name, versions=report.versions)
        ]
        return self.queue.claim(report, lines, running=running)

    def claim(self, report: NodeReport, *, running: int = 0) -> Claimed:
        """Let a node ask until it is given a job."""
        found: list[Claimed] = []

        def is_given() -> bool:
            answer = self.look(report, running=running)
            if isinstance(answer, Claimed):
                found.append(answer)
            return bool(found)

        wait_until(is_given, deadline_s=SOON_S, what=f"a job for {report.name}")
        return found[0]

    def run(self, report: NodeReport) -> Claimed:
        """Let a node claim a job and begin it."""
        claim = self.claim(report)
        assert self.queue.started(claim.job.id, claim.token, pid=4711)
        return claim

    def take_all(self, report: NodeReport) -> list[str]:
        """Let a node claim until there is nothing left for it; return the ids in the order of the claims."""
        taken = []
        while isinstance(answer := self.look(report), Claimed):
            taken.append(str(answer.job.id))
        return taken

    def finish(self, claim: Claimed, ending: Ending | None = None) -> JobState | None:
        """Record the ending of a claim; finished unless another is given."""
        return self.queue.finish(claim.job.id, claim.token, ending or an_ending())

    def job(self, job_id: str) -> Job:
        """Return a job's record."""
        job = self.store.jobs.get(JobId(job_id))
        assert job is not None, f"no record of {job_id}"
        return job

    def states(self, *job_ids: str) -> list[str]:
        """Return the states of these jobs."""
        return [self.job(job_id).state.value for job_id in job_ids]

    def lose(self, *job_ids: str) -> dict[str, JobState]:
        """Wait until the leases of these jobs ended and a survivor settled them; return their states then."""
        settled: dict[str, JobState] = {}

        def are_settled() -> bool:
            settled.update((str(job_id), state) for job_id, state in self.queue.requeue_expired().items())
            return settled.keys() >= set(job_ids)

        wait_until(are_settled, deadline_s=SOON_S, what=f"{', '.join(job_ids)} to be taken from a lost node")
        return settled

    def end_leases(self, *job_ids: str) -> None:
        """Let the leases of these jobs be over, as if their node had been silent while others were heard."""
        now_ms = int(time.time() * 1000)
        self.redis.hset(self.keys.clock, mapping={"asked_ms": now_ms, "grace_ms": 0})
        if job_ids:
            self.redis.zadd(self.keys.leases, dict.fromkeys(job_ids, 1), xx=True)

    def lease_ends_ms(self, job_id: str) -> float:
        """Return when a job's lease ends, by Redis' clock."""
        ends_ms = self.redis.zscore(self.keys.leases, job_id)
        assert isinstance(ends_ms, float), f"{job_id} has no lease"
        return ends_ms

    def dump(self) -> dict[bytes, bytes]:
        """Return all that Redis holds now."""
        found = {key: self.redis_bytes.dump(key) for key in self.redis_bytes.scan_iter()}
        return {key: body for key, body in found.items() if body is not None}

    def come_back(self, dump: Mapping[bytes, bytes]) -> None:
        """Let Redis be as it was, as a server is that was started anew or took over from another."""
        self.redis_bytes.flushall()
        for key, body in dump.items():
            self.redis_bytes.restore(key, 0, body)
        self.redis.hset(self.keys.clock, "life", "another")

    def left_behind(self) -> set[str]:
        """Return the keys that hold something which no queue without pending and active jobs may hold."""
        keys = self.keys
        for_good = {
            *(keys.jobs, keys.orders, keys.final_jobs, keys.job_ids, keys.tokens, keys.clock),
            *(keys.places, keys.caps, keys.lost, keys.events, keys.measures),
            *(
                keys.nodes,
                keys.beats,
                keys.sessions,
                keys.room,
                keys.draining,
                keys.clashes,
                keys.changes,
                keys.digests,
            ),
        }
        return {str(key) for key in self.redis.scan_iter(f"{keys.prefix}*")} - for_good


@contextmanager
def queue_desk(url: str, folder: Path, *, cluster: str = DEFAULT_CLUSTER) -> Iterator[QueueDesk]:
    """Open a cluster's queue in the Redis at the URL; all is closed at the end."""
    with ExitStack() as closing:
        store = open_store(Secret(url), folder, cluster=cluster)
        closing.callback(store.close)
        client = closing.enter_context(redis.Redis.from_url(url, decode_responses=True))
        client_for_bytes = closing.enter_context(redis.Redis.from_url(url))
        yield QueueDesk(store, client, client_for_bytes, cluster=cluster)
