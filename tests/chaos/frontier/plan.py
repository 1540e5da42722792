"""What a run is like, decided by its seed alone: the crawl's kind, and the faults in their order.

When each fault comes is part of the plan too; whose process it hits depends on who is whole at that moment.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chaos.frontier.graph import Shape

from toolkit.model.crawls import QueueOrder, SeedsKind, SeenKind


class Mode(StrEnum):
    """Whose scheduler the workers run."""

    CRAWLCTL = "crawlctl"
    STOCK = "scrapy-redis"


class Begin(StrEnum):
    """Where a crawl's first pages come from."""

    ROOT = "root"
    """One start URL."""
    STARTS = "starts"
    """Many start URLs, of a `start()` that takes its time."""
    SEEDS = "seeds"
    """Seeds, pushed while the crawl goes on."""
    BOTH = "both"
    """Half of them start URLs, half seeds."""


class FaultKind(StrEnum):
    """What can go wrong."""

    WORKER_DIES = "worker dies"
    WORKER_ENDED = "worker ended by SIGTERM"
    WORKER_ENDED_TWICE = "worker ended by SIGTERM twice"
    WORKER_FREEZES = "worker freezes"
    SHORT_FREEZE = "worker freezes shortly"
    REDIS_DIES = "Redis dies"
    REDIS_STOPS = "Redis stops"
    REDIS_FREEZES = "Redis freezes"
    REDIS_FULL = "Redis full"
    LINK_CUT = "link cut"
    NEAR_CUT = "link cut for about a lease"
    LINKS_CUT = "all links cut"
    ANSWERS_LOST = "answers lost"
    REDIS_OLDER = "Redis comes back older"
    REDIS_AWAY_OLDER = "Redis away and older"


WEIGHTS: Mapping[FaultKind, int] = {
    FaultKind.WORKER_DIES: 6,
    FaultKind.WORKER_ENDED: 2,
    FaultKind.WORKER_ENDED_TWICE: 2,
    FaultKind.WORKER_FREEZES: 2,
    FaultKind.SHORT_FREEZE: 1,
    FaultKind.REDIS_DIES: 2,
    FaultKind.REDIS_STOPS: 1,
    FaultKind.REDIS_FREEZES: 1,
    FaultKind.REDIS_FULL: 1,
    FaultKind.LINK_CUT: 3,
    FaultKind.NEAR_CUT: 2,
    FaultKind.LINKS_CUT: 1,
    FaultKind.ANSWERS_LOST: 2,
}
"""How often each kind comes until all have come that often."""
ROLLBACKS: Mapping[FaultKind, int] = {FaultKind.REDIS_OLDER: 3, FaultKind.REDIS_AWAY_OLDER: 2}
"""Likewise, where Redis may come back older."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of crawl that a run makes."""

    order: QueueOrder
    seen: SeenKind
    shape: Shape
    begin: Begin
    seeds: SeedsKind

    @property
    def is_seeded(self) -> bool:
        """Return whether it is given seeds."""
        return self.begin in {Begin.SEEDS, Begin.BOTH}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: so long after the one before it. `which` (0 to 1) picks what it hits, `length` how long it lasts."""

    kind: FaultKind
    wait_s: float
    which: float
    length: float
    is_silent: bool


def kind_of(seed: int) -> Kind:
    """Return the kind of crawl that the seed stands for; six seeds in a row have each order and seen set twice."""
    chance = random.Random(f"kind {seed}")  # noqa: S311 - must be the same again, protects nothing
    orders, kinds_seen, shapes = tuple(QueueOrder), tuple(SeenKind), tuple(Shape)
    return Kind(
        order=orders[seed % 3],
        seen=kinds_seen[(seed // 3 + seed) % 3],
        shape=shapes[seed // 2 % 2],
        begin=tuple(Begin)[(seed + seed // 8) % 4],
        seeds=chance.choice(tuple(SeedsKind)),
    )


def faults(seed: int, *, mean_s: float, with_rollback: bool = False) -> Iterator[Fault]:
    """Yield the run's faults without end, about one every `mean_s` seconds; the same seed gives the same."""
    chance = random.Random(f"faults {seed}")  # noqa: S311 - likewise
    weights = {**WEIGHTS, **ROLLBACKS} if with_rollback else WEIGHTS
    while True:
        kinds = [kind for kind, times in weights.items() for _ in range(times)]
        chance.shuffle(kinds)
        for kind in kinds:
            wait_s = chance.uniform(0.2, 1.8) * mean_s
            yield Fault(kind, wait_s, chance.random(), chance.random(), chance.random() < 0.5)
