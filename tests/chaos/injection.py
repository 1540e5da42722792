"""Does the faults of a plan to real machines, some while others last, and mends each after its time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
from chaos.checking import REDIS, Hit
from chaos.journal import read_journal
from chaos.machines import Machine, Machines
from chaos.plan import Fault, FaultKind, pick
from chaos.watching import Span, Watcher
from support.plugin_node import full

MIN_SOUND = 2
"""So many nodes are always left alone, so that the others' jobs have somewhere to go."""

MAX_ROLLBACK_S = 2.0
"""Redis comes back at most so much older."""
_LENGTHS = {
    FaultKind.MACHINE_DIES: (0.3, 2.5),
    FaultKind.MACHINE_FREEZES: (0.3, 2.0),
    FaultKind.SHORT_CUT: (0.1, 0.5),
    FaultKind.NEAR_CUT: (0.7, 1.3),
    FaultKind.LONG_CUT: (1.3, 2.5),
    FaultKind.NODE_CLOSES: (0.0, 2.0),
    FaultKind.REDIS_FULL: (0.3, 1.5),
    FaultKind.REDIS_AWAY_OLDER: (1.1, 1.8),
}
"""How long they last, in leases."""
_ON_REDIS = frozenset(kind for kind in FaultKind if kind.name.startswith("REDIS_"))
_IS_NOT_FOR = {FaultKind.SCRAPYD_RESTARTS: True, FaultKind.NODE_CLOSES: False}
"""Whether it cannot be done to a container, or only to one."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """How long things last: the lease, and how long Redis is away when it is stopped for longer."""

    lease_s: float
    redis_away_s: float


class Injector(threading.Thread):
    """Injects faults until `stop`; `hits` tells what was done, and `broken` what a machine did wrong at it."""

    def __init__(
        self, machines: Machines, watcher: Watcher, plan: Iterator[Fault], *, terms: Terms, journal: Path, say: Say
    ) -> None:
        super().__init__(name="injector", daemon=True)
        self.hits: list[Hit] = []
        self.broken: list[str] = []
        self.forgetting = threading.Lock()
        """Held while Redis will forget what is written."""
        self._machines = machines
        self._watcher = watcher
        self._plan = plan
        self._terms = terms
        self._journal = journal
        self._say = say
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="fault")
        self._under_way: list[Future[None]] = []
        self._is_redis_sound = True
        self._done = threading.Event()

    def run(self) -> None:
        """Do one fault after the other; those that last are mended by themselves."""
        for fault in self._plan:
            if self._done.wait(fault.wait_s):
                return
            self._begin(fault)

    def stop(self) -> None:
        """Inject no more, mend everything that is broken now, and return when all is up."""
        self._done.set()
        self.join()
        for each in self._under_way:
            with contextlib.suppress(AssertionError):
                each.result(120)
        self._pool.shutdown()

    def _begin(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.SPIDER_DIES:
                self._kill_spider(fault)
            case FaultKind.NODE_ADDED:
                self._submit(self._add_node)
            case kind if kind in _ON_REDIS:
                if self._is_redis_sound:
                    self._is_redis_sound = False
                    self._submit(lambda: self._take_redis(fault))
            case _:
                self._hit_node(fault)

    def _hit_node(self, fault: Fault) -> None:
        acts: dict[FaultKind, Callable[[Machine, Fault], None]] = {
            FaultKind.MACHINE_DIES: self._kill_machine,
            FaultKind.SCRAPYD_DIES: self._kill_scrapyd,
            FaultKind.SCRAPYD_RESTARTS: self._restart_scrapyd,
            FaultKind.MACHINE_FREEZES: self._freeze_machine,
            FaultKind.SHORT_CUT: self._cut_link,
            FaultKind.NEAR_CUT: self._cut_link,
            FaultKind.LONG_CUT: self._cut_link,
            FaultKind.NODE_CLOSES: self._close_node,
        }
        sound = {machine.name: machine for machine in self._machines.all if machine.is_sound}
        fit = [name for name, machine in sound.items() if machine.is_container is not _IS_NOT_FOR.get(fault.kind)]
        name = pick(fault, sorted(fit)) if len(sound) > MIN_SOUND else None
        if name is None:
            self._say(f"{fault.kind}: left out, too much is broken already")
            return
        machine, act = sound[name], acts[fault.kind]
        machine.is_sound = False
        self._submit(lambda: self._do(act, machine, fault))

    def _do(self, act: Callable[[Machine, Fault], None], machine: Machine, fault: Fault) -> None:
        act(machine, fault)
        machine.is_sound = True

    def _kill_machine(self, machine: Machine, fault: Fault) -> None:
        away_s = self._length_s(fault)
        held = tuple(each for each in self._watcher.tenures_now() if each.node == machine.name)
        begin = time.time()
        machine.die()
        self._say(f"{fault.kind}: {machine.name} with {len(held)} jobs, for {away_s:.1f} s")
        self._done.wait(away_s)
        self._start_again(machine.name, machine.start)
        self.hits.append(Hit(fault.kind, machine.name, Span(begin, time.time()), jobs=held))

    def _kill_scrapyd(self, machine: Machine, fault: Fault) -> None:
        # Half of them are started again at once, as a service manager does.
        away_s = max(0.0, fault.length - 0.5) * 3.2 * self._terms.lease_s
        begin = time.time()
        machine.lose_scrapyd()
        self._say(f"{fault.kind}: {machine.name}, for {away_s:.1f} s, its spiders go on")
        self._done.wait(away_s)
        self._start_again(machine.name, machine.start)
        self.hits.append(Hit(fault.kind, machine.name, Span(begin, time.time())))

    def _restart_scrapyd(self, machine: Machine, fault: Fault) -> None:
        begin = time.time()
        self._say(f"{fault.kind}: {machine.name}, its spiders go on")
        if not machine.stop_scrapyd():
            self.broken.append(f"Scrapyd on {machine.name} did not end by SIGTERM")
        self._start_again(machine.name, machine.start)
        self.hits.append(Hit(fault.kind, machine.name, Span(begin, time.time())))

    def _freeze_machine(self, machine: Machine, fault: Fault) -> None:
        away_s = self._length_s(fault)
        begin = time.time()
        machine.freeze()
        self._say(f"{fault.kind}: {machine.name}, for {away_s:.1f} s")
        self._done.wait(away_s)
        machine.thaw()
        self.hits.append(Hit(fault.kind, machine.name, Span(begin, time.time())))

    def _cut_link(self, machine: Machine, fault: Fault) -> None:
        away_s = self._length_s(fault)
        begin = time.time()
        self._machines.cut(machine, is_silent=fault.is_silent)
        how = "silent" if fault.is_silent else "refused"
        self._say(f"{fault.kind}: {machine.name} and Redis, {how} for {away_s:.1f} s")
        self._done.wait(away_s)
        self._machines.heal(machine)
        self.hits.append(Hit(fault.kind, machine.name, Span(begin, time.time())))

    def _kill_spider(self, fault: Fault) -> None:
        tokens = {each.token for each in self._watcher.tenures_now()}
        runs = {str(run.pid): run for run in read_journal(self._journal) if run.token in tokens and run.left()}
        pid = pick(fault, sorted(runs))
        if pid is None:
            self._say(f"{fault.kind}: left out, none is running")
            return
        begin = time.time()
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(int(pid)).kill()
        self._say(f"{fault.kind}: {runs[pid].job}, process {pid}")
        self.hits.append(Hit(fault.kind, runs[pid].job, Span(begin, begin), pids=(int(pid),)))

    def _close_node(self, machine: Machine, fault: Fault) -> None:
        away_s = self._length_s(fault)
        begin = time.time()
        if not machine.stop_scrapyd():
            machine.die()
        left = len(machine.processes())
        if left:
            self.broken.append(f"{left} processes outlived Scrapyd on {machine.name}, which was to close them")
            machine.die()
        self._say(f"{fault.kind}: {machine.name}, for {away_s:.1f} s")
        self._done.wait(away_s)
        self._start_again(machine.name, machine.start)
        self.hits.append(Hit(fault.kind, machine.name, Span(begin, time.time())))

    def _take_redis(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.REDIS_FULL:
                self._fill_redis(fault)
            case FaultKind.REDIS_PROMOTED:
                with self.forgetting:
                    self._promote_replica(fault)
            case FaultKind.REDIS_OLDER | FaultKind.REDIS_AWAY_OLDER:
                with self.forgetting:
                    self._restart_redis(fault, since=self._begin_to_forget(fault))
            case _:
                self._restart_redis(fault)
        self._is_redis_sound = True

    def _begin_to_forget(self, fault: Fault) -> float:
        since = time.time()
        self._machines.redis.keep()
        self._done.wait(self._forgets_s(fault))
        return since

    def _restart_redis(self, fault: Fault, *, since: float | None = None) -> None:
        redis = self._machines.redis
        away_s = self._terms.redis_away_s if fault.kind is FaultKind.REDIS_STOPS else self._length_s(fault)
        begin = time.time()
        redis.kill()
        self._say(f"{fault.kind}: for {away_s:.1f} s" + (f", forgets {begin - since:.1f} s" if since else ""))
        self._done.wait(away_s)
        self._start_again("Redis", redis.start_older if since else redis.start)
        self.hits.append(Hit(fault.kind, REDIS, Span(begin, time.time()), rolled_back_to=since))

    def _promote_replica(self, fault: Fault) -> None:
        """Let the former server go on for a while: what it takes then is lost, as in a planned failover."""
        promoted = self._machines.promoted()
        since = time.time()
        self._done.wait(self._forgets_s(fault))
        begin = time.time()
        self._machines.hand_over(promoted)
        self._say(f"{fault.kind}: without the last {begin - since:.1f} s")
        self.hits.append(Hit(fault.kind, REDIS, Span(begin, time.time()), rolled_back_to=since))

    def _fill_redis(self, fault: Fault) -> None:
        begin = time.time()
        self._say(f"{fault.kind}: for {self._length_s(fault):.1f} s")
        with full(self._machines.redis):
            self._done.wait(self._length_s(fault))
        self.hits.append(Hit(fault.kind, REDIS, Span(begin, time.time())))

    def _length_s(self, fault: Fault) -> float:
        low, high = _LENGTHS.get(fault.kind, (0.0, 0.0))
        return (low + (high - low) * fault.length) * self._terms.lease_s

    def _forgets_s(self, fault: Fault) -> float:
        return MAX_ROLLBACK_S * (0.1 + 0.9 * fault.which)

    def _add_node(self) -> None:
        begin = time.time()
        name = self._machines.add().name
        self._say(f"{FaultKind.NODE_ADDED}: {name}")
        self.hits.append(Hit(FaultKind.NODE_ADDED, name, Span(begin, time.time())))

    def _start_again(self, what: str, start: Callable[[], None]) -> None:
        try:
            start()
        except AssertionError as error:
            self._say(f"{what} did not come up again")
            self.broken.append(f"{what} did not come up again: {error}")
            raise

    def _submit(self, work: Callable[[], None]) -> None:
        self._under_way.append(self._pool.submit(work))
