"""Decides when a worker sends its next commit, and how much it asks for. Pure: told the time, the counts, the answers.

At once when the engine is about to have nothing, or enough has gathered; else when the oldest thing collected has
waited long. An idle worker asks again after 10 ms, and then ever more seldom, down to four times a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from toolkit.model.crawls import Answer

MAX_POLL_S = 0.25
_MIN_POLL_S = 0.01
_GAP_S = 0.004
"""So long a worker that works waits for more to send with what might bring it new entries."""

_MIN_AGAIN_S = 0.002

_ENOUGH_ENDINGS = 20
_ENOUGH_PUSHES = 200
_ENOUGH_ITEMS = 200

_HUNGRY_S = 0.02
_MAX_WAIT_S = 1.0
_HEARTBEAT_S = 1.0

_AHEAD_S = 0.15
_MAX_AHEAD = 24
_SMOOTHING_S = 0.5


@dataclass(slots=True)
class Gathered:
    """What a worker has at this moment; one object, brought up to date, since it is looked at for every page."""

    ready: int = 0
    working: int = 0
    free: int = 0
    """How many more requests the engine would take."""
    pushes: int = 0
    endings: int = 0
    items: int = 0
    since: float = 0.0
    """When the oldest of what waits to be sent came."""

    @property
    def is_anything(self) -> bool:
        """Something waits to be sent."""
        return bool(self.pushes or self.endings or self.items)


class Pace:
    """Times are of one clock that never goes back; `ttl_s` is the lease's length."""

    def __init__(self, *, ttl_s: float, now: float) -> None:
        self.rate = 0.0
        """Entries handed to the engine in a second, lately."""
        self.rtt_s = 0.001
        self._ttl_s = ttl_s
        self._poll_s = _MIN_POLL_S
        self._answered_at = now
        self._counted_at = now
        self._is_hungry = False
        self._again_s: float | None = None
        self._has_more = True
        self.low = 0
        """With no more than so many entries ready, new ones are asked for."""

    def is_enough(self, gathered: Gathered) -> bool:
        """Tell whether so much has gathered that it is sent at once."""
        return (
            gathered.endings >= _ENOUGH_ENDINGS or gathered.pushes >= _ENOUGH_PUSHES or gathered.items >= _ENOUGH_ITEMS
        )

    def answered(self, answer: Answer, *, now: float, took_s: float, handed: int, pushed: int) -> None:
        """Learn from an answer; `handed` entries went to the engine since the last, and the commit pushed `pushed`."""
        elapsed_s = max(now - self._counted_at, 1e-6)
        self._counted_at = self._answered_at = now
        self.rate += (1 - math.exp(-elapsed_s / _SMOOTHING_S)) * (handed / elapsed_s - self.rate)
        self.rtt_s += 0.2 * (min(took_s, 1.0) - self.rtt_s)
        self.low = math.ceil(self.rate * self.rtt_s)
        self._is_hungry = answer.is_hungry
        self._again_s = None if answer.again_s is None else max(answer.again_s, _MIN_AGAIN_S)
        got = len(answer.leased)
        self._has_more = got > 0 and answer.pending > 0
        self._poll_s = _MIN_POLL_S if got or pushed else min(self._poll_s * 1.5, MAX_POLL_S)

    def want(self, gathered: Gathered) -> int:
        """Return how many entries to ask for: what the engine takes now, during a round trip, and a batch."""
        ahead = min(max(math.ceil(self.rate * _AHEAD_S), 2), _MAX_AHEAD)
        return max(0, gathered.free + self.low + ahead - gathered.ready)

    def due_at(self, gathered: Gathered, *, now: float, is_taking: bool) -> float:
        """Return when to send the next commit; without `is_taking` no entries are asked for."""
        if self.is_enough(gathered):
            return now
        due = self._answered_at + min(self._ttl_s / 3, _HEARTBEAT_S)
        if gathered.is_anything:
            due = min(due, gathered.since + self._wait_s())
        if not is_taking:
            return min(due, self._answered_at + MAX_POLL_S)
        return due if gathered.ready > self.low else min(due, self._asking_at(gathered, now))

    def _asking_at(self, gathered: Gathered, now: float) -> float:
        """Return when to ask for entries, of which hardly any is left."""
        if self._has_more:
            return self._answered_at + (_GAP_S if gathered.working else 0.0)
        if gathered.is_anything and not gathered.working:
            return now
        if gathered.pushes:
            return gathered.since + _GAP_S
        return self._answered_at + (self._poll_s if self._again_s is None else min(self._poll_s, self._again_s))

    def _wait_s(self) -> float:
        if self._is_hungry:
            return _HUNGRY_S
        return min(max(_ENOUGH_ENDINGS / max(self.rate, 1.0), _HUNGRY_S), _MAX_WAIT_S)
