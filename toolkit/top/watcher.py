"""The one reader behind the screens: each look gathers what they show, and asks nobody more often than need be."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from toolkit.cluster.board import Board, BoardView
from toolkit.cluster.desk import Desk
from toolkit.cluster.node_life import NodeRow
from toolkit.cluster.rates import Rates, total
from toolkit.model.crawls import CrawlView
from toolkit.model.events import Event
from toolkit.model.jobs import Job
from toolkit.model.names import JobId, NodeName
from toolkit.model.snapshot import STOCK, Attention
from toolkit.store.interfaces import Shared
from toolkit.top.seen import Seen

STEP_S = 10.0
"""The time between two points of a sparkline, as between two samples of the cluster."""
MAX_STEPS = 180
MAX_EVENTS = 1_000
SNAPSHOT_EVERY_S = 6.0
STOCK_EVERY_S = 5.0
SHARE = 10
"""What takes long is read less often: it takes at most one part in so many of the time."""

T = TypeVar("T")


class Watcher:
    """Looks at the cluster of a desk. One look at a time; it may raise `CrawlctlError`, and the next one goes on."""

    def __init__(self, desk: Desk, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk = desk
        self._clock = clock
        self._board = Board(desk, clock=clock)
        self._nodes = _Kept[Sequence[NodeRow]](())
        self._attention = _Kept[Sequence[Attention]](())
        self._crawls: Sequence[CrawlView] | None = None
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._history: deque[Rates] = deque(maxlen=MAX_STEPS)
        self._step_at_s: float | None = None

    def look(self, *, visible: Collection[JobId] = (), wants_crawls: bool = False) -> Seen:
        """Return the cluster as it is now; of `visible` jobs everything is read anew, crawls only when wanted."""
        view = self._board.look(visible)
        shared = self._desk.store.shared
        if view.is_anew and shared is not None:
            self._events.clear()
            self._events.extend(shared.events.entries(limit=MAX_EVENTS // 4))
        else:
            self._events.extendleft(view.events)
        nodes = self._nodes.get(self._desk.node_rows, now_s=self._clock(), every_s=self._nodes_every_s)
        if not self._desk.is_whole:
            view = of_nodes(view, {node.name for node in nodes})
        self._note_speed(view.totals, shared)
        if wants_crawls:
            self._crawls = self._desk.crawls()
        attention = self._attention.get(
            lambda: self._desk.snapshot().attention, now_s=self._clock(), every_s=SNAPSHOT_EVERY_S
        )
        return Seen(
            at=view.at,
            board=view,
            nodes=nodes,
            attention=attention,
            crawls=self._crawls,
            events=tuple(self._events),
            history=tuple(self._history),
            has_queue=shared is not None,
        )

    @property
    def _nodes_every_s(self) -> float:
        """Plug-in nodes are read at each look; stock ones, which are asked one by one, less often."""
        return STOCK_EVERY_S if any(node.kind == STOCK for node in self._nodes.value) else 0.0

    def _note_speed(self, rates: Rates, shared: Shared | None) -> None:
        """Remember the cluster's speed, a point every ten seconds; the last one is that of now."""
        now_s = self._clock()
        if self._step_at_s is None:
            past = () if shared is None or not self._desk.is_whole else shared.samples.of_cluster(limit=MAX_STEPS - 1)
            self._history.extend(Rates(each.pages_per_s, each.items_per_s, each.errors_per_s) for each in past)
            self._history.append(rates)
            self._step_at_s = now_s
        elif now_s >= self._step_at_s + STEP_S:
            self._history.append(rates)
            self._step_at_s = now_s
        else:
            self._history[-1] = rates


class _Kept(Generic[T]):
    """A value that is read anew when it is old enough."""

    def __init__(self, first: T) -> None:
        self.value = first
        self._again_at_s = float("-inf")

    def get(self, read: Callable[[], T], *, now_s: float, every_s: float) -> T:
        """Return the value, read anew when its time has come."""
        if now_s >= self._again_at_s:
            began_s = time.monotonic()
            self.value = read()
            took_s = time.monotonic() - began_s
            self._again_at_s = now_s + max(every_s, SHARE * took_s)
        return self.value


def of_nodes(view: BoardView, names: Collection[NodeName]) -> BoardView:
    """Leave out the jobs of other nodes, and those that wait for others only. Pure."""
    jobs = {job_id: job for job_id, job in view.jobs.items() if _is_of(job, names)}
    rates = {job_id: rate for job_id, rate in view.rates.items() if job_id in jobs}
    return replace(view, jobs=jobs, rates=rates, totals=total(rates.values()))


def _is_of(job: Job, names: Collection[NodeName]) -> bool:
    if job.node is not None:
        return job.node in names
    return not job.state.is_final and (job.on is None or any(name in names for name in job.on))
