"""The jobs of a cluster, kept in memory by those who look at them again and again: web and top.

A look reads what has changed: the events since the last one, what is new, what is on the screen, and a slice of all
others, so that whatever no event tells of is found too. Of stock nodes, which tell nothing, the jobs are listed anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from toolkit.cluster.board_rules import Counted, Drift, drift_of, ended_to_drop, next_slice, slice_size
from toolkit.cluster.desk import Desk
from toolkit.cluster.jobs import list_jobs
from toolkit.cluster.membership import registered, split
from toolkit.cluster.rates import Meter, Rates, total
from toolkit.model.events import Event
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.store.interfaces import Shared, Store

MAX_OPEN = 20_000
"""So many jobs that have not ended are kept, the newest and those that run; a queue that is longer is counted only."""
MAX_ENDED = 2_000
"""So many jobs that have ended are kept, the newest."""
MAX_STOCK = 1_000
EVENTS_A_CALL, MAX_EVENT_CALLS = 1_000, 5
SKEW = timedelta(seconds=5)
"""Whoever schedules says when, by his own clock: what is new is looked for from so much earlier on."""
STOCK_EVERY_S = 5.0
STOCK_EVERY_BESIDE_QUEUE_S = 15.0
STOCK_SHARE = 10
"""Asking stock nodes takes at most one part in so many of the time."""
RECONCILE_EVERY_S = 10.0

_FINAL = frozenset(state for state in JobState if state.is_final)


@dataclass(frozen=True, slots=True)
class BoardView:
    """What is known after a look; nothing of it changes afterwards.

    `rates` are those of active jobs, `totals` theirs together. `counts` are the shared queue's own
    (`JobQueue.counts`), empty without one. `events` came since the last look, oldest first. `changed` are the jobs that
    were read in this look, all of them when `is_anew`. `unseen` are stock nodes that could not be asked, and why.
    """

    at: datetime
    jobs: Mapping[JobId, Job]
    rates: Mapping[JobId, Rates]
    totals: Rates
    counts: Mapping[str, int] = field(default_factory=dict)
    events: Sequence[Event] = ()
    changed: frozenset[JobId] = frozenset()
    is_anew: bool = False
    unseen: Mapping[NodeName, str] = field(default_factory=dict)


class Board:
    """The jobs of the cluster that a desk looks at. Any thread may call; one look is under way at a time.

    After an error (`StoreUnreachableError`, mostly) the next look goes on from what was known.
    """

    def __init__(self, desk: Desk, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk = desk
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[JobId, Job] = {}
        self._meter = Meter()
        self._last_event: str | None = None
        self._changed: set[JobId] = set()
        self._turns: dict[str, JobId] = {}
        self._drift = Drift()
        self._reconciled_at_s = float("-inf")
        self._stock_at_s = float("-inf")
        self._unseen: Mapping[NodeName, str] = {}

    def look(self, visible: Collection[JobId] = ()) -> BoardView:
        """Bring the board up to date and return it; of the `visible` jobs everything is read anew."""
        with self._lock:
            store = self._desk.store
            shared, now = store.shared, store.now()
            self._changed = set()
            is_anew = self._last_event is None
            events: Sequence[Event] = ()
            counts: Mapping[str, int] = {}
            if shared is None:
                self._last_event = ""
                self._ask_stock(store, every_s=STOCK_EVERY_S, now=now)
            else:
                counts = shared.queue.counts()
                if (told := None if self._last_event is None else self._told(shared)) is None:
                    is_anew = True
                    self._read_all(store, shared, counts)
                else:
                    events = told
                    self._follow(store, shared, counts, events, visible)
                    # Only now: a look that fails before is told of the same events again.
                    self._last_event = events[-1].id if events else self._last_event
                self._ask_stock(store, every_s=STOCK_EVERY_BESIDE_QUEUE_S, now=now)
            self._drop_ended()
            rates = dict(self._meter.rates)
            return BoardView(
                at=now,
                jobs=dict(self._jobs),
                rates=rates,
                totals=total(rates.values()),
                counts=counts,
                events=events,
                changed=frozenset(self._changed),
                is_anew=is_anew,
                unseen=self._unseen,
            )

    def _told(self, shared: Shared) -> Sequence[Event] | None:
        """Return what happened since the last look; `None` when too much did, or Redis came back older than it was."""
        found: list[Event] = []
        last = self._last_event or "0-0"
        for _ in range(MAX_EVENT_CALLS):
            some = shared.events.after(last, limit=EVENTS_A_CALL)
            found += some
            if len(some) < EVENTS_A_CALL:
                break
            last = some[-1].id
        else:
            return None
        return None if not found and shared.events.newest() != self._last_event else found

    def _read_all(self, store: Store, shared: Shared, counts: Mapping[str, int]) -> None:
        """Read everything; the last event first, so that none which comes meanwhile is missed."""
        last = shared.events.newest()
        if counts["pending"] + counts["active"] <= MAX_OPEN:
            found = list(store.jobs.unfinished())
        else:
            newest = shared.queue.open(limit=MAX_OPEN)
            found = list(store.jobs.get_many([*shared.queue.active(), *newest]).values())
        found += store.jobs.recent(JobFilter(states=_FINAL), limit=MAX_ENDED)
        gone = self._jobs.keys() - {job.id for job in found}
        self._take_in(found)
        self._forget(job_id for job_id in gone if self._jobs[job_id].is_queued)
        self._last_event = last
        self._drift = Drift()

    def _follow(
        self,
        store: Store,
        shared: Shared,
        counts: Mapping[str, int],
        events: Sequence[Event],
        visible: Collection[JobId],
    ) -> None:
        told = {JobId(event.subject) for event in events if event.kind.startswith("job.")}
        self._read(store, told.union(visible, self._slices()))
        counted = Counted(counts["pending"], counts["active"])
        if counted.open > self._known().open:
            since = max((job.scheduled_at for job in self._jobs.values() if job.scheduled_at), default=None)
            ids = shared.queue.open(since=since and since - SKEW, limit=MAX_OPEN)
            self._read(store, [job_id for job_id in ids if job_id not in self._jobs])
        self._reconcile(store, shared, counted)

    def _reconcile(self, store: Store, shared: Shared, counted: Counted) -> None:
        """Compare with what the queue has now, when its counts say for a while that the board is wrong."""
        self._drift = drift_of(self._drift, known=self._known(), counted=counted, most=MAX_OPEN)
        now_s = self._clock()
        if not self._drift.is_lasting or now_s - self._reconciled_at_s < RECONCILE_EVERY_S:
            return
        self._reconciled_at_s, self._drift = now_s, Drift()
        is_part = counted.open > MAX_OPEN
        there = {*shared.queue.active(), *shared.queue.open(limit=MAX_OPEN)}
        open_here = {job_id for job_id, job in self._jobs.items() if job.is_queued and not job.state.is_final}
        self._read(store, {job_id for job_id in there if job_id not in self._jobs or self._jobs[job_id].state.is_final})
        self._read(store, {job_id for job_id in open_here - there if not is_part or self._jobs[job_id].state.is_active})

    def _ask_stock(self, store: Store, *, every_s: float, now: datetime) -> None:
        """List the jobs of stock nodes anew, when it is time."""
        began_s = self._clock()
        if began_s < self._stock_at_s:
            return
        _, stock = split(self._desk.nodes, registered(store))
        if len(stock) or store.shared is None:
            listed = list_jobs(stock, store.jobs, JobFilter(), now=now, limit=MAX_STOCK)
            found = [job for job in listed.jobs if store.shared is None or not job.is_queued]
            there = {job.id for job in found}
            self._forget([job.id for job in self._jobs.values() if not job.is_queued and job.id not in there])
            self._take_in(found)
            self._unseen = listed.unseen
        now_s = self._clock()
        self._stock_at_s = now_s + max(every_s, STOCK_SHARE * (now_s - began_s))

    def _slices(self) -> list[JobId]:
        """Choose some of the jobs that are not looked at, another part each time: mostly those that run."""
        chosen: list[JobId] = []
        for kind, share in (("active", 1.0), ("pending", 0.2)):
            is_meant = (lambda job: job.state.is_active) if kind == "active" else (lambda job: not job.state.is_final)
            ids = [job.id for job in self._jobs.values() if job.is_queued and is_meant(job)]
            some = next_slice(ids, after=self._turns.get(kind), size=slice_size(len(ids), share=share))
            if some:
                self._turns[kind] = some[-1]
            chosen += some
        return chosen

    def _read(self, store: Store, ids: Collection[JobId]) -> None:
        if not ids:
            return
        wanted = list(dict.fromkeys(ids))
        found = store.jobs.get_many(wanted)
        self._take_in(found.values())
        self._forget(
            job_id for job_id in wanted if job_id not in found and job_id in self._jobs and self._jobs[job_id].is_queued
        )

    def _take_in(self, jobs: Iterable[Job]) -> None:
        at_s = self._clock()
        for job in jobs:
            self._jobs[job.id] = job
            self._meter.look(job, at_s=at_s)
            self._changed.add(job.id)

    def _forget(self, ids: Iterable[JobId]) -> None:
        for job_id in list(ids):
            self._jobs.pop(job_id, None)
            self._meter.forget(job_id)
            self._changed.add(job_id)

    def _drop_ended(self) -> None:
        self._forget(ended_to_drop(self._jobs.values(), most=MAX_ENDED))

    def _known(self) -> Counted:
        queued = [job.state for job in self._jobs.values() if job.is_queued and not job.state.is_final]
        active = sum(state.is_active for state in queued)
        return Counted(len(queued) - active, active)
