"""What a worker sent in the last seconds, to be sent again if Redis comes back older than that. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from toolkit.spider.outbox import Collected


class Sent(NamedTuple):
    """One commit that was carried out: when it was answered, and what it brought."""

    number: int
    at: float
    collected: Sequence[Collected]


class Journal:
    """The commits of the last `span_s` seconds, in their order. Times are of any clock that never goes back."""

    def __init__(self, *, span_s: float) -> None:
        self._span_s = span_s
        self._sent: deque[Sent] = deque()
        self._forgotten = 0

    def add(self, sent: Sent) -> None:
        """Remember a commit, and forget those that are too old by now."""
        self._sent.append(sent)
        while self._sent and self._sent[0].at < sent.at - self._span_s:
            self._forgotten = self._sent.popleft().number

    def after(self, known: int) -> Sequence[Sent]:
        """Return what is remembered of the commits after number `known`."""
        return [sent for sent in self._sent if sent.number > known]

    def reaches(self, known: int) -> bool:
        """Tell whether every commit after number `known` is remembered."""
        return self._forgotten <= max(known, 0)

    def clear(self) -> None:
        """Forget everything: numbers begin anew."""
        self._sent.clear()
        self._forgotten = 0
