"""What the shared queue, the registry of nodes and the eggs promise; `redis_queue.py` and its neighbours keep it.

As in `interfaces.py`: every operation is one atomic step, decided inside Redis by Redis' own clock, and may raise
`StoreUnreachableError`. Any thread may call; nothing here may be called from Scrapyd's reactor thread, since it waits.
An owner's write names the token of its claim, and is refused when the job is no longer that claim's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, LineName, NodeName, ProjectName, SpiderName, Token, VersionName
from toolkit.model.nodes import DEFAULT_LEASE_S, NodeRecord, NodeReport, Whereabouts
from toolkit.model.queue import BeatAnswer, Cap, Claimed, Ending, Held, Line, NothingToClaim
from toolkit.model.releases import Release

CLAIM_PATIENCE_S = 0.25
"""How long a fresh job waits for a freer node before a busier one may take it."""

MAX_EGG_BYTES = 64_000_000
"""The largest egg that goes through Redis unless a caller says otherwise."""


class JobQueue(Protocol):
    """The pending jobs of the whole cluster, and who has which job now."""

    # --- the operator's side

    def add(
        self, jobs: Sequence[Job], *, is_unique: bool = False, on_unkept: Callable[[], object] = lambda: None
    ) -> None:
        """Put pending jobs into the queue, all or none, and wake the nodes. At most 1,000 a call.

        With `is_unique` nothing is added when a job with the same project, spider and arguments is not final yet.
        `on_unkept` is called if the jobs were added but no replica of Redis has them yet; see `RedisDoor.run_kept`.

        Raises:
            ConflictError: an id is known, or such a job is there; the message names it.

        """

    def cancel(
        self, job_ids: Sequence[JobId], *, grace_s: float, on_unkept: Callable[[], object] = lambda: None
    ) -> Mapping[JobId, JobState]:
        """Cancel pending jobs at once; ask the nodes of active ones to end them. Return each known job's state before.

        A job that was pending is cancelled when this returns. Ended jobs, and those of stock nodes, are left alone.
        `on_unkept` is called if all this is recorded but no replica of Redis has it yet.
        """

    def hold(self, job_ids: Sequence[JobId]) -> frozenset[JobId]:
        """Keep pending jobs from being taken; return those that are held now."""

    def release(self, job_ids: Sequence[JobId]) -> frozenset[JobId]:
        """Let held or delayed jobs be taken now, at their old place in the order; return those that are free."""

    def reprioritise(self, job_ids: Sequence[JobId], priority: float) -> frozenset[JobId]:
        """Give pending jobs another priority; return those that have it now."""

    def move(self, job_ids: Sequence[JobId], on: Sequence[NodeName] | None) -> frozenset[JobId]:
        """Let only these nodes take pending jobs (`None`: all may); return those that were moved."""

    def pause(self, job_id: JobId, *, is_paused: bool) -> JobState | None:
        """Wish an active job paused or going on; return its state before, `None` when it is not known."""

    def tune(self, job_id: JobId, *, concurrency: int | None, delay_s: float | None) -> JobState | None:
        """Wish an active job another concurrency or delay (`None`: as it is); return its state before."""

    def retry(self, job_ids: Sequence[JobId]) -> frozenset[JobId]:
        """Put jobs that failed, were lost or cancelled back into the queue with all their attempts; return those."""

    def set_cap(self, cap: Cap) -> None:
        """Set the cap of a project or spider; one without numbers is taken away."""

    def caps(self) -> Sequence[Cap]:
        """Return all caps, sorted."""

    def busy(self, project: ProjectName, spider: SpiderName | None = None, node: NodeName | None = None) -> int:
        """Return how many jobs of the project, or spider, are active, in the cluster or on one node."""

    def lines(self) -> Sequence[Line]:
        """Return the lines that hold any job which may be taken now."""

    def position(self, job_id: JobId) -> int | None:
        """Return how many jobs of all lines go before a pending one; `None` when it is in no line."""

    def counts(self) -> Mapping[str, int]:
        """Return how many jobs of the queue are `pending`, `held`, `delayed` (both part of pending), `active`, `ended`.

        `lost_day` of those that have ended became lost within the last day.
        """

    def active(self) -> Sequence[JobId]:
        """Return the ids of the jobs that a node has now."""

    def open(self, *, since: datetime | None = None, limit: int) -> Sequence[JobId]:
        """Return the ids of jobs that have not ended and were scheduled since then, newest first."""

    # --- the node's side

    def claim(
        self,
        report: NodeReport,
        lines: Sequence[LineName],
        *,
        running: int,
        has_process: Collection[JobId] = (),
        returned_ms: int = 0,
    ) -> Claimed | NothingToClaim:
        """Give the best job of these lines to the node under a fresh lease and token, or say when to look again.

        The order is by priority, then by age. Caps are kept. No job is given of which the node `has_process` still.
        For a lease after Redis came back, no job is given that may be begun only once more: its claim may be forgotten
        here, and its node has yet to say so. `returned_ms` is what the node's last heartbeat was answered: a server
        that does not know of that return must be told by a heartbeat first. A job that is younger than
        `CLAIM_PATIENCE_S` is left to a live node with more room, if there is one. Due delayed jobs take their place
        first. A job whose record cannot be read fails and says so, for it would come first for ever. A claim that no
        replica of Redis acknowledges in time is given back, uncounted; see `RedisDoor.run_kept`.
        """

    def started(self, job_id: JobId, token: Token, *, pid: int, lease_s: float = DEFAULT_LEASE_S) -> bool:
        """Note that the process runs; `False`: the job is no longer this claim's, so the process must be stopped.

        This, `finish` and `give_back` take a claim up again that a Redis which came back older has forgotten, under a
        lease of `lease_s`.
        """

    def readmit(self, job: Job, token: Token, *, lease_s: float = DEFAULT_LEASE_S) -> None:
        """Bring a job that the queue does not know (any more), under the claim of the node that has it. Idempotent."""

    def finish(
        self, job_id: JobId, token: Token, ending: Ending, *, lease_s: float = DEFAULT_LEASE_S
    ) -> JobState | None:
        """Record the one outcome of a claim; return the job's state now, `None` when it is no longer this claim's.

        A job that somebody wished cancelled becomes cancelled, unless its spider had come to its own end before
        (Scrapy's `finished`). One whose ending is `lost`, or failed and to be repeated when it fails, is pending again
        while attempts are left. The same ending twice is one.

        Raises:
            NotFoundError: no such job is known (any more).
            StoreUnreachableError: also when it was recorded but no replica of Redis has it yet: tell it again.

        """

    def give_back(self, job_id: JobId, token: Token, *, reason: str, lease_s: float = DEFAULT_LEASE_S) -> bool:
        """Put a claimed job that was never begun back to its place; the attempt is not counted.

        Raises:
            NotFoundError: no such job is known (any more).

        """

    def reconcile(self, report: NodeReport, tokens: Sequence[Token]) -> Mapping[JobId, JobState]:
        """Settle what is leased to this node under any token that it does not know of; return the states now.

        Of this session: the claim's answer was lost, so the job goes back uncounted. Of an earlier one: its process is
        gone without an ending, so it is requeued or lost at once, without waiting for the lease.

        A call of this or `claim` that was given up, and arrives after a later one of this, changes nothing.
        """

    # --- duties, of any survivor

    def requeue_expired(self, *, on_lost: Callable[[JobId, Token], object] | None = None) -> Mapping[JobId, JobState]:
        """Return the jobs of lost nodes to the queue, or call them lost; return the states now. At most 100 a call.

        `on_lost` hears of each claim that is over with this.

        When nobody has asked for most of a lease, Redis or the network was away: all leases then get a full term first.
        """

    def drop_old(self, *, max_age_s: float, max_jobs: int) -> int:
        """Forget the oldest final jobs beyond age or number; return how many. At most 1,000 a call."""

    def wakes(self, *, timeout_s: float) -> Iterator[str]:
        """Yield what wakes nodes, as it happens: `queue`, `releases`, or the name of one node.

        An empty text comes first, when it listens, and after each `timeout_s` of silence.

        It ends by `StoreUnreachableError`, or when the consumer closes it.
        """


class NodeRegistry(Protocol):
    """The plug-in nodes of the cluster."""

    def beat(
        self,
        report: NodeReport,
        held: Sequence[Held],
        *,
        ended: Sequence[tuple[JobId, Token]] = (),
        was_registered: bool = False,
        returned_ms: int | None = None,
    ) -> BeatAnswer:
        """Give a sign of life, renew the leases of what is held, and hear what has changed.

        `was_registered` says that an earlier beat of this session was answered, `returned_ms` is what the last answer
        said: a server that does not know of that return has forgotten it. A new session takes the place of an earlier
        one of its home, as after a restart.

        Raises:
            ConflictError: a node of this name with another home is live, or this session's place was taken by another
                that is (a copied folder); nothing was changed, and nothing may be claimed under this name.

        """

    def whereabouts(self, *, anew: bool = False) -> Whereabouts:
        """Return this process' own end of its connection; Redis is asked only when a connection is new, or `anew`."""

    def look_anew(self) -> None:
        """Make new connections from here on, as after a change of address; calls under way end with an error."""

    def leave(self, report: NodeReport) -> None:
        """Say goodbye at an orderly stop: no job is left to a node that is gone. Leases stay as they are."""

    def all(self) -> Sequence[NodeRecord]:
        """Return every node that ever registered and was not forgotten, sorted by name."""

    def drain(self, names: Sequence[NodeName], *, who: str) -> frozenset[NodeName]:
        """Let these nodes take no new job; return those that are registered."""

    def resume(self, names: Sequence[NodeName]) -> frozenset[NodeName]:
        """Undo a drain; return those that are registered."""

    def forget(self, names: Sequence[NodeName]) -> frozenset[NodeName]:
        """Drop the records of nodes that are lost; return those dropped. A live one stays."""


class EggStore(Protocol):
    """The eggs, by their digest, for nodes that fetch them by themselves."""

    def offer(
        self,
        release: Release,
        content: bytes,
        *,
        nodes: Sequence[NodeName] | None = None,
        max_bytes: int = MAX_EGG_BYTES,
    ) -> None:
        """Keep an egg and let these nodes (`None`: all) install it before it is active. The same one twice is one.

        Offered again, it is for the nodes named last.

        Raises:
            RefusedError: it is larger than `max_bytes`; nothing was kept.
            ConflictError: the content has another digest than the release says.

        """

    def withdraw(self, project: ProjectName, version: VersionName) -> None:
        """Take an offer back; the egg goes too unless a recorded release has it. Idempotent."""

    def offered(self, *, node: NodeName | None = None) -> Sequence[Release]:
        """Return the releases that are offered, to this node if one is named, and not active yet."""

    def fetch(self, digest: str, *, max_bytes: int = MAX_EGG_BYTES) -> bytes | None:
        """Return an egg whose digest was checked, or `None` when it is not kept (any more).

        Raises:
            RefusedError: it is larger than `max_bytes`; it was not read.
            StoreUnreadableError: the bytes there have another digest.

        """

    def drop_unused(self) -> int:
        """Drop the eggs that no release, no offer and no open rollout names; return how many."""
