"""When a process that is to end gets which signal: asked, then told, then killed with all that it started. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

FORCED_GRACE_S = 5.0
"""How long a process has after the second signal before it and its group are killed."""

MIN_GRACE_S = 0.2
"""Two signals closer than this may arrive as one."""

TIMEOUT_GRACE_S = 30.0
"""How long a spider past its time limit may take to close in order."""

STALE_GRACE_S = 5.0
"""How long a spider whose job is no longer ours may take: it may run elsewhere by now."""


class Step(Enum):
    """What is done to the process; the first two are the same signal, which Scrapy takes more seriously at twice."""

    ASK = auto()
    INSIST = auto()
    KILL = auto()


@dataclass(frozen=True, slots=True)
class Stopping:
    """The way of one process to its end, begun at `since` (any clock) with so much grace."""

    since: float
    grace_s: float

    def steps(self) -> tuple[tuple[float, Step], ...]:
        """Return each step and its time by the same clock."""
        insist_at = self.since + max(self.grace_s, MIN_GRACE_S)
        return (self.since, Step.ASK), (insist_at, Step.INSIST), (insist_at + FORCED_GRACE_S, Step.KILL)

    def due(self, done: frozenset[Step]) -> tuple[float, Step] | None:
        """Return the next step that is not done, and its time; `None` after the last."""
        for at, step in self.steps():
            if step not in done:
                return at, step
        return None

    def sooner(self, other: Stopping) -> Stopping:
        """Return the way that ends first: whoever asks again with less grace is heard, with more is not."""
        return min(self, other, key=lambda each: each.steps()[-1][0])
