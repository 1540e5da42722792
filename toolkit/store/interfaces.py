"""What a shared store must promise; Redis (`redis_store.py`) and a local file (`local_store.py`) both keep it.

Every operation is atomic: it is done whole or not at all, also when its caller dies half way. Every operation may raise
`StoreUnreachableError`; where the answer to a write was lost, its message says that the write may have been done, and
asking again is safe (if it was done, `add` answers with a conflict and `lock` that it is held). What is read may raise
`StoreUnreadableError`. Times are the store's own clock, aware and in UTC. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from toolkit.model.audit import AuditEntry
from toolkit.model.jobs import Job, JobFilter
from toolkit.model.names import JobId, NodeName, ProjectName, VersionName
from toolkit.model.releases import Release, Rollout, RolloutLock
from toolkit.store.interfaces_alerts import AlertStore
from toolkit.store.interfaces_calls import NodeCalls, Redials
from toolkit.store.interfaces_crawls import Crawls
from toolkit.store.interfaces_logs import ShippedLogs
from toolkit.store.interfaces_queue import EggStore, JobQueue, NodeRegistry
from toolkit.store.interfaces_rollouts import Rollouts
from toolkit.store.interfaces_watch import Crons, Duties, Events, OwnMeasures, Samples

MAX_HISTORY = 200
"""How many rollouts of a project are kept, the newest ones."""

MAX_AUDIT = 100_000
"""How many entries of the audit are kept, the newest ones."""

MAX_JOBS = 20_000
"""How many jobs in a final state are kept, the newest ones by `scheduled_at`; unfinished ones are kept all.

Where plug-in nodes are registered, their options say so instead, and they forget what is beyond.
"""


class ReleaseStore(Protocol):
    """The releases of each project, which one is active, and who may change that now."""

    def lock(self, project: ProjectName, *, who: str, why: str, ttl_s: float, steal: bool = False) -> RolloutLock:
        """Take the right to change this project's releases, under a token larger than any before it.

        With `steal` the present holder loses it at once: its next write is refused.

        Raises:
            LockHeldError: somebody holds it and `steal` was not asked for.

        """

    def renew(self, lock: RolloutLock, *, ttl_s: float) -> None:
        """Keep the lock for another `ttl_s` seconds.

        Raises:
            ConflictError: the lock has expired or was stolen; its holder must stop changing things.

        """

    def unlock(self, lock: RolloutLock) -> None:
        """Give the lock back; does nothing when it is no longer ours."""

    def holder(self, project: ProjectName) -> RolloutLock | None:
        """Return who holds the project's lock now."""

    def record(self, release: Release, lock: RolloutLock) -> None:
        """Remember a release, without making it active; the same release twice is one.

        Raises:
            ConflictError: the version is known with other bytes, or the lock is no longer ours.

        """

    def sign(self, release: Release, lock: RolloutLock) -> None:
        """Lay the release's signature to the one that is recorded; nothing else of that changes. Idempotent.

        Raises:
            NotFoundError: no such release was recorded.
            ConflictError: the version is known with other bytes, or the lock is no longer ours.

        """

    def activate(self, rollout: Rollout, lock: RolloutLock, *, held_by: Sequence[NodeName]) -> None:
        """Make `rollout.version` the active one, note the nodes proven to hold it, and append to the history.

        This one write is the moment from which every schedule uses the version. The same rollout twice is one.

        Raises:
            NotFoundError: no such release was recorded.
            ConflictError: the lock is no longer ours; nothing was changed.

        """

    def note(self, rollout: Rollout) -> None:
        """Append a rollout that changed nothing (it failed, or was undone) to the history; twice in a row is once."""

    def forget(self, project: ProjectName, version: VersionName, lock: RolloutLock) -> None:
        """Remove a release that no node holds any more; one that is not known is as good as removed.

        Raises:
            ConflictError: it is the active one, or the lock is no longer ours.

        """

    def active(self, project: ProjectName) -> Release | None:
        """Return the project's active release."""

    def actives(self) -> Mapping[ProjectName, Release]:
        """Return the active release of every project that has one."""

    def get(self, project: ProjectName, version: VersionName) -> Release | None:
        """Return one release."""

    def with_digest(self, project: ProjectName, digest: str) -> Release | None:
        """Return the newest release made of these very bytes."""

    def releases(self, project: ProjectName) -> Sequence[Release]:
        """Return all releases of a project, newest first."""

    def holders(self, project: ProjectName, version: VersionName) -> frozenset[NodeName]:
        """Return the nodes proven to hold the release when it was last made active."""

    def history(self, project: ProjectName, *, limit: int = 50) -> Sequence[Rollout]:
        """Return the rollouts of a project, newest first."""

    def projects(self) -> Sequence[ProjectName]:
        """Return the projects that have any release, sorted."""


class JobStore(Protocol):
    """The records of the jobs that were scheduled through crawlctl."""

    def add(self, jobs: Sequence[Job]) -> None:
        """Remember new jobs, all or none.

        Raises:
            ConflictError: one of the ids is known already.

        """

    def update(self, jobs: Sequence[Job]) -> None:
        """Replace the records of jobs that are known; a job that is not known is left alone.

        A final state is never overwritten by one that is not final.
        """

    def get(self, job_id: JobId) -> Job | None:
        """Return one job."""

    def get_many(self, job_ids: Sequence[JobId]) -> Mapping[JobId, Job]:
        """Return those of the jobs that are known, in one round trip."""

    def matching(self, prefix: str, *, limit: int = 20) -> Sequence[Job]:
        """Return the jobs whose id begins with the prefix, in the order of their ids."""

    def recent(self, wanted: JobFilter, *, limit: int, offset: int = 0) -> Sequence[Job]:
        """Return the jobs that pass the filter, newest first by `scheduled_at`; those without one come last.

        The first `offset` of them are left out.
        """

    def unfinished(self) -> Sequence[Job]:
        """Return every job whose state is not final, oldest first."""


class Audit(Protocol):
    """The append-only record of changes; nothing here takes an entry away, but the oldest go beyond `MAX_AUDIT`."""

    def note(self, entry: AuditEntry) -> str:
        """Append an entry with the store's time and an id of its own, whatever it says of these; return the id."""

    def entries(
        self, *, limit: int = 100, since: datetime | None = None, before: str | None = None
    ) -> Sequence[AuditEntry]:
        """Return entries, newest first: not older than `since`, and older than the one with the id `before`."""


class Shared(Protocol):
    """The rooms that plug-in nodes and operators share through Redis."""

    @property
    def queue(self) -> JobQueue:
        """The pending and active jobs."""

    @property
    def nodes(self) -> NodeRegistry:
        """The plug-in nodes."""

    @property
    def eggs(self) -> EggStore:
        """The eggs that nodes fetch by themselves."""

    @property
    def crawls(self) -> Crawls:
        """The crawls that share a frontier in this Redis, whatever the cluster."""

    @property
    def calls(self) -> NodeCalls:
        """Questions to nodes, which they answer without being reached."""

    @property
    def redials(self) -> Redials:
        """The places of nodes that change their address now."""

    @property
    def logs(self) -> ShippedLogs:
        """The logs of jobs that nodes have shipped."""

    @property
    def events(self) -> Events:
        """The stream of what changed."""

    @property
    def duties(self) -> Duties:
        """Who takes the next turn at a duty."""

    @property
    def alerts(self) -> AlertStore:
        """Who is told of what, and how far."""

    @property
    def measures(self) -> OwnMeasures:
        """What the cluster counts and measures of itself."""

    @property
    def samples(self) -> Samples:
        """How far jobs were, and what the cluster did, at moments of the past."""

    @property
    def crons(self) -> Crons:
        """The recurring jobs."""


class Store(Protocol):
    """One cluster's shared memory. Closing it twice is harmless."""

    @property
    def releases(self) -> ReleaseStore:
        """The releases of each project."""

    @property
    def jobs(self) -> JobStore:
        """The jobs scheduled through crawlctl."""

    @property
    def rollouts(self) -> Rollouts:
        """The rollouts in waves."""

    @property
    def audit(self) -> Audit:
        """Who changed what."""

    @property
    def shared(self) -> Shared | None:
        """What only a Redis can hold: queue, nodes and eggs; `None` where the store is a file of this machine."""

    def now(self) -> datetime:
        """Return the store's own time."""

    def close(self) -> None:
        """Let go of connections and files."""
