"""The machines of a simulation: their clocks, their processes, and what a node or a worker asks of them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any

from simulation.server import Link
from simulation.world import Owner, Timer, Waiting, World
from twisted.internet import error
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from toolkit.node.load import Load
from toolkit.node.machine import Machine
from toolkit.runs.folder import RUN_VARIABLE, RunFolder

ENDS = {signal.SIGKILL: "SIGKILL", signal.SIGTERM: "SIGTERM"}


class Host(Owner):
    """A machine with a clock that can step, a link to Redis, and processes."""

    def __init__(self, world: World, name: str, link: Link) -> None:
        super().__init__(name)
        self.world = world
        self.link = link
        self.offset_s = 0.0
        self.processes: dict[int, Process] = {}
        self.touched: dict[str, float] = {}
        self.chance = world.random(name)
        self._pids = 100

    def wall_clock(self) -> float:
        """Return the time that the machine believes it is."""
        return self.world.now + self.offset_s

    def pid(self) -> int:
        """Return a new process id."""
        self._pids += 1
        return self._pids

    # The functions of `toolkit.runs.process`.

    def start_of(self, pid: int) -> str | None:
        process = self.processes.get(pid)
        return process.start if process is not None and not process.is_gone else None

    def age_of(self, start: str) -> float | None:
        return self.world.now - self.processes[int(start.partition(":")[2])].began_at

    def is_alive(self, pid: int, start: str) -> bool:
        return self.start_of(pid) == start

    def signal_one(self, pid: int, start: str, number: int) -> bool:
        if not self.is_alive(pid, start):
            return False
        self.processes[pid].receive(number)
        return True

    signal_group = signal_one

    def group_members_left(self, pid: int, start: str) -> tuple[int, ...]:
        return (pid,) if self.is_alive(pid, start) else ()


class Process(Owner):
    """One process of a host. `program` begins with it, is told of signals, and ends it by `exit`."""

    def __init__(self, host: Host, program: Any) -> None:
        self.host = host
        self.pid = host.pid()
        super().__init__(f"{host.name}/{self.pid}", host)
        self.start = f"boot:{self.pid}"
        self.began_at = host.world.now
        self.program = program
        self._watchers: list[tuple[Owner, Callable[[], None]]] = []
        host.processes[self.pid] = self

    def receive(self, number: int) -> None:
        """Get a signal."""
        if number == signal.SIGKILL:
            self.exit(signal=signal.SIGKILL)
        else:
            self.host.world.after(0.0, self, lambda: self.program.signalled(number))

    def exit(self, code: int = 0, *, signal: signal.Signals | None = None) -> None:
        """End; whoever watches is told."""
        if self.is_gone:
            return
        self.is_gone = True
        self.code, self.signal = code, signal
        self.program.ended(self)
        for owner, tell in self._watchers:
            self.host.world.after(0.001, owner, tell)

    def watch(self, owner: Owner, tell: Callable[[], None]) -> None:
        """Tell of its end."""
        if self.is_gone:
            self.host.world.after(0.0, owner, tell)
        else:
            self._watchers.append((owner, tell))


class Reactor:
    """The reactor of one process: as Twisted's, it goes by the clock on the wall unless it is told of another."""

    def __init__(self, host: Host, owner: Owner) -> None:
        self._host, self._owner = host, owner
        self.seconds: Callable[[], float] = host.wall_clock

    def callLater(self, delay_s: float, call: Callable[..., object], *args: object, **more: object) -> Timer:  # noqa: N802
        timer = Timer(self.seconds() + max(0.0, delay_s), lambda: call(*args, **more))
        self._plan(timer)
        return timer

    def callFromThread(self, call: Callable[..., object], *args: object) -> None:  # noqa: N802 - Twisted's name
        self._host.world.after(0.0, self._owner, lambda: call(*args))

    def _plan(self, timer: Timer) -> None:
        # Looked at no later than in a second, since somebody may set the clock meanwhile.
        wait_s = min(max(0.0, timer.due - self.seconds()), 1.0)
        self._host.world.after(wait_s, self._owner, lambda: self._look(timer))

    def _look(self, timer: Timer) -> None:
        if timer.call is None:
            return
        if timer.due > self.seconds() + 1e-6:
            self._plan(timer)
            return
        call, timer.call = timer.call, None
        call()


class NodeMachine(Machine):
    """What one Scrapyd process sees of its host; `spawned` makes a program of what is to be started."""

    def __init__(self, host: Host, owner: Owner, spawned: Callable[[Process, RunFolder], Any]) -> None:
        super().__init__()
        self.processes = host
        self._host, self._owner, self._spawned = host, owner, spawned
        self._reactor = Reactor(host, owner)

    @property
    def reactor(self) -> Any:
        return self._reactor

    def time(self) -> float:
        return self._host.wall_clock()

    def monotonic(self) -> float:
        return self._host.world.now

    def chance(self) -> float:
        return self._host.chance.random()

    def identifier(self) -> str:
        return f"{self._host.chance.getrandbits(64):016x}"

    def measure(self, folder: Path) -> Load:
        return Load()

    def in_thread(self, pool: str, work: Callable[[], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()

        def perform() -> None:
            try:
                result = work()
            except Exception:  # noqa: BLE001 - as a thread pool does
                self.soon(done.errback, Failure())  # type: ignore[no-untyped-call]
            else:
                self.soon(done.callback, result)

        self._host.world.task(self._owner, perform)
        return done

    def start_thread(self, name: str, work: Callable[[], object]) -> None:
        self._host.world.task(self._owner, work)

    def sleep(self, seconds: float) -> None:
        self._host.world.sleep(seconds)

    def spawn(self, protocol: Any, *, args: list[str], env: dict[str, str], files: tuple[int, int, int]) -> None:
        process = Process(self._host, None)
        process.program = self._spawned(process, RunFolder(Path(env[RUN_VARIABLE])))
        protocol.makeConnection(SimpleNamespace(pid=process.pid))
        process.watch(self._owner, lambda: protocol.processExited(_failure(process)))
        process.program.begin()

    def watch_exit(self, pid: int, start: str, on_exit: Callable[[], None]) -> None:
        process = self._host.processes.get(pid)
        if process is None or process.start != start:
            self.later(0, on_exit)
        else:
            process.watch(self._owner, on_exit)

    def touch(self, folder: RunFolder) -> None:
        self._host.touched[str(folder.path)] = self._host.world.now


class WorkerClock:
    """What one spider's process sees of its host: the time, and threads beside Scrapy's."""

    def __init__(self, process: Process) -> None:
        self._world, self._process = process.host.world, process
        self._chance = process.host.chance

    def now(self) -> float:
        return self._world.now

    def later(self, delay_s: float, call: Callable[..., object], *args: object) -> Timer:
        return self._world.after(delay_s, self._process, lambda: call(*args))

    def soon(self, call: Callable[..., object], *args: object) -> None:
        self._world.after(0.0, self._process, lambda: call(*args))

    def chance(self) -> float:
        return self._chance.random()

    def start_thread(self, name: str, work: Callable[[], object]) -> None:
        self._world.task(self._process, work)

    def orders(self) -> Orders:
        return Orders(self._world)


class Orders:
    """A queue through which a task is told what to do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._orders: list[Any] = []
        self._waiting: Waiting | None = None

    def put(self, order: Any, /) -> None:
        self._orders.append(order)
        if self._waiting is not None:
            self._waiting.set()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 - SimpleQueue's
        if not self._orders:
            self._waiting = Waiting()
            self._world.wait(self._waiting, 1e9 if timeout is None else timeout)
            self._waiting = None
        if not self._orders:
            raise Empty
        return self._orders.pop(0)


def _failure(process: Process) -> Failure:
    reason: Any = error.ProcessDone(None) if process.code == 0 else error.ProcessTerminated(process.code)  # type: ignore[no-untyped-call]
    if process.signal is not None:
        reason = error.ProcessTerminated(None, int(process.signal), None)  # type: ignore[no-untyped-call]
    return Failure(reason)  # type: ignore[no-untyped-call]
