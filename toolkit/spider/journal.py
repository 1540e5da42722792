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
    """The commits of the last `span_s` seconds, in their order. Times are of any clock that never goes back.

    Commits are numbered from 1 on. Those of before the numbers began anew count as 0: they are missing only in a Redis
    that does not know the worker as it is now, which stands for -1.
    """

    def __init__(self, *, span_s: float) -> None:
        self._span_s = span_s
        self._sent: deque[Sent] = deque()
        self._forgotten = -1

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
        return self._forgotten <= known

    def drop_after(self, known: int) -> None:
        """Forget the commits after number `known`, since what they brought is sent again under other numbers."""
        while self._sent and self._sent[-1].number > known:
            self._sent.pop()

    def begin_anew(self) -> None:
        """Let the next commit be number 1 again."""
        self._sent = deque(sent._replace(number=0) for sent in self._sent)
        self._forgotten = min(self._forgotten, 0)
