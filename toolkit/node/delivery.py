"""Brings the outcome of every run to the queue, until the queue has taken it; what is not taken lies in its folder.

On the reactor's thread; the queue is asked in the membership's threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from toolkit.model.errors import CrawlctlError, NotFoundError, StoreUnreachableError
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, Token
from toolkit.model.queue import Ending, Held
from toolkit.node.claims import Claim
from toolkit.node.endings import write_ending
from toolkit.node.membership import Membership
from toolkit.runs.folder import ENDING, RunFolder
from toolkit.store.interfaces import Shared

REMEMBERED_LEASES = 4
"""For so many leases an outcome that was taken is kept, for a Redis that comes back older than it was."""

NEVER_BEGUN = "its process was never begun"
_log = Logger()


@dataclass(frozen=True, slots=True)
class Parcel:
    """The outcome of one claim. Without an `ending` the job was never begun and goes back to its place, uncounted.

    `ended_at` is in seconds since the epoch.
    """

    claim: Claim
    ended_at: float
    ending: Ending | None = None
    folder: RunFolder | None = None
    why_back: str = NEVER_BEGUN

    @property
    def is_cancelled(self) -> bool:
        """It ended because somebody had asked for that."""
        return self.ending is not None and self.ending.is_cancelled


class Delivery:
    """What has ended and is not known to the queue, and for a while what is."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._machine = member.machine
        self._open: dict[Token, Parcel] = {}
        self._under_way: set[Token] = set()
        self._taken: dict[Token, tuple[float, Parcel]] = {}

    def send(self, parcel: Parcel, *, after: Deferred[None] | None = None) -> None:
        """Take over an outcome: from here on it is told until it is heard, also by a later Scrapyd.

        It is not told before `after` has fired: the queue should hear of the start first.
        """
        if parcel.folder is not None and parcel.ending is not None:
            try:
                parcel.folder.write(ENDING, write_ending(parcel.ending, ended_at=parcel.ended_at))
            except OSError as error:
                _log.warn("The ending of {job} could not be written: {why}", job=parcel.claim.job_id, why=error)
        token = parcel.claim.token
        self._open[token] = parcel
        self._under_way.add(token)

        def go(_: object) -> None:
            self._under_way.discard(token)
            self._try(parcel)

        (after or succeed(None)).addCallback(go)

    def retry(self) -> None:
        """Tell again what was not heard; after every heartbeat that Redis answered."""
        for parcel in list(self._open.values()):
            self._try(parcel)

    def tell_again(self, tokens: Sequence[Token]) -> None:
        """Tell what the queue took once and does not know any more."""
        for token in tokens:
            if token in self._taken:
                _, parcel = self._taken.pop(token)
                _log.warn("Redis has forgotten how job {job} ended: telling it again", job=parcel.claim.job_id)
                self._open[token] = parcel
                self._try(parcel)

    def held(self) -> list[Held]:
        """Return the jobs whose lease must be kept until their outcome is heard."""
        return [
            Held(each.claim.job_id, token, cancel_grace_s=0.0 if each.is_cancelled else None)
            for token, each in self._open.items()
        ]

    def taken(self) -> list[tuple[JobId, Token]]:
        """Return what was heard lately; what was heard long ago is forgotten, and its folder removed."""
        oldest = self._machine.monotonic() - REMEMBERED_LEASES * self._member.settings.lease_s
        for token, (heard_at, parcel) in list(self._taken.items()):
            if heard_at <= oldest:
                del self._taken[token]
                _remove(parcel.folder)
        return [(each.claim.job_id, token) for token, (_, each) in self._taken.items()]

    def _try(self, parcel: Parcel) -> None:
        token = parcel.claim.token
        if token in self._under_way:
            return
        self._under_way.add(token)
        now = self._machine.time()
        told: Deferred[JobState | None] = self._member.ask(lambda shared: tell(shared, parcel, now=now))
        told.addCallbacks(self._heard, self._unheard, callbackArgs=(parcel,), errbackArgs=(parcel,))
        told.addErrback(lambda failure: _log.failure("An outcome could not be put away", failure=failure))

    def _heard(self, state: JobState | None, parcel: Parcel) -> None:
        token = parcel.claim.token
        self._under_way.discard(token)
        self._open.pop(token, None)
        if state is None or parcel.ending is None:
            _remove(parcel.folder)
        if state is None:
            # A job that went back is no longer ours when a later Scrapyd tells of it once more.
            if parcel.ending is None or parcel.ending.state is not JobState.LOST:
                _log.warn("The outcome of job {job} came too late: it was given to another", job=parcel.claim.job_id)
        elif parcel.ending is not None:
            # The folder stays as long: a later Scrapyd tells it again, which changes nothing where it is known.
            self._taken[token] = (self._machine.monotonic(), parcel)
            _log.info("Job {job}: {state}, {why}", job=parcel.claim.job_id, state=state.value, why=parcel.ending.reason)

    def _unheard(self, failure: object, parcel: Parcel) -> None:
        self._under_way.discard(parcel.claim.token)
        error = getattr(failure, "value", None)
        if isinstance(error, StoreUnreachableError):
            return
        if isinstance(error, CrawlctlError):
            _log.error("The outcome of {job} is not taken: {why}", job=parcel.claim.job_id, why=error.message)
            return
        _log.failure("The outcome of {job} is not taken", failure=failure, job=parcel.claim.job_id)  # type: ignore[arg-type]


def tell(shared: Shared, parcel: Parcel, *, now: float) -> JobState | None:
    """Tell the queue of one outcome; return the job's state now, `None` when it is no longer this claim's.

    A job that the queue does not know any more is brought back to it first.
    """
    try:
        return _tell(shared, parcel, now=now)
    except NotFoundError:
        claim = parcel.claim
        if claim.job is None:
            return None
        shared.queue.readmit(claim.job, claim.token, lease_s=claim.lease_s)
        return _tell(shared, parcel, now=now)


def _tell(shared: Shared, parcel: Parcel, *, now: float) -> JobState | None:
    claim, ending = parcel.claim, parcel.ending
    if ending is None:
        was_given_back = shared.queue.give_back(
            claim.job_id, claim.token, reason=parcel.why_back, lease_s=claim.lease_s
        )
        return JobState.PENDING if was_given_back else None
    told = replace(ending, ago_s=max(0.0, now - parcel.ended_at))
    return shared.queue.finish(claim.job_id, claim.token, told, lease_s=claim.lease_s)


def _remove(folder: RunFolder | None) -> None:
    if folder is not None:
        folder.remove()
