"""The machine a node runs on: its clocks, chance, timers, threads and processes, all in one place.

Every decision of a node asks here, so that it can run on another machine: one whose time, network and processes are
simulated (`tests/simulation`). On the reactor's thread unless said otherwise.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer  # type: ignore[import-untyped]

from toolkit.node.load import Load, measure
from toolkit.runs import process

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred
    from twisted.internet.protocol import ProcessProtocol
    from twisted.python.failure import Failure

    from toolkit.runs.folder import RunFolder

T = TypeVar("T")
_log = Logger()

THREADS = 8
"""How many calls of one pool may wait for Redis at a time."""

LOOK_EVERY_S = 0.5
"""How often it is looked whether a process lives, where the system does not tell of its end."""


def reactor() -> Any:
    """Return Scrapyd's reactor, which must not be asked for at import: that would install one."""
    from twisted.internet import reactor as installed  # noqa: PLC0415 - see above

    return installed


def later(seconds: float, work: Callable[..., object], *args: object) -> Any:
    """Call this on the reactor's thread after so many seconds; the answer can be cancelled."""
    return reactor().callLater(seconds, work, *args)


class Machine:
    """The real machine. `processes` has the functions of `toolkit.runs.process`."""

    processes: Any = process

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPool] = {}

    @property
    def reactor(self) -> Any:
        """Scrapyd's reactor."""
        return reactor()

    def time(self) -> float:
        """Return the seconds since the epoch, by a clock that somebody may set."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes back."""
        return time.monotonic()

    def chance(self) -> float:
        """Return a random number from 0 to 1."""
        return random.random()  # noqa: S311 - spreads load, keeps no secret

    def identifier(self) -> str:
        """Return 16 random hexadecimal digits."""
        return secrets.token_hex(8)

    def measure(self, folder: Path) -> Load:
        """Return what is left of processors, memory, and the disk that holds the folder."""
        return measure(folder)

    def keep_time(self) -> None:
        """Let the reactor go by a clock that nobody sets; Twisted's own is the one on the wall.

        Set back, that one would stop every timer: the heartbeats, and with them all leases of this node.
        """
        reactor = self.reactor
        begin_s = reactor.seconds() - self.monotonic()
        reactor.seconds = lambda: begin_s + self.monotonic()

    def before_stop(self, leave: Callable[[], Deferred[None]]) -> None:
        """Let Scrapyd's stop at a first SIGTERM or SIGINT begin with `leave`, and go on when that fires.

        At a second signal it goes on at once. Until then nothing is stopped: leases are renewed, and HTTP is answered.
        """
        self.reactor.callWhenRunning(self._hold_signals, leave)

    def _hold_signals(self, leave: Callable[[], Deferred[None]]) -> None:
        # Twisted's own; a signal that is ignored stays so.
        found = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        handlers = {number: handler for number, handler in found.items() if callable(handler)}

        def heard(number: int, _: object) -> None:
            for each, handler in handlers.items():
                signal.signal(each, handler)
            stop = handlers[signal.Signals(number)]
            self.soon(lambda: maybeDeferred(leave).addErrback(_note).addBoth(lambda _: stop(number, None)))

        for number in handlers:
            signal.signal(number, heard)

    def later(self, seconds: float, work: Callable[..., object], *args: object) -> Any:
        """Call this after so many seconds; the answer can be cancelled."""
        return self.reactor.callLater(seconds, work, *args)

    def soon(self, work: Callable[..., object], *args: object) -> None:
        """Call this on the reactor's thread soon; from any thread."""
        self.reactor.callFromThread(work, *args)

    def in_thread(self, pool: str, work: Callable[[], T]) -> Deferred[T]:
        """Do this in one of a pool's threads; what comes of it comes back on the reactor's thread."""
        if pool not in self._pools:
            self._pools[pool] = started_threads(pool)
        return deferToThreadPool(self.reactor, self._pools[pool], work)

    def start_thread(self, name: str, work: Callable[[], object]) -> None:
        """Do this in a thread of its own, which does not keep the process from ending."""
        threading.Thread(target=work, name=name, daemon=True).start()

    def sleep(self, seconds: float) -> None:
        """Wait, in a thread that `start_thread` began."""
        time.sleep(seconds)

    def spawn(
        self, protocol: ProcessProtocol, *, args: list[str], env: dict[str, str], files: tuple[int, int, int]
    ) -> None:
        """Start a process with these as its standard input, output and error.

        Raises:
            OSError: the system refuses.
            ValueError: the command line or the environment holds what no process takes.

        """
        self.reactor.spawnProcess(protocol, args[0], args=args, env=env, childFDs=dict(enumerate(files)))

    def watch_exit(self, pid: int, start: str, on_exit: Callable[[], None]) -> None:
        """Call `on_exit` once, never at once, when that very process, which need not be our child, has ended."""
        main = self.reactor
        descriptor = process.watch(pid, start)
        if descriptor is not None:
            main.addReader(_Ended(main, descriptor, on_exit))
            return

        def look() -> None:
            if process.is_alive(pid, start):
                self.later(LOOK_EVERY_S, look)
            else:
                on_exit()

        self.later(0, look)

    def touch(self, folder: RunFolder) -> None:
        """Let a run's process know that its node lives.

        Raises:
            OSError: the folder is gone.

        """
        folder.touch_alive()


def _note(failure: Failure) -> None:
    _log.failure("The spiders could not be ended in order", failure=failure)


class _Threads(ThreadPool):
    """Threads that do not keep a process from ending while Redis lets them wait."""

    threadFactory = partial(threading.Thread, daemon=True)  # type: ignore[assignment]  # noqa: N815 - Twisted's name


def started_threads(name: str, *, most: int = THREADS) -> ThreadPool:
    """Return a pool of so many threads, which do not keep the process from ending."""
    pool = _Threads(minthreads=0, maxthreads=most, name=name)
    pool.start()
    return pool


@implementer(IReadDescriptor)
class _Ended:
    """A process' descriptor, which becomes readable when the process ends."""

    def __init__(self, main: Any, descriptor: int, on_exit: Callable[[], None]) -> None:
        self._main = main
        self._descriptor = descriptor
        self._on_exit = on_exit

    def fileno(self) -> int:
        return self._descriptor

    def doRead(self) -> None:  # noqa: N802 - Twisted's name
        self._main.removeReader(self)
        os.close(self._descriptor)
        self._on_exit()

    def connectionLost(self, reason: object) -> None:  # noqa: N802 - Twisted's name
        """Nothing to give back: the reactor is ending, and the process goes on."""

    def logPrefix(self) -> str:  # noqa: N802 - Twisted's name
        return "process"
