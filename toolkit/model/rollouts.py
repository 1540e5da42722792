"""A rollout in waves: what it brings, to whom and in which order, how far it is, and what was found on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import NodeResult, Release, RolloutLock


class RolloutState(StrEnum):
    """Where a rollout in waves is; the last three are final.

    `running`: somebody is at it, or was when the process was killed. `held`: nobody is; what was brought stays where it
    is until somebody resumes or undoes it. `abandoned`: another deploy took its place, and nothing was taken back.
    """

    RUNNING = "running"
    HELD = "held"
    DONE = "done"
    UNDONE = "undone"
    ABANDONED = "abandoned"

    @property
    def is_open(self) -> bool:
        """It can be resumed or undone."""
        return self in {RolloutState.RUNNING, RolloutState.HELD}


class WaveState(StrEnum):
    """How far one wave is. `begun`: its nodes may have the egg, each of them or none."""

    WAITING = "waiting"
    BEGUN = "begun"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many nodes may fail: a number, or a percentage of the nodes that were tried so far."""

    count: int = 0
    percent: float | None = None

    def allows(self, failed: int, *, tried: int) -> bool:
        """Tell whether so many failures are within it."""
        return failed <= (self.count if self.percent is None else tried * self.percent / 100)

    def __str__(self) -> str:
        return str(self.count) if self.percent is None else f"{self.percent:g}%"


@dataclass(frozen=True, slots=True)
class SmokeCheck:
    """The job that proves a wave: a spider of the new version, how long it may take, how many items it must bring."""

    spider: SpiderName
    timeout_s: float
    min_items: int = 1


@dataclass(frozen=True, slots=True)
class GateRules:
    """What each wave has to show before the next one begins. With `holds`, a failure waits for a decision."""

    failures: Allowance = Allowance()
    check: SmokeCheck | None = None
    pause_s: float = 0.0
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Smoke:
    """What became of a wave's smoke job; `error` says why it does not count as passed."""

    node: NodeName
    job: JobId
    items: int | None = None
    finish_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave: its nodes in order, what each of them said, and what the gate behind it said.

    `taken` are the nodes where the egg is, or may be, this rollout's. An accepted wave did not pass, and somebody said
    to go on all the same: its failures do not count any more.
    """

    nodes: tuple[NodeName, ...]
    state: WaveState = WaveState.WAITING
    results: tuple[NodeResult, ...] = ()
    taken: tuple[NodeName, ...] = ()
    smoke: Smoke | None = None
    why: str | None = None
    is_accepted: bool = False


@dataclass(frozen=True, slots=True)
class WaveRollout:
    """One execution of a deploy in waves, as the store keeps it; whoever has the project's lock may change it.

    `token` is that of the lock under which it was last changed. `why` says what it waits for, or how it
    ended. A node is in one wave at most; one that joined later is in none, and installs what is active.
    """

    id: str
    release: Release
    former: VersionName | None
    state: RolloutState
    rules: GateRules
    waves: tuple[Wave, ...]
    who: str
    began_at: datetime
    changed_at: datetime
    token: int
    why: str | None = None

    @property
    def project(self) -> ProjectName:
        """The project that is rolled out."""
        return self.release.project

    @property
    def version(self) -> VersionName:
        """The version that is rolled out."""
        return self.release.version

    @property
    def place(self) -> int | None:
        """The wave that comes next, or is under way, counted from 0; `None` when all have passed."""
        return next((at for at, wave in enumerate(self.waves) if wave.state is not WaveState.PASSED), None)

    @property
    def results(self) -> tuple[NodeResult, ...]:
        """What the nodes said that were tried so far, wave by wave."""
        return tuple(result for wave in self.waves for result in wave.results)

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """All nodes, in the order of the waves."""
        return tuple(node for wave in self.waves for node in wave.nodes)

    def reached(self) -> Iterator[NodeName]:
        """Yield the nodes that may take the egg: those of the waves that were begun."""
        for wave in self.waves:
            if wave.state is not WaveState.WAITING:
                yield from wave.nodes

    def with_wave(self, at: int, wave: Wave) -> WaveRollout:
        """Return it with another wave in this place."""
        return replace(self, waves=(*self.waves[:at], wave, *self.waves[at + 1 :]))


def is_left(rollout: WaveRollout, holder: RolloutLock | None) -> bool:
    """Tell whether nobody is at a rollout that says it is running: its operator was killed, and its lock is gone."""
    is_at_work = holder is not None and holder.token == rollout.token
    return rollout.state is RolloutState.RUNNING and not is_at_work
