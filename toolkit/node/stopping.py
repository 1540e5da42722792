"""How spiders are ended: one process by which signals and when, and all of a node's when Scrapyd is stopped. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

FORCED_GRACE_S = 5.0
"""How long a process has after the second signal before it and its group are killed."""

MIN_GRACE_S = 0.2
"""Two signals closer than this may arrive as one."""

TIMEOUT_GRACE_S = 30.0
"""How long a spider past its time limit may take to close in order."""

STALE_GRACE_S = 5.0
"""How long a spider whose job is no longer ours may take: it may run elsewhere by now."""

STOP_GRACE_S = 8.0
"""How long the spiders have to close when Scrapyd is stopped, unless told otherwise: `docker stop` kills after 10 s."""

INITS = frozenset({"tini", "tini-static", "docker-init", "dumb-init", "catatonit", "podman-init"})
"""Programs that, as process 1 of a container, start one other, pass signals on to it, and exit when it exits."""


class OnStop(StrEnum):
    """What happens to the running spiders when Scrapyd is stopped."""

    LEAVE = "leave"
    CLOSE = "close"
    DRAIN = "drain"


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
    forced_s: float = FORCED_GRACE_S

    @classmethod
    def within(cls, since: float, limit_s: float) -> Stopping:
        """Return the way that kills after `limit_s`, and leaves its last quarter, at most 5 s, to the second signal."""
        forced_s = min(FORCED_GRACE_S, limit_s / 4)
        return cls(since, limit_s - forced_s, forced_s)

    def steps(self) -> tuple[tuple[float, Step], ...]:
        """Return each step and its time by the same clock."""
        insist_at = self.since + max(self.grace_s, MIN_GRACE_S)
        return (self.since, Step.ASK), (insist_at, Step.INSIST), (insist_at + self.forced_s, Step.KILL)

    def due(self, done: frozenset[Step]) -> tuple[float, Step] | None:
        """Return the next step that is not done, and its time; `None` after the last."""
        for at, step in self.steps():
            if step not in done:
                return at, step
        return None

    def sooner(self, other: Stopping) -> Stopping:
        """Return the way that ends first: whoever asks again with less grace is heard, with more is not."""
        return min(self, other, key=lambda each: each.steps()[-1][0])


def closing(on_stop: OnStop, limit_s: float | None) -> tuple[float, float] | None:
    """Return after how many seconds of a stop the spiders are asked to close, and how long that may take.

    `None`: they never are. `limit_s` is how long the stop may take in all: 8 s unless given, and with `drain`, whose
    last half a minute is left for closing, without limit.
    """
    if on_stop is OnStop.CLOSE:
        return 0.0, STOP_GRACE_S if limit_s is None else limit_s
    if on_stop is OnStop.LEAVE or limit_s is None:
        return None
    closing_s = min(limit_s, TIMEOUT_GRACE_S)
    return limit_s - closing_s, closing_s


def takes_all_with_it(pid: int, parent: int, process_1: str) -> bool:
    """Tell whether every process ends when this one does: it is process 1, or a container's init has started it.

    `process_1` is that one's name. A service manager as process 1 outlives what it has started.
    """
    return pid == 1 or (parent == 1 and process_1 in INITS)
