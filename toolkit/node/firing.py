"""This node's turns at firing crons: it remembers when the next firing is due, and looks then."""

from __future__ import annotations

from twisted.logger import Logger

from toolkit.duties import fire
from toolkit.model.crons import FiringState
from toolkit.node.machine import Machine
from toolkit.store.interfaces import Store

_log = Logger()


class Firing:
    """What a node knows of the crons between two turns. A turn is taken in one thread at a time."""

    def __init__(self, node: str, machine: Machine) -> None:
        self._node = node
        self._monotonic = machine.monotonic
        self._next_at: float | None = None
        self._is_known = False

    def take(self, store: Store) -> None:
        """Fire what is due, and remember when to look again."""
        self._is_known = False
        fired = fire.fire(store, by=self._node)
        self._next_at = None if fired.next_in_s is None else self._monotonic() + fired.next_in_s
        self._is_known = True
        for firing in fired.firings:
            say = _log.warn if firing.state is FiringState.FAILED else _log.info
            jobs = ", ".join(firing.jobs) or "no job"
            say(
                "Cron {cron} {state}: {jobs}{why}",
                cron=firing.cron,
                state=firing.state.value,
                jobs=jobs,
                why=f": {firing.reason}" if firing.reason else "",
            )

    def wait_s(self, *, live_nodes: int, chance: float) -> float:
        """Return how long to wait before the next turn: soon, where the last one failed or there was none."""
        if not self._is_known:
            return fire.AGAIN_S * (0.5 + chance / 2)
        in_s = None if self._next_at is None else self._next_at - self._monotonic()
        return fire.interval_s(in_s, live_nodes=live_nodes, chance=chance)
