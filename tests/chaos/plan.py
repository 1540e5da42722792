"""What a run does, decided by its seed alone: the jobs, what operators do to them, and the faults in their order.

When each fault comes is part of the plan too; which job or process it hits depends on what is running then.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from chaos.spiders import DYING, FAILING, PARENT, PLAIN, PROJECT, STUBBORN, VERSION

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, SpiderName

MIN_RUN_S, MAX_RUN_S = 0.5, 5.0
BATCHES = 5
"""The jobs come in so many batches, so that nodes are busy at some times and idle at others."""


class FaultKind(StrEnum):
    """What can go wrong."""

    MACHINE_DIES = "machine dies"
    SCRAPYD_DIES = "Scrapyd dies"
    SCRAPYD_RESTARTS = "Scrapyd restarts"
    MACHINE_FREEZES = "machine freezes"
    SPIDER_DIES = "spider dies"
    SHORT_CUT = "short cut"
    NEAR_CUT = "cut of about a lease"
    LONG_CUT = "long cut"
    NODE_CLOSES = "node stopped as a container"
    REDIS_DIES = "Redis dies"
    REDIS_STOPS = "Redis stops"
    REDIS_FULL = "Redis full"
    REDIS_OLDER = "Redis comes back older"
    REDIS_AWAY_OLDER = "Redis away and older"
    REDIS_PROMOTED = "replica promoted"
    NODE_ADDED = "node added"


WEIGHTS: Mapping[FaultKind, int] = {
    FaultKind.MACHINE_DIES: 3,
    FaultKind.SCRAPYD_DIES: 3,
    FaultKind.SCRAPYD_RESTARTS: 2,
    FaultKind.MACHINE_FREEZES: 2,
    FaultKind.SPIDER_DIES: 3,
    FaultKind.SHORT_CUT: 2,
    FaultKind.NEAR_CUT: 2,
    FaultKind.LONG_CUT: 2,
    FaultKind.NODE_CLOSES: 2,
    FaultKind.REDIS_DIES: 1,
    FaultKind.REDIS_STOPS: 1,
    FaultKind.REDIS_FULL: 1,
    FaultKind.REDIS_OLDER: 1,
    FaultKind.REDIS_AWAY_OLDER: 1,
    FaultKind.REDIS_PROMOTED: 1,
}
"""How often each kind comes until all have come that often; a node is added once."""


class Interference(StrEnum):
    """What an operator does to a job on its way."""

    NONE = "none"
    CANCEL_PENDING = "cancel pending"
    CANCEL_RUNNING = "cancel running"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Order:
    """A job of the run; `after_s` is how long it has run when the operator interferes."""

    id: JobId
    spider: SpiderName
    run_s: float
    attempts: int
    batch: int
    is_unique: bool = False
    retries_failed: bool = False
    interference: Interference = Interference.NONE
    after_s: float = 0.0
    on: NodeName | None = None

    def job(self, journal: str) -> Job:
        """Return it as the queue takes it."""
        return Job(
            id=self.id,
            project=PROJECT,
            spider=self.spider,
            state=JobState.PENDING,
            version=VERSION,
            args={"journal": journal, "run_s": f"{self.run_s:.2f}", "number": self.id},
            settings={},
            priority=0.0,
            attempts=self.attempts,
            retries_failed=self.retries_failed,
            scheduled_by="chaos",
            on=(self.on,) if self.on else None,
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: so long after the one before it. `which` (0 to 1) picks what it hits, `length` how long it lasts."""

    kind: FaultKind
    wait_s: float
    which: float
    length: float
    is_silent: bool


def orders(seed: int, count: int, *, nodes: int) -> list[Order]:
    """Return the run's jobs, some of them for one of the first `nodes` nodes; the same arguments give the same."""
    chance = random.Random(f"orders {seed}")  # noqa: S311 - must be the same again, protects nothing
    names = [NodeName(f"node-{number}") for number in range(1, nodes + 1)]
    return [
        _order(chance, JobId(f"chaos-{seed}-{number:04}"), number * BATCHES // count, names) for number in range(count)
    ]


def faults(seed: int, *, mean_s: float) -> Iterator[Fault]:
    """Yield the run's faults without end, about one every `mean_s` seconds; the same seed gives the same."""
    chance = random.Random(f"faults {seed}")  # noqa: S311 - likewise
    is_first = True
    while True:
        kinds = [kind for kind, times in WEIGHTS.items() for _ in range(times)]
        chance.shuffle(kinds)
        if is_first:
            kinds.insert(chance.randrange(2, len(kinds) // 2), FaultKind.NODE_ADDED)
            is_first = False
        for kind in kinds:
            wait_s = chance.uniform(0.2, 1.8) * mean_s
            yield Fault(kind, wait_s, chance.random(), chance.random(), chance.random() < 0.5)


def pick(fault: Fault, among: Sequence[str]) -> str | None:
    """Return what the fault hits, if there is anything that it can hit."""
    return among[min(int(fault.which * len(among)), len(among) - 1)] if among else None


def _order(chance: random.Random, job_id: JobId, batch: int, names: Sequence[NodeName]) -> Order:
    spider = chance.choices((PLAIN, PARENT, STUBBORN, FAILING, DYING), weights=(11, 4, 3, 1, 1))[0]
    interference = chance.choices(tuple(Interference), weights=(82, 4, 8, 6))[0]
    return Order(
        id=job_id,
        spider=spider,
        run_s=chance.uniform(MIN_RUN_S, MAX_RUN_S),
        attempts=chance.choices((1, 2, 3), weights=(6, 11, 3))[0],
        batch=batch,
        is_unique=chance.random() < 0.1,
        retries_failed=chance.random() < 0.1,
        interference=interference,
        after_s=chance.uniform(0.0, 2.0),
        on=chance.choice(names) if chance.random() < 0.15 else None,
    )
