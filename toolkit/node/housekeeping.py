"""Takes this node's turns at the cluster's duties (`toolkit/duties`), at intervals that chance keeps apart."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.application.service import Service
from twisted.logger import Logger

from toolkit.duties import expire, requeue
from toolkit.model.errors import CrawlctlError
from toolkit.node.membership import Membership
from toolkit.node.reactor import later
from toolkit.store.interfaces import Shared

T = TypeVar("T")
_log = Logger()


class Housekeeping(Service):
    """Keeps every duty going as long as the service runs; a turn that fails is the next one's, or another node's.

    `live_nodes` is kept by the heartbeat, and zero as long as Redis is not known to answer: then no turn is taken.
    """

    def __init__(self, member: Membership, *, chance: Callable[[], float] = random.random) -> None:
        self._member = member
        self._chance = chance
        self._timers: dict[str, Any] = {}
        self.live_nodes = 0

    def startService(self) -> None:  # noqa: N802 - Twisted's name
        """Begin with a wait, so that nodes that are started together do not act together."""
        super().startService()  # type: ignore[no-untyped-call]
        self._plan("requeue", self._requeue_in_s(), self._requeue)
        self._plan("expire", self._expire_in_s(), self._expire)

    def stopService(self) -> None:  # noqa: N802 - Twisted's name
        """Take no further turn."""
        super().stopService()  # type: ignore[no-untyped-call]
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()

    def _requeue(self) -> None:
        def done(states: object) -> None:
            for job_id, state in dict(states or {}).items():  # type: ignore[call-overload]
                _log.warn("The node of job {job} was lost: it is {state} now", job=job_id, state=state.value)
            self._plan("requeue", self._requeue_in_s(), self._requeue)

        self._turn(requeue.requeue, done)

    def _expire(self) -> None:
        settings = self._member.settings

        def done(_: object) -> None:
            self._plan("expire", self._expire_in_s(), self._expire)

        self._turn(
            lambda shared: expire.expire(
                shared, history_days=settings.history_days, history_jobs=settings.history_jobs
            ),
            done,
        )

    def _turn(self, duty: Callable[[Shared], T], done: Callable[[object], None]) -> None:
        if self.live_nodes == 0:
            done(None)
            return
        self._member.ask(duty).addErrback(_note).addCallback(done).addErrback(
            lambda failure: _log.failure("A duty has ended for good", failure=failure)
        )

    def _requeue_in_s(self) -> float:
        lease_s = self._member.settings.lease_s
        return requeue.interval_s(live_nodes=max(1, self.live_nodes), lease_s=lease_s, chance=self._chance())

    def _expire_in_s(self) -> float:
        return expire.interval_s(live_nodes=self.live_nodes, chance=self._chance())

    def _plan(self, name: str, wait_s: float, turn: Callable[[], None]) -> None:
        if self.running:
            self._timers[name] = later(wait_s, turn)


def _note(failure: Any) -> None:
    """Leave an unreachable Redis to the heartbeat, which says so once."""
    if not failure.check(CrawlctlError):
        _log.failure("A duty failed", failure=failure)
