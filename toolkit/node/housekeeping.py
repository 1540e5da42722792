"""Takes this node's turns at the cluster's duties (`turns.py`), at intervals that chance keeps apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from twisted.application.service import Service
from twisted.logger import Logger

from toolkit.duties import fire
from toolkit.model.errors import CrawlctlError, StoreUnreachableError, StoreUnreadableError
from toolkit.node.membership import Membership
from toolkit.node.turns import Pace, Turn, turns

_log = Logger()


class Housekeeping(Service):
    """Keeps every duty going as long as the service runs; a turn that fails is the next one's, or another node's.

    `live_nodes` is kept by the heartbeat, and zero as long as Redis is not known to answer: then no turn is taken.
    """

    def __init__(self, member: Membership, *, duties: Sequence[Turn] | None = None) -> None:
        self._member = member
        self._machine = member.machine
        self._duties = {each.name: each for each in (turns(member) if duties is None else duties)}
        self._timers: dict[str, Any] = {}
        self._taking: set[str] = set()
        self._wanted: set[str] = set()
        self._said: dict[str, str] = {}
        self.live_nodes = 0

    def startService(self) -> None:  # noqa: N802 - Twisted's name
        """Begin with a wait, so that nodes that are started together do not act together."""
        super().startService()  # type: ignore[no-untyped-call]
        for duty in self._duties.values():
            self._plan(duty, self._usual_s(duty))

    def stopService(self) -> None:  # noqa: N802 - Twisted's name
        """Take no further turn."""
        super().stopService()  # type: ignore[no-untyped-call]
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()

    def soon(self, name: str, *, in_s: float = 0.0) -> None:
        """Take a turn at this duty in so many seconds at the latest; while one is under way, another follows it."""
        if name in self._taking:
            self._wanted.add(name)
            return
        timer = self._timers.get(name)
        if timer is not None and timer.active() and timer.getTime() - timer.seconds() > in_s:
            timer.cancel()
            self._plan(self._duties[name], in_s)

    def look_for_crons(self) -> None:
        """Fire what is due soon, but not in the moment in which every node is told of it."""
        self.soon("fire", in_s=fire.spread_s(live_nodes=self.live_nodes, chance=self._machine.chance()))

    def _take(self, duty: Turn) -> None:
        if self.live_nodes == 0:
            self._plan(duty, self._usual_s(duty))
            return
        self._taking.add(duty.name)
        taken = self._member.tend(duty.take)
        taken.addCallbacks(partial(self._went_well, duty.name), partial(self._note, duty.name))
        taken.addCallback(partial(self._taken, duty))
        taken.addErrback(lambda failure: _log.failure("A duty has ended for good", failure=failure))

    def _taken(self, duty: Turn, wants_s: float | None) -> None:
        self._taking.discard(duty.name)
        if duty.name in self._wanted:
            self._wanted.discard(duty.name)
            wants_s = 0.0
        self._plan(duty, self._usual_s(duty) if wants_s is None else max(0.0, wants_s))

    def _usual_s(self, duty: Turn) -> float:
        pace = Pace(max(1, self.live_nodes), self._member.settings.lease_s, self._machine.chance())
        return duty.usual_s(pace)

    def _plan(self, duty: Turn, wait_s: float) -> None:
        if self.running:
            self._timers[duty.name] = self._machine.later(wait_s, self._take, duty)

    def _went_well(self, name: str, wants_s: float | None) -> float | None:
        self._said.pop(name, None)
        return wants_s

    def _note(self, name: str, failure: Any) -> None:
        """Say why a turn failed, once for each reason; an unreachable Redis is left to the heartbeat."""
        if failure.check(StoreUnreachableError) and not failure.check(StoreUnreadableError):
            return
        if not failure.check(CrawlctlError):
            _log.failure("A turn at the duty {name} failed", name=name, failure=failure)
        elif self._said.get(name) != failure.value.message:
            self._said[name] = failure.value.message
            _log.warn("No turn at the duty {name} can be taken: {why}", name=name, why=failure.value.message)
