"""A plain model of a crawl, to which the frontier is compared after any history of commits, deaths and wishes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from toolkit.model.crawls import SUSPECT_AFTER, CrawlView, Filter, Push, QueueOrder, StartRole


class Place(Enum):
    """Where an entry is."""

    WAITING = auto()
    IN_HAND = auto()
    DEAD = auto()
    BLOCKED = auto()
    DONE = auto()


@dataclass
class Known:
    """What the model knows of one entry; `age` counts those that came before it."""

    body: bytes
    priority: int
    age: int
    domain: str = ""
    is_seed: bool = False
    deaths: int = 0
    place: Place = Place.WAITING
    worker: str = ""

    @property
    def is_suspect(self) -> bool:
        """It runs alone."""
        return self.deaths >= SUSPECT_AFTER


@dataclass
class CrawlModel:
    """All entries of a crawl, its seen set, and who works on it."""

    order: QueueOrder
    max_deaths: int
    entries: dict[bytes, Known] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)
    started: set[bytes] = field(default_factory=set)
    seeds: list[bytes] = field(default_factory=list)
    items: list[bytes] = field(default_factory=list)
    duplicates: int = 0
    pages: int = 0
    workers: dict[str, bool] = field(default_factory=dict)
    """Who takes part, and whether he holds back more."""
    start: str = ""
    """Who has the part of `start()`; `!` when it was run to its end."""
    is_paused: bool = False

    def at(self, place: Place, *, worker: str = "") -> list[Known]:
        """Return the entries at a place, in one worker's hands only if one is named."""
        return [each for each in self.entries.values() if each.place == place and worker in {"", each.worker}]

    def line(self) -> list[Known]:
        """Return the entries that wait and may run beside others, in the order of taking."""
        waiting = [each for each in self.at(Place.WAITING) if not each.is_suspect]
        if self.order == QueueOrder.PRIORITY:
            return sorted(waiting, key=lambda each: (-each.priority, each.age))
        return sorted(waiting, key=lambda each: each.age, reverse=self.order == QueueOrder.LIFO)

    def push(self, pushes: Iterable[Push], *, domains: Iterable[str]) -> tuple[int, ...]:
        """Take new entries; return which were dropped."""
        dropped = []
        for index, (push, domain) in enumerate(zip(pushes, domains, strict=True)):
            if self._is_dropped(push):
                dropped.append(index)
                continue
            self.entries[push.body] = Known(push.body, push.priority, len(self.entries), domain)
        self.duplicates += len(dropped)
        return tuple(dropped)

    def _is_dropped(self, push: Push) -> bool:
        before = {Filter.SEEN: self.seen, Filter.START: self.started}.get(push.filter, set())
        if push.fingerprint in before:
            return True
        if push.filter == Filter.START:
            self.started.add(push.fingerprint)
        if push.filter != Filter.NONE:
            self.seen.add(push.fingerprint)
        return False

    def lose(self, worker: str, *, is_death: bool) -> None:
        """Take back what a worker held that is gone."""
        for each in self.at(Place.IN_HAND, worker=worker):
            each.deaths += is_death
            each.worker = ""
            each.place = Place.DEAD if is_death and each.deaths >= self.max_deaths else Place.WAITING
        self.workers.pop(worker, None)
        if self.start == worker:
            self.start = ""

    def join(self, worker: str, *, is_new_life: bool) -> StartRole:
        """Let a worker take part; with nobody there and nothing to do, a new life begins with `start()` again."""
        is_idle = not self.at(Place.WAITING) and not self.at(Place.IN_HAND)
        if is_new_life and not self.workers and is_idle:
            self.start = ""
            self.started.clear()
        self.workers[worker] = False
        self.start = self.start or worker
        return self.role_of(worker)

    def role_of(self, worker: str) -> StartRole:
        """Return what a worker is told of `start()`."""
        if self.start == "!":
            return StartRole.DONE
        return StartRole.YOURS if self.start == worker else StartRole.WAIT

    def share(self) -> int:
        """Return how many entries one worker may be leased at most."""
        return max(1, math.ceil((len(self.line()) + len(self.seeds)) / len(self.workers)))

    @property
    def is_over(self) -> bool:
        """Nobody has anything to do, now or later."""
        return (
            self.start == "!"
            and not self.seeds
            and not self.at(Place.WAITING)
            and not self.at(Place.IN_HAND)
            and not any(self.workers.values())
        )

    def check(self, view: CrawlView) -> None:
        """Compare the counts."""
        waiting = self.at(Place.WAITING)
        expected = {
            "pending": len(waiting),
            "in_flight": len(self.at(Place.IN_HAND)),
            "suspects": len([each for each in waiting if each.is_suspect]),
            "dead": len(self.at(Place.DEAD)),
            "blocked": len(self.at(Place.BLOCKED)),
            "seeds": len(self.seeds),
            "seen": len(self.seen),
            "pages": self.pages,
            "items": len(self.items),
            "duplicates": self.duplicates,
            "workers": sorted(self.workers),
            "is_over": self.is_over,
        }
        told = {name: getattr(view, name) for name in expected} | {"workers": [each.name for each in view.workers]}
        assert told == expected
