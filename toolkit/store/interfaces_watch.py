"""What the rooms of watching promise: events, crons, samples, shipped logs and what alerts need; Redis keeps them.

As in `interfaces.py`: every operation is one atomic step, decided inside Redis by Redis' own clock, and may raise
`StoreUnreachableError`. Any thread may call; nothing here may be called from a reactor's thread, since it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from toolkit.model.crons import Cron, CronView, Firing
from toolkit.model.events import Change, Event
from toolkit.model.names import JobId
from toolkit.model.samples import ClusterSample, JobSample

MAX_EVENTS = 100_000
"""About how many events are kept, the newest ones."""


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


class Crons(Protocol):
    """The recurring jobs; nodes fire what is due."""

    def all(self) -> Sequence[CronView]:
        """Return every cron, sorted by name."""

    def get(self, name: str) -> CronView | None:
        """Return one cron."""

    def put(self, crons: Sequence[Cron], *, by: str) -> None:
        """Define crons, or define them anew, all or none; when they are due is computed by the caller's rules."""

    def remove(self, names: Collection[str]) -> frozenset[str]:
        """Take crons away, with their history; return those that were there."""

    def firings(self, name: str, *, limit: int = 50) -> Sequence[Firing]:
        """Return what became of a cron's due times, newest first."""


class Samples(Protocol):
    """How far jobs were at moments of the past, and what the cluster did."""

    def of_job(self, job_id: JobId) -> Sequence[JobSample]:
        """Return a job's samples, oldest first, at most some hundred: older ones lie farther apart."""

    def of_cluster(self, *, limit: int = 360) -> Sequence[ClusterSample]:
        """Return the newest samples of the cluster, oldest first."""


class ShippedLogs(Protocol):
    """Logs of jobs that nodes brought here before they are thrown away; capped."""

    def append(self, job_id: JobId, *, at: int, part: bytes) -> int:
        """Lay a part of a log at this offset; return how many bytes are there now, be it more or less than asked."""

    def read(self, job_id: JobId, *, begin: int = 0, most: int = 1_000_000) -> tuple[int, bytes, int] | None:
        """Return the offset of what follows, a part from `begin` on, and the length in all; `None`: nothing of it."""
