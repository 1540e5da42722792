"""A change that rolls through hosts, a few at a time: drained, changed, seen healthy, taken up again; else it stops.

What is done to a host is a function that the caller gives; this decides who is next and whether to go on.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from toolkit.cluster.fanout import InterruptedFanOutError, fan_out
from toolkit.cluster.node_life import is_empty
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.registry import Registry
from toolkit.model.errors import (
    CrawlctlError,
    HostError,
    NodeError,
    NodesFailedError,
    NodeUnreachableError,
    RefusedError,
    UsageError,
)
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName, Session
from toolkit.model.nodes import NodeRecord
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.rolls import DONE, NOT_BEGUN, Rolled
from toolkit.model.snapshot import NodeState
from toolkit.provision.remote import CONNECT
from toolkit.store.interfaces import Store

DRAIN, CHANGE, HEALTH, FORGET = "drain", "change", "health", "forget"
LOOK_EVERY_S = 0.2
_BATCH = re.compile(r"([1-9][0-9]{0,5})(%?)")

T = TypeVar("T")
OnStep = Callable[[NodeName, str], None]


@dataclass(frozen=True, slots=True)
class Changed:
    """What was done to a host: `note` in a few words, and whether its Scrapyd was started anew by that."""

    note: str
    is_restarted: bool = True


@dataclass(frozen=True, slots=True)
class Care:
    """How carefully a host's jobs are treated, and how long its node may take to be well again; times in seconds.

    `drain_s` is how long the jobs that run may take to end; where they `survive` the change, because a node with the
    plug-in finds them again, only those of stock nodes are waited for. With `is_forced` the change is made although
    they have not ended. `ends_up` says that the node shall run afterwards, `resumes` that it shall take jobs then
    whoever had drained it, `forgets` that the cluster shall not know it any more.
    """

    survive: bool = False
    drain_s: float = 1800.0
    health_s: float = 60.0
    is_forced: bool = False
    ends_up: bool = True
    resumes: bool = False
    forgets: bool = False


class InterruptedRollError(KeyboardInterrupt):
    """Ctrl-C came; hosts that were begun were finished, or left before they were changed, as `rolled` tells."""

    def __init__(self, rolled: Sequence[Rolled]) -> None:
        super().__init__()
        self.rolled = tuple(rolled)


def batch_size(text: str, *, of: int) -> int:
    """Read `3` or `25%` as a number of hosts, at least one. Pure.

    Raises:
        UsageError: it is neither.

    """
    match = _BATCH.fullmatch(text)
    if match is None or (match[2] and int(match[1]) > 100):  # noqa: PLR2004 - per cent
        raise UsageError(
            f"{text!r} is no batch", hint="write a number of hosts, as in 3, or a share of them, as in 25%"
        )
    return max(1, math.floor(of * int(match[1]) / 100)) if match[2] else int(match[1])


def roll(
    hosts: Sequence[Host],
    change: Callable[[Host], Changed],
    *,
    batch: int,
    care: Care,
    store: Store,
    nodes: Nodes,
    who: str,
    on_step: OnStep,
    on_done: Callable[[Rolled], None],
) -> list[Rolled]:
    """Change the hosts, `batch` at a time, and stop after the first batch in which one failed; return each one's end.

    A node with the plug-in takes no job from the moment on at which its host is begun until it is seen healthy; one
    that somebody had drained before stays drained. A host that fails stays drained, and says so.

    Raises:
        InterruptedRollError: Ctrl-C; no further host was begun.

    """
    stop, cluster = threading.Event(), _Cluster(store, nodes, who, Registry(store, every_s=LOOK_EVERY_S / 2))
    found: dict[NodeName, Rolled] = {}

    def heard(outcome: Outcome[Rolled]) -> None:
        found[outcome.node] = _rolled(outcome)
        on_done(found[outcome.node])

    for first in range(0, len(hosts), batch):
        some = hosts[first : first + batch]
        turns = [_Turn(host, care, cluster, stop, on_step) for host in some]
        try:
            fan_out(turns, lambda turn: turn.take(change), on_done=heard, finish_begun=True, on_stop=stop.set)
        except InterruptedFanOutError as interrupted:
            each: Outcomes[Rolled] = interrupted.outcomes
            found |= {outcome.node: _rolled(outcome) for outcome in each}
            raise InterruptedRollError(_all(hosts, found)) from None
        if any(not found[host.name].ok for host in some):
            break
    return _all(hosts, found)


def _all(hosts: Sequence[Host], found: dict[NodeName, Rolled]) -> list[Rolled]:
    return [found.get(host.name) or Rolled(host.name, NOT_BEGUN) for host in hosts]


def _rolled(outcome: Outcome[Rolled]) -> Rolled:
    return outcome.value or Rolled(outcome.node, NOT_BEGUN, error=outcome.error)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Where the nodes are known, how they are asked, and who drains them."""

    store: Store
    nodes: Nodes
    who: str
    registry: Registry


class _Turn:
    """One host's turn, on a thread of its own."""

    def __init__(self, host: Host, care: Care, at: _Cluster, stop: threading.Event, on_step: OnStep) -> None:
        self.name = host.name
        self._host = host
        self._care = care
        self._store, self._nodes, self._who, self._registry = at.store, at.nodes, at.who, at.registry
        self._stop = stop
        self._on_step = on_step
        self._step = NOT_BEGUN
        self._is_drained_by_us = False
        self._untold: str | None = None

    def take(self, change: Callable[[Host], Changed]) -> Rolled:
        began = time.monotonic()
        try:
            note = self._take(change)
        except CrawlctlError as error:
            if isinstance(error, HostError) and error.doing == CONNECT:
                # We were not let in, so it is as it was.
                self._resume_ours()
            stays = f"{self.name} stays drained" if self._is_drained_by_us else None
            return Rolled(self.name, self._step, time.monotonic() - began, stays, error)
        return Rolled(self.name, DONE, time.monotonic() - began, note)

    def _take(self, change: Callable[[Host], Changed]) -> str:
        before = self._record()
        self._enter(DRAIN)
        if before is not None:
            self._empty(before)
        else:
            self._wait_for_stock_jobs()
        self._enter(CHANGE)
        done = change(self._host)
        if self._care.ends_up:
            self._enter(HEALTH)
            self._see_healthy(before, is_new=done.is_restarted)
            if self._is_drained_by_us or self._care.resumes:
                self._resume()
        if self._care.forgets:
            self._enter(FORGET)
            self._forget(before)
        return done.note

    def _resume(self) -> None:
        if self._store.shared is not None:
            self._store.shared.nodes.resume([self.name])
        self._is_drained_by_us = False

    def _resume_ours(self) -> None:
        """Take back the drain that is ours; where the store does not answer either, it stays, and is told."""
        if self._is_drained_by_us:
            with contextlib.suppress(CrawlctlError):
                self._resume()

    def _forget(self, before: NodeRecord | None) -> None:
        """Drop the node from the registry once it is silent; its name may be given again."""
        if before is None or self._store.shared is None:
            return
        nodes = self._store.shared.nodes
        patience_s = before.report.lease_s + self._care.health_s
        if self._wait(
            lambda: self._record() is not None and not nodes.forget([self.name]), within_s=patience_s, is_patient=True
        ):
            raise NodesFailedError(f"{self.name} still gives signs of life", hint=f"crawlctl nodes forget {self.name}")

    def _empty(self, before: NodeRecord) -> None:
        """Let the node take nothing more, and wait for what runs; undone when nothing may be changed."""
        if self._store.shared is None or before.state is NodeState.LOST:
            return
        if not before.is_draining:
            self._store.shared.nodes.drain([self.name], who=self._who)
        # One that a roll has left drained, whose operator was killed or whose node was ill, is ours to take up again.
        self._is_drained_by_us = not before.is_draining or is_left_by_a_roll(before.drained_by)
        if self._care.survive:
            return
        since = self._store.now()
        left = self._wait(lambda: self._busy(since), within_s=self._care.drain_s)
        if left and not (self._care.is_forced and not self._stop.is_set()):
            if self._is_drained_by_us:
                self._resume()
            raise self._not_empty(left)

    def _busy(self, since: datetime) -> int:
        record = self._record()
        if record is None or is_empty(record, since=since):
            return 0
        return max(1, record.report.running)

    def _wait_for_stock_jobs(self) -> None:
        """Wait for the jobs of a stock node, which would end with it; one that is not there has none to spare."""
        if self.name not in self._nodes or self._care.resumes:
            return
        left = self._wait(self._stock_jobs, within_s=self._care.drain_s)
        if left and not (self._care.is_forced and not self._stop.is_set()):
            raise self._not_empty(left)

    def _stock_jobs(self) -> int:
        self._untold = None
        try:
            return self._nodes[self.name].load().running
        except NodeUnreachableError:
            return 0
        except NodeError as error:
            self._untold = error.why
            return 1

    def _not_empty(self, left: int) -> CrawlctlError:
        if self._stop.is_set():
            return RefusedError(f"{self.name}: interrupted before anything was changed")
        if self._untold is not None:
            why = f"{self.name} does not tell whether it runs jobs, so it was left as it is: {self._untold}"
            return NodesFailedError(why, hint="--force goes on all the same")
        hint = f"crawlctl jobs list --state running --on {self.name}; --force goes on all the same"
        return NodesFailedError(f"{self.name} still runs {left} job(s), so it was left as it is", hint=hint)

    def _see_healthy(self, before: NodeRecord | None, *, is_new: bool) -> None:
        session = before.report.session if before is not None and is_new else None
        why = self._wait(lambda: self._ailment(before, session), within_s=self._care.health_s, is_patient=True)
        if why:
            hint = f"crawlctl nodes logs --on {self.name}"
            raise NodesFailedError(f"{self.name} is not well after {self._care.health_s:g} s: {why}", hint=hint)

    def _ailment(self, before: NodeRecord | None, session: Session | None) -> str | None:
        record = self._record()
        if record is not None:
            return ailment(record, former=session)
        if before is not None:
            return "it is no longer registered"
        if self.name not in self._nodes:
            return None
        try:
            name = self._nodes[self.name].load().node_name
        except NodeError as error:
            return error.why
        return None if name == self.name else f"it answers as {name}"

    def _wait(self, look: Callable[[], T], *, within_s: float, is_patient: bool = False) -> T:
        """Look until there is nothing more to wait for, or no time; Ctrl-C ends only the waits before a change."""
        deadline = time.monotonic() + within_s
        while True:
            left = look()
            if not left or time.monotonic() >= deadline or (self._stop.is_set() and not is_patient):
                return left
            if is_patient:
                time.sleep(LOOK_EVERY_S)
            else:
                self._stop.wait(LOOK_EVERY_S)

    def _record(self) -> NodeRecord | None:
        return self._registry.record(self.name)

    def _enter(self, step: str) -> None:
        self._step = step
        self._on_step(self.name, step)


def drainer(who: str, verb: str) -> str:
    """Say who drains a node for a roll, as `drained_by` tells it. Pure."""
    return f"{who} (nodes {verb})"


def is_left_by_a_roll(drained_by: str | None) -> bool:
    """Tell whether a node was drained for a roll that was to take it up again. Pure."""
    return drained_by is not None and drained_by.endswith(("(nodes restart)", "(nodes upgrade)"))


def ailment(record: NodeRecord, *, former: Session | None) -> str | None:
    """Say why a node with the plug-in is not well; `former` is a session that is to be over. Pure."""
    if record.state in {NodeState.LOST, NodeState.STALE}:
        return f"no sign of life for {record.age_s:.0f} s"
    if former is not None and record.report.session == former:
        return "it was not started anew"
    if record.clash is not None:
        return f"another node claims its name: {record.clash}"
    if record.report.unfit is not None:
        return f"it takes no job: {record.report.unfit}"
    behind = next(iter(record.report.behind.items()), None)
    return f"it lacks {behind[0]}: {behind[1]}" if behind else None
