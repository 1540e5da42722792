"""What the rooms of watching promise: events, crons, samples and what alerts need; Redis keeps them.

As in `interfaces.py`: every operation is one atomic step, decided inside Redis by Redis' own clock, and may raise
`StoreUnreachableError`. Any thread may call; nothing here may be called from a reactor's thread, since it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from toolkit.model.crons import Cron, CronView, Due, Firing, Proposal, TakenCrons
from toolkit.model.events import Change, Event
from toolkit.model.measures import Measures
from toolkit.model.names import JobId, LineName
from toolkit.model.redis_health import RedisHealth
from toolkit.model.samples import ClusterSample, JobSample

MAX_EVENTS = 100_000
"""About how many events are kept, the newest ones."""

MAX_FIRINGS = 50
"""How many firings of a cron are kept, the newest ones."""

MAX_CLUSTER_SAMPLES = 8640
"""How many samples of the cluster are kept, the newest ones: those of a day."""


class Events(Protocol):
    """The stream of what changed. The queue's own scripts append to it in the step that changes a job."""

    def newest(self) -> str:
        """Return the id of the newest event; `0-0` when there is none."""

    def after(self, event_id: str, *, limit: int = 1000) -> Sequence[Event]:
        """Return the events after this id, oldest first."""

    def entries(self, *, limit: int = 100, since: datetime | None = None, before: str | None = None) -> Sequence[Event]:
        """Return events, newest first: not older than `since`, and older than the one with the id `before`."""

    def note(self, event: Event) -> str:
        """Append an event with the store's own time and id; return the id."""

    def turn(self, watched: str, state: str, event: Event | None = None) -> bool:
        """Remember that a watched thing is in this state; where it was in another, append the event.

        `True` when it was. However many observers tell of the same change, there is one event.
        """

    def turns(self, changes: Sequence[Change]) -> Sequence[bool]:
        """Do as `turn` does for many things, in few round trips; return for each whether it was in another state."""

    def states(self) -> Mapping[str, str]:
        """Return the state of every watched thing."""

    def unwatch(self, watched: Collection[str]) -> None:
        """Forget things that are there no more."""


class Duties(Protocol):
    """Who takes the cluster's next turn at a duty that one node in a while is enough for."""

    def take(self, duty: str, *, for_s: float) -> bool:
        """Take the turn, unless another has taken one that is not over yet; it is over after `for_s` seconds.

        A guard against needless work, not against two at once: what the turn does must bear being done twice.
        """

    def is_in_grace(self) -> bool:
        """Tell whether Redis, or the way to it, was away for all a moment ago, so that no node's silence counts yet."""


class Crons(Protocol):
    """The recurring jobs. Any node may `take` what is due and say by `commit` what becomes of it: once, whoever dies.

    When a cron is due is computed by the caller (`toolkit/crons`); which firing is whose, and whether it may happen
    while another is not over, is decided in Redis.
    """

    def all(self) -> Sequence[CronView]:
        """Return every cron, sorted by name."""

    def get(self, name: str) -> CronView | None:
        """Return one cron."""

    def count(self) -> int:
        """Return how many crons there are."""

    def soonest(self, *, limit: int) -> Sequence[CronView]:
        """Return the crons that fire next, the soonest first; however many there are, only so many are read."""

    def put(
        self,
        crons: Sequence[Cron],
        *,
        by: str,
        due: Mapping[str, Due] | None = None,
        expected: Mapping[str, str] | None = None,
    ) -> frozenset[str]:
        """Define crons, or define them anew, all or none; return the names of those that are other than before.

        One that is defined as it was stays as it is; one that is due at the same times as before keeps its next due
        time, so that no change loses a firing. `due` says when each other is due first; one that is not in it is not
        due by time. `expected` are the revisions that they must have now, empty for none.

        Raises:
            ConflictError: one of them was changed meanwhile.

        """

    def remove(self, names: Collection[str]) -> frozenset[str]:
        """Take crons away, with their history; return those that were there. Their jobs stay."""

    def firings(self, name: str, *, limit: int = 50) -> Sequence[Firing]:
        """Return what became of a cron's due times, newest first; the newest `MAX_FIRINGS` are kept."""

    def take(self, *, most: int = 50, lease_s: float = 2.0) -> TakenCrons:
        """Return firings that are due now, at most so many; nobody else is given them before the lease is over."""

    def commit(
        self, proposals: Sequence[Proposal], *, on_unkept: Callable[[], object] = lambda: None
    ) -> Sequence[Firing | None]:
        """Make firings happen: their jobs, the next due time, the history and the event are one step for each.

        `None` stands for one that waits for the end of the one before, or was somebody else's or changed meanwhile;
        then nothing was done. The same proposal twice is one firing. `on_unkept` is called if firings are recorded but
        no replica of Redis has them yet: a failover now forgets them with their jobs, and those by due time fire again.
        """


class Samples(Protocol):
    """How far jobs were at moments of the past, and what the cluster did; some node samples about every ten seconds."""

    def of_job(self, job_id: JobId) -> Sequence[JobSample]:
        """Return a job's samples, oldest first, at most some hundred: older ones lie farther apart.

        At the start of its last attempt lies one of nothing, and the last of an ended job holds its final counts.
        """

    def of_jobs(self, job_ids: Collection[JobId]) -> Mapping[JobId, Sequence[JobSample]]:
        """Return the samples of each of these jobs, as `of_job` does."""

    def of_cluster(self, *, limit: int = 360) -> Sequence[ClusterSample]:
        """Return the newest samples of the cluster, oldest first; `MAX_CLUSTER_SAMPLES` are kept."""

    # --- the duty of sampling, of any survivor

    def begin(self, *, every_s: float) -> int | None:
        """Take the next turn if it is due, which ends the one before; return its number, rising by one each time."""

    def sample_jobs(self, turn: int) -> int:
        """Lay down how far every active job is, some hundred in a step; return how many.

        What they did since their last sample is counted once for all (`measures`), their ends included. Ends early when
        another turn has begun.
        """

    def sample_cluster(self, turn: int, *, pending: int, active: int, nodes_live: int, slots: int) -> bool:
        """Append a sample of the cluster with the rates since the last; `False` when another turn has begun."""


class OwnMeasures(Protocol):
    """What the cluster counts and measures of itself."""

    def read(self) -> Measures:
        """Return all of it, in a few round trips however many jobs and entries there are. For operators: it asks INFO.

        A crawl's size is read without looking at an entry.
        """

    def redis(self) -> RedisHealth:
        """Return how the Redis is with its memory and its disk. Whom it tells nothing has a reading without any."""

    def oldest_waiting_s(self) -> float | None:
        """Return the longest that a job has waited which is the next in its line; `None`: none waits."""

    def waiting_s(self) -> Mapping[LineName, float]:
        """Return for each line how long the job that is next in it has waited since it could be taken."""
