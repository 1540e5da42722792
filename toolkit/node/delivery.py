"""Brings the outcome of every run to the queue, until the queue has taken it; what is not taken lies in its folder.

On the reactor's thread; the queue is asked in the membership's threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from toolkit.model.errors import CrawlctlError, StoreUnreachableError
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


class Delivery:
    """What has ended and is not known to the queue, and for a while what is."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._clock = member.machine.time
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
        self._open[parcel.claim.token] = parcel
        (after or succeed(None)).addCallback(lambda _: self._try(parcel))

    def retry(self) -> None:
        """Tell again what was not heard; after every heartbeat that Redis answered."""
        for parcel in list(self._open.values()):
            self._try(parcel)

    def tell_again(self, job_ids: Sequence[JobId]) -> None:
        """Tell what the queue took once and does not know any more."""
        for parcel in [each for _, each in self._taken.values() if each.claim.job_id in job_ids]:
            _log.warn("The queue has forgotten how {job} ended: telling it again", job=parcel.claim.job_id)
            self._open[parcel.claim.token] = parcel
            self._try(parcel)

    def held(self) -> list[Held]:
        """Return the jobs whose lease must be kept until their outcome is heard."""
        return [Held(each.claim.job_id, each.claim.token) for each in self._open.values()]

    def taken(self) -> list[tuple[JobId, Token]]:
        """Return what was heard lately."""
        oldest = self._clock() - REMEMBERED_LEASES * self._member.settings.lease_s
        self._taken = {token: known for token, known in self._taken.items() if known[0] > oldest}
        return [(each.claim.job_id, each.claim.token) for _, each in self._taken.values()]

    def _try(self, parcel: Parcel) -> None:
        token = parcel.claim.token
        if token in self._under_way:
            return
        self._under_way.add(token)
        told: Deferred[JobState | None] = self._member.ask(lambda shared: tell(shared, parcel, now=self._clock()))
        told.addCallbacks(self._heard, self._unheard, callbackArgs=(parcel,), errbackArgs=(parcel,))
        told.addErrback(lambda failure: _log.failure("An outcome could not be put away", failure=failure))

    def _heard(self, state: JobState | None, parcel: Parcel) -> None:
        token = parcel.claim.token
        self._under_way.discard(token)
        self._open.pop(token, None)
        if parcel.folder is not None:
            parcel.folder.remove()
        if state is None:
            _log.warn("The outcome of job {job} came too late: it was given to another", job=parcel.claim.job_id)
        elif parcel.ending is not None:
            self._taken[token] = (self._clock(), replace(parcel, folder=None))
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
    """Tell the queue of one outcome; return the job's state now, `None` when it is no longer this claim's."""
    claim, ending = parcel.claim, parcel.ending
    if ending is None:
        was_given_back = shared.queue.give_back(claim.job_id, claim.token, reason=parcel.why_back)
        return JobState.PENDING if was_given_back else None
    told = replace(ending, ago_s=max(0.0, now - parcel.ended_at))
    return shared.queue.finish(claim.job_id, claim.token, told)
