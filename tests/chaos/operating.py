"""What operators do during a run: deploy, put jobs into the queue in batches, cancel some, pause and resume some."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from chaos.plan import BATCHES, Interference, Order
from chaos.spiders import PLAIN, PROJECT, SPIDERS, VERSION, chaos_egg
from support.waiting import wait_until

from toolkit.model.errors import ConflictError, StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.releases import Release, Rollout
from toolkit.store.interfaces import Shared, Store

LOOK_EVERY_S = 0.1
PAUSED_S = 1.0
GRACE_S = 0.5
WHO = "chaos"


def rooms(store: Store) -> Shared:
    """Return what nodes and operators share."""
    assert store.shared is not None
    return store.shared


def deploy(store: Store) -> None:
    """Make the egg active; every node fetches it by itself."""
    content, now = chaos_egg(), store.now()
    digest = hashlib.sha256(content).hexdigest()
    release = Release(PROJECT, VERSION, digest, SPIDERS, len(content), None, now, WHO)
    rooms(store).eggs.offer(release, content)
    lock = store.releases.lock(PROJECT, who=WHO, why="deploy", ttl_s=30)
    store.releases.record(release, lock)
    store.releases.activate(Rollout(PROJECT, VERSION, "deploy", now, WHO, activated=True, results=()), lock, held_by=())
    store.releases.unlock(lock)


def wait_until_held(store: Store, names: Collection[str], *, deadline_s: float) -> None:
    """Wait until these nodes have proven to hold the egg."""

    def behind() -> list[str]:
        held = {str(each.name) for each in rooms(store).nodes.all() if VERSION in each.report.versions.get(PROJECT, ())}
        return sorted(set(names) - held)

    wait_until(lambda: not behind(), deadline_s=deadline_s, what=f"{', '.join(names)} to hold the egg")


class Operator(threading.Thread):
    """Does all that the orders say, and goes on through every outage. `is_done` when all accepted jobs are final.

    While `forgetting` is held, it writes nothing: Redis would not remember it.
    """

    def __init__(
        self,
        store: Store,
        orders: Sequence[Order],
        journal: Path,
        *,
        slots: int,
        forgetting: threading.Lock,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="operator", daemon=True)
        self.accepted: list[Order] = []
        self.cancels: dict[JobId, JobState] = {}
        self.broken: list[str] = []
        self.is_done = threading.Event()
        self.stopping = threading.Event()
        self._store = store
        self._orders = orders
        self._journal = str(journal)
        self._slots = slots
        self._forgetting = forgetting
        self._say = say
        self._begun: dict[JobId, float] = {}
        self._paused: dict[JobId, float] = {}
        self._settled: set[JobId] = set()

    def run(self) -> None:
        """Work until all is final, or until told to stop."""
        batches = iter(range(BATCHES))
        while not self.stopping.wait(LOOK_EVERY_S):
            with self._forgetting, contextlib.suppress(StoreUnreachableError):
                counts = rooms(self._store).queue.counts()
                if counts["pending"] + counts["active"] <= self._slots // 2:
                    batch = next(batches, None)
                    if batch is None and counts["pending"] + counts["active"] == 0:
                        self.is_done.set()
                        return
                    if batch is not None:
                        self._enqueue([order for order in self._orders if order.batch == batch])
                self._interfere()

    def records(self) -> Mapping[JobId, Job]:
        """Return the records of all jobs that the queue has accepted."""
        return self._store.jobs.get_many([order.id for order in self.accepted])

    def _enqueue(self, orders: Sequence[Order]) -> None:
        self._say(f"{len(orders)} jobs more")
        unique = [order for order in orders if order.is_unique]
        for some in ([order for order in orders if not order.is_unique], *([order] for order in unique)):
            self._add(some)
        for order in unique:
            with contextlib.suppress(StoreUnreachableError):
                self._try_twin(order)
        at_once = [order.id for order in orders if order.interference is Interference.CANCEL_PENDING]
        self._insist(lambda: self._cancel(at_once))

    def _add(self, orders: Sequence[Order]) -> None:
        """Put jobs into the queue; where the answer is lost, ask again until it is clear."""
        jobs = [order.job(self._journal) for order in orders]
        while jobs:
            try:
                rooms(self._store).queue.add(jobs, is_unique=orders[0].is_unique)
                break
            except ConflictError:
                # The answer to an earlier try was lost.
                break
            except StoreUnreachableError:
                time.sleep(LOOK_EVERY_S)
        self.accepted += orders

    def _try_twin(self, order: Order) -> None:
        """Offer the same once more under another id: it must be refused."""
        twin = replace(order.job(self._journal), id=JobId(f"{order.id}-twin"))
        try:
            rooms(self._store).queue.add([twin], is_unique=True)
        except ConflictError:
            return
        self.broken.append(f"a second {order.id} was accepted while the first was not final")

    def _cancel(self, job_ids: Sequence[JobId]) -> None:
        if job_ids:
            before = rooms(self._store).queue.cancel(job_ids, grace_s=GRACE_S)
            for job_id, state in before.items():
                self.cancels.setdefault(job_id, state)

    def _insist(self, work: Callable[[], object]) -> None:
        while not self.stopping.is_set():
            try:
                work()
                return
            except StoreUnreachableError:
                time.sleep(LOOK_EVERY_S)

    def _interfere(self) -> None:
        wanted = {Interference.CANCEL_RUNNING, Interference.PAUSE}
        open_orders = {
            order.id: order for order in self.accepted if order.interference in wanted and order.id not in self._settled
        }
        now = time.monotonic()
        for job_id, job in self._store.jobs.get_many(list(open_orders)).items():
            if job.state.is_final:
                self._settled.add(job_id)
            elif job.state.is_active and job.started_at is not None:
                begun_at = self._begun.setdefault(job_id, now)
                if now - begun_at >= open_orders[job_id].after_s:
                    self._interfere_with(open_orders[job_id], now)

    def _interfere_with(self, order: Order, now: float) -> None:
        queue = rooms(self._store).queue
        if order.interference is Interference.CANCEL_RUNNING:
            self._cancel([order.id])
            self._settled.add(order.id)
        elif order.id not in self._paused:
            queue.pause(order.id, is_paused=True)
            self._paused[order.id] = now
        elif now - self._paused[order.id] >= PAUSED_S:
            # Its node may be lost at this moment: only an active job hears it.
            before = queue.pause(order.id, is_paused=False)
            if before is not None and before.is_active:
                self._settled.add(order.id)


def probe(store: Store, nodes: Mapping[NodeName, int], journal: Path, *, prefix: str) -> list[Job]:
    """Put one job for each slot of each node into the queue, for that node alone; return them."""
    orders = [
        (node, Order(JobId(f"{prefix}-{node}-{slot}"), PLAIN, run_s=1.0, attempts=1, batch=0))
        for node, slots in nodes.items()
        for slot in range(slots)
    ]
    jobs = [replace(order.job(str(journal)), on=(node,)) for node, order in orders]
    rooms(store).queue.add(jobs)
    return jobs
