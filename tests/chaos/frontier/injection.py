"""Does the faults of a plan to real workers and their Redis, some while others last, and mends each after its time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from chaos.frontier.checking import Hit
from chaos.frontier.plan import ROLLBACKS, Fault, FaultKind
from chaos.frontier.workers import Slot, Workers
from support.plugin_node import full
from support.redis_server import RedisServer

STOPS_WITHIN_S = 30.0
MAX_ROLLBACK_S = 3.0
"""Redis comes back at most so much older: less than a worker's journal reaches back."""
_WRITES = (b"EVAL", b"ZADD", b"MULTI")
Say = Callable[[str], None]
_ENDINGS = {
    FaultKind.WORKER_DIES: (signal.SIGKILL,),
    FaultKind.WORKER_ENDED: (signal.SIGTERM,),
    FaultKind.WORKER_ENDED_TWICE: (signal.SIGTERM, signal.SIGTERM),
}
_LENGTHS = {
    FaultKind.WORKER_FREEZES: (1.2, 2.5),
    FaultKind.SHORT_FREEZE: (0.1, 0.7),
    FaultKind.LINK_CUT: (0.1, 2.0),
    FaultKind.NEAR_CUT: (0.7, 1.3),
    FaultKind.LINKS_CUT: (0.1, 1.6),
    FaultKind.ANSWERS_LOST: (0.1, 0.6),
    FaultKind.REDIS_STOPS: (0.3, 2.0),
    FaultKind.REDIS_FREEZES: (0.1, 1.5),
    FaultKind.REDIS_FULL: (0.3, 2.0),
    FaultKind.REDIS_AWAY_OLDER: (1.1, 1.8),
}
"""How long they last, in leases."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What the faults are done to; `may_roll_back` tells whether there is a worker that could mend a rollback."""

    workers: Workers
    redis: RedisServer
    lease_s: float
    may_roll_back: Callable[[], bool]


class Injector(threading.Thread):
    """Injects faults until `stop`; `hits` tells what was done, and `broken` what a process did wrong at it."""

    def __init__(self, scene: Scene, plan: Iterator[Fault], *, say: Say) -> None:
        super().__init__(name="injector", daemon=True)
        self.hits: list[Hit] = []
        self.broken: list[str] = []
        self.redis_lock = threading.Lock()
        """Held while something is done to Redis."""
        self._scene = scene
        self._plan = plan
        self._say = say
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="fault")
        self._under_way: list[Future[None]] = []
        self._done = threading.Event()

    def run(self) -> None:
        """Do one fault after the other; those that last are mended by themselves."""
        for fault in self._plan:
            if self._done.wait(fault.wait_s):
                return
            self._begin(fault)

    def stop(self) -> None:
        """Inject no more, mend everything that is broken now, and return when that is done."""
        if self._done.is_set():
            return
        self._done.set()
        self.join()
        for each in self._under_way:
            each.result(120)
        self._pool.shutdown()

    def _begin(self, fault: Fault) -> None:
        match fault.kind:
            case kind if kind.name.startswith("REDIS_"):
                if not self.redis_lock.acquire(blocking=False):
                    return
                self._submit(lambda: self._hit_redis(fault))
            case FaultKind.LINKS_CUT:
                self._submit(lambda: self._cut(fault, self._scene.workers.slots))
            case _:
                slot = self._scene.workers.take(fault.which)
                if slot is not None:
                    self._submit(lambda: self._hit_slot(fault, slot))

    def _hit_slot(self, fault: Fault, slot: Slot) -> None:
        try:
            match fault.kind:
                case FaultKind.WORKER_FREEZES | FaultKind.SHORT_FREEZE:
                    self._freeze(fault, slot)
                case FaultKind.LINK_CUT | FaultKind.NEAR_CUT | FaultKind.ANSWERS_LOST:
                    self._cut(fault, [slot])
                case _:
                    self._end(fault, slot)
        finally:
            slot.is_sound = True

    def _end(self, fault: Fault, slot: Slot) -> None:
        begin, worker = time.time(), slot.worker
        self._say(f"{fault.kind}: {worker.name}")
        for number in _ENDINGS[fault.kind]:
            worker.signal(number)
            # Time for the first to be heard; the second is to find it stopping.
            if worker.wait(0.1 + 0.4 * fault.length):
                break
        if not worker.wait(STOPS_WITHIN_S):
            self.broken.append(f"{worker.name} did not end within {STOPS_WITHIN_S:g} s of {fault.kind}")
        worker.kill()
        slot.start()
        self.hits.append(Hit(fault.kind, begin, time.time(), (worker.name,)))

    def _freeze(self, fault: Fault, slot: Slot) -> None:
        begin, worker = time.time(), slot.worker
        worker.signal(signal.SIGSTOP)
        self._last(fault, worker.name)
        worker.signal(signal.SIGCONT)
        self.hits.append(Hit(fault.kind, begin, time.time(), (worker.name,)))

    def _cut(self, fault: Fault, slots: list[Slot]) -> None:
        begin, links = time.time(), self._scene.workers.links
        names = tuple(slot.worker.name for slot in slots)
        for slot in slots:
            if fault.kind is FaultKind.ANSWERS_LOST:
                links.lose_answers(slot.link, to=_WRITES)
            else:
                links.cut(slot.link, is_silent=fault.is_silent)
        how = " silently" if fault.is_silent and fault.kind is not FaultKind.ANSWERS_LOST else ""
        self._last(fault, f"{', '.join(names)}{how}")
        for slot in slots:
            links.heal(slot.link)
        names += tuple(slot.worker.name for slot in slots if slot.worker.name not in names)
        self.hits.append(Hit(fault.kind, begin, time.time(), names))

    def _hit_redis(self, fault: Fault) -> None:
        try:
            self._take_redis(fault)
        finally:
            self.redis_lock.release()

    def _take_redis(self, fault: Fault) -> None:
        redis = self._scene.redis
        since: float | None = None
        if fault.kind in ROLLBACKS:
            since = time.time()
            redis.keep()
            self._done.wait(MAX_ROLLBACK_S * (0.1 + 0.9 * fault.length))
            if not self._scene.may_roll_back():
                return
        begin = time.time()
        if fault.kind is FaultKind.REDIS_FREEZES:
            redis.signal(signal.SIGSTOP)
            self._last(fault, "")
            redis.signal(signal.SIGCONT)
        elif fault.kind is FaultKind.REDIS_FULL:
            with full(redis):
                self._last(fault, "")
        else:
            redis.kill()
            self._last(fault, f"{begin - since:.1f} s" if since else "")
            if since is None:
                redis.start()
            else:
                redis.start_older()
        self.hits.append(Hit(fault.kind, begin, time.time(), rolled_back_to=since))

    def _last(self, fault: Fault, what: str) -> None:
        low, high = _LENGTHS.get(fault.kind, (0.0, 0.0))
        seconds = (low + (high - low) * fault.length) * self._scene.lease_s
        self._say(f"{fault.kind}: {what} for {seconds:.1f} s")
        self._done.wait(seconds)

    def _submit(self, work: Callable[[], None]) -> None:
        self._under_way.append(self._pool.submit(work))
