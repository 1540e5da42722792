"""What all histories share: the world, the server, the ways there, and the faults of these that a seed decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from simulation.server import Link, Real, Server, Snapshot
from simulation.world import BEGIN_S, Owner, World

SETTLED_WITHIN_S = 400.0
KEPT_LEASES = 4.5
FAULTLESS = frozenset({"clock steps", "Redis clock steps"})
"""Kinds that excuse nothing: a clock that is set must harm nobody."""


@dataclass(frozen=True)
class Trouble:
    """A time in which something could not do its part."""

    what: str
    kind: str
    begin: float
    end: float

    def overlaps(self, begin: float, end: float) -> bool:
        """Tell whether it was at some moment of that time."""
        return self.kind not in FAULTLESS and self.begin <= end and begin <= self.end


class History(ABC):
    """Plays one history; `broken` are the promises that did not hold in it."""

    FAULTS: ClassVar[Mapping[str, int]]
    kinds: Collection[str] = ()
    """The kinds of faults that may happen; all of them, unless some are named."""
    """The kinds of faults, and how often each comes beside the others."""

    def __init__(
        self,
        seed: int,
        real: Real,
        folder: Path,
        *,
        say: Callable[[str], None] | None,
        lease_s: float,
        faults_end_s: float,
    ) -> None:
        self.world = World(seed, say=say)
        self.real, self.folder = real, folder
        self.server = Server(self.world, real)
        self.chance = self.world.random("history")
        self.troubles: list[Trouble] = []
        self.faults: Counter[str] = Counter()
        self.broken: list[str] = []
        self.orderly = Owner("nobody")
        self._lease_s, self._faults_end_s = lease_s, faults_end_s

    def play(self) -> list[str]:
        """Let everything happen, then mend it, come to rest, and look."""
        try:
            self.begin()
            for at, fault in self._planned():
                self.later(at, fault)
            self.world.run(BEGIN_S + self._faults_end_s)
            self._mend()
            is_settled = self.world.run(self.world.now + SETTLED_WITHIN_S, is_over=self.is_settled)
            if is_settled:
                # What is told again when all is over must change nothing, and what is kept for a while must go.
                self.world.run(self.world.now + KEPT_LEASES * self._lease_s)
            self.judge(is_settled=is_settled)
        finally:
            self.end()
            self.world.end()
        return self.broken

    @abstractmethod
    def begin(self) -> None:
        """Bring up what there is."""

    @abstractmethod
    def links(self) -> Mapping[str, Link]:
        """Return what can be cut off, by its name."""

    @abstractmethod
    def fault(self, kind: str, name: str, *, length: float, which: float) -> None:
        """Do a fault that is not one of links or of Redis; `length` and `which` are from 0 to 1."""

    @abstractmethod
    def mend(self) -> None:
        """Bring back what is away, other than links and Redis."""

    def is_late(self) -> bool:
        """Tell whether all is over already, so that a fault would find nobody who could make up for it."""
        return False

    @abstractmethod
    def is_settled(self) -> bool:
        """Tell whether nothing is left to happen."""

    @abstractmethod
    def judge(self, *, is_settled: bool) -> None:
        """Look for what is broken."""

    def end(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of what a history holds outside of its world."""

    def later(self, at: float, call: Callable[[], object]) -> None:
        """Let something happen so many seconds after the beginning."""
        self.world.at(BEGIN_S + at, self.orderly, call)

    def later_s(self, delay_s: float, call: Callable[[], object]) -> None:
        """Let something happen after a while."""
        self.world.after(delay_s, self.orderly, call)

    def note(self, kind: str, what: str, for_s: float) -> None:
        """Remember a fault that happens now."""
        self.faults[kind] += 1
        self.troubles.append(Trouble(what, kind, self.world.now, self.world.now + for_s))
        self.world.say("** {}: {}, for {:.2f} s", kind, what, for_s)

    def _planned(self) -> Iterator[tuple[float, Callable[[], None]]]:
        """Return few faults of few kinds, most often: what each of them does alone is seen best."""
        chance = self.chance
        kinds = [kind for kind in self.FAULTS if not self.kinds or kind in self.kinds]
        some = chance.sample(kinds, min(len(kinds), chance.choice((1, 1, 2, 3, len(self.FAULTS)))))
        weights = [self.FAULTS[kind] for kind in some]
        latest = chance.choice((0.1, 0.75, 0.75))
        for _ in range(chance.choice((1, 2, 3, 5, 8))):
            kind = chance.choices(some, weights)[0]
            at = chance.uniform(0.5, self._faults_end_s * latest)
            yield at, self._fault(kind)

    def _fault(self, kind: str) -> Callable[[], None]:
        chance = self.chance
        name = chance.choice(sorted(self.links()))
        length, which = chance.random(), chance.random()
        if kind.startswith("Redis"):
            return lambda: self._fault_of_redis(kind, length=length, which=which)
        if kind in {"cut", "cut near a lease", "answers lost", "slow"}:
            return lambda: self._fault_of_link(kind, name, length=length, is_silent=which < 0.5)
        return lambda: self.fault(kind, name, length=length, which=which)

    def _fault_of_link(self, kind: str, name: str, *, length: float, is_silent: bool) -> None:
        link = self.links()[name]
        if link.cut or self.is_late():
            return
        for_s = 20.0
        if kind == "answers lost":
            link.losses = 0.3
            self.later_s(for_s, lambda: setattr(link, "losses", 0.0))
        elif kind == "slow":
            link.slow_s = 0.2 + 6 * length
            self.later_s(for_s, lambda: setattr(link, "slow_s", 0.0))
        else:
            for_s = self._lease_s * (0.05 + 2.4 * length if kind == "cut" else 0.7 + 0.6 * length)
            link.break_off("silent" if is_silent else "refused")
            self.later_s(for_s, link.heal)
        self.note(kind, name, for_s)

    def _fault_of_redis(self, kind: str, *, length: float, which: float) -> None:
        server = self.server
        if server.is_down or server.holder() is not None or self.is_late():
            return
        if kind == "Redis clock steps":
            by_s = step_s(length)
            self.note(kind, f"{by_s:+.0f} s", 0.0)
            server.offset_s += by_s
        elif kind == "Redis freezes":
            for_s = 0.3 * self._lease_s * length + 0.5
            self.note(kind, "redis", for_s)
            server.freeze()
            self.later_s(for_s, lambda: server.thaw(self.world))
        else:
            for_s = (0.3 + 2 * length) * self._lease_s if "away" in kind else 0.05 + 1.2 * length
            age_s = (0.2 + 3 * which if which < 0.8 else 10.0) if "older" in kind else 0.0
            snapshot = server.snapshot() if age_s else None
            self.later_s(age_s, lambda: self._crash(kind, for_s, snapshot))

    def _crash(self, kind: str, for_s: float, snapshot: Snapshot | None) -> None:
        if self.server.is_down or self.is_late():
            return
        self.note(kind, "redis", for_s)
        self.server.die()
        self.later_s(for_s, lambda: self._come_back(snapshot))

    def _come_back(self, snapshot: Snapshot | None) -> None:
        if self.server.is_down:
            older = f", as it was {self.world.now - snapshot.at:.2f} s ago" if snapshot else ""
            self.world.say("** Redis is back{}", older)
            self.server.come_back(snapshot=snapshot)

    def _mend(self) -> None:
        self.world.say("** all is well from here on")
        if self.server.holder() is not None:
            self.server.thaw(self.world)
        for link in self.links().values():
            link.heal()
            link.losses = link.slow_s = 0.0
        self.mend()


def step_s(share: float) -> float:
    """Return by how much a clock is set."""
    return (-3600.0, -20.0, -3.0, 3.0, 20.0, 3600.0)[int(share * 6)]
