"""Tells the frontier which processes of this node are gone, so that what they held goes back at once.

On the reactor's thread; the frontier is told in the membership's threads. Best effort: a worker of which nothing is
told loses its lease within half a minute all the same.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from toolkit.model.errors import CrawlctlError, StoreUnreachableError
from toolkit.model.names import WorkerName, job_of
from toolkit.node.membership import Membership

MAX_UNTOLD = 1_000
"""Of so many at most it is remembered that nobody could be told, while Redis is away."""

_log = Logger()


class Departures:
    """The processes that are gone. Each is told of once, whether it took part in a crawl or not: the frontier knows."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        # Those that are gone longest come first, and are forgotten first. With each, whether it died.
        self._untold: dict[WorkerName, bool] = {}
        self._under_way = 0

    @property
    def is_telling(self) -> bool:
        """The frontier is being told of some."""
        return self._under_way > 0

    def tell(self, worker: WorkerName, *, has_died: bool) -> None:
        """Say that the process is gone, with all of its group; what it held goes to others. Idempotent.

        `has_died`: it was not this node that ended it, so what it held may have to do with its end.
        """
        self._under_way += 1
        told: Deferred[bool] = self._member.ask(lambda shared: shared.crawls.release(worker, has_died=has_died))
        told.addCallbacks(self._heard, self._unheard, callbackArgs=(worker,), errbackArgs=(worker, has_died))
        told.addBoth(self._told)

    def retry(self) -> None:
        """Tell again what was not heard; after every heartbeat that Redis answered."""
        untold, self._untold = self._untold, {}
        for worker, has_died in untold.items():
            self.tell(worker, has_died=has_died)

    def _told(self, _: object) -> None:
        self._under_way -= 1

    def _heard(self, has_held: bool, worker: WorkerName) -> None:  # noqa: FBT001 - a Deferred's value
        if has_held:
            _log.info("Job {job} left its crawl without a word: what it held went back", job=job_of(worker))

    def _unheard(self, failure: object, worker: WorkerName, has_died: bool) -> None:  # noqa: FBT001 - likewise
        error = getattr(failure, "value", None)
        if isinstance(error, StoreUnreachableError):
            self._untold[worker] = has_died
            while len(self._untold) > MAX_UNTOLD:
                del self._untold[next(iter(self._untold))]
            return
        if isinstance(error, CrawlctlError):
            _log.error(
                "What job {job} held in its crawl is not given back: {why}", job=job_of(worker), why=error.message
            )
            return
        _log.failure("What job {job} held in its crawl is not given back", failure=failure, job=job_of(worker))  # type: ignore[arg-type]
