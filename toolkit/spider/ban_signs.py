"""Counts how many of the latest answers look like a ban. Pure: time is an argument, nothing is asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

MAX_COUNTED = 10_000
MAX_SEARCHED_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class BanRule:
    """What makes an answer a ban, and when there are too many: more than `share` (0 to 1) of those in `window_s`."""

    statuses: Collection[int]
    texts: Sequence[bytes] = ()
    share: float = 0.5
    window_s: float = 60.0
    min_responses: int = 20

    def is_ban(self, status: int, body: bytes) -> bool:
        """Tell whether an answer looks like a ban; of a large page the beginning is looked at."""
        if status in self.statuses:
            return True
        if not self.texts:
            return False
        begin = body[:MAX_SEARCHED_BYTES]
        return any(text in begin for text in self.texts)


class BanSigns:
    """The latest answers of one process: whether each was a ban."""

    def __init__(self, rule: BanRule) -> None:
        self._rule = rule
        self._seen: deque[tuple[float, bool]] = deque(maxlen=MAX_COUNTED)
        self._bans = 0

    def note(self, *, is_ban: bool, now: float) -> None:
        """Count one answer."""
        if len(self._seen) == MAX_COUNTED:
            self._bans -= self._seen[0][1]
        self._seen.append((now, is_ban))
        self._bans += is_ban
        self._forget(now)

    def too_many(self, now: float) -> str | None:
        """Say how many of the latest answers were bans, when they are too many."""
        self._forget(now)
        count = len(self._seen)
        if count < self._rule.min_responses or self._bans < count * self._rule.share:
            return None
        return f"{self._bans} of the last {count} answers were bans"

    def clear(self) -> None:
        """Begin anew, as under another address."""
        self._seen.clear()
        self._bans = 0

    def _forget(self, now: float) -> None:
        while self._seen and self._seen[0][0] < now - self._rule.window_s:
            self._bans -= self._seen.popleft()[1]
