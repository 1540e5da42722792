"""One run's life in Scrapyd: a process that was spawned or adopted, the signals it gets, and the moment it is gone.

Everything here happens on the reactor's thread. Scrapyd's pages and services read the attributes that stock Scrapyd's
process objects have.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from twisted.internet import error
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger

from toolkit.model.queue import Held, Wish
from toolkit.node.claims import Claim
from toolkit.node.endings import Cause
from toolkit.node.machine import Machine
from toolkit.node.stopping import STALE_GRACE_S, TIMEOUT_GRACE_S, Step, Stopping
from toolkit.runs.control import control_of, read_control
from toolkit.runs.folder import CONTROL, STOP, RunFolder
from toolkit.runs.report import Exit

if TYPE_CHECKING:
    from twisted.python.failure import Failure

GROUP_GONE_WITHIN_S = 5.0
_GROUP_PAUSE_S = 0.05
_log = Logger()


class Run:
    """A process that runs a claimed job. `on_gone` is called once, when it and all of its group are gone.

    `exit` is then what its parent saw; `None` where we were not its parent. `was_told` fires when the queue has heard
    of the start, or could not be told.
    """

    def __init__(
        self,
        claim: Claim,
        folder: RunFolder,
        machine: Machine,
        *,
        on_gone: Callable[[Run], None],
    ) -> None:
        self.claim = claim
        self.folder = folder
        self.machine = machine
        self.args: list[str] = []
        self.env: dict[str, str] = {}
        self.pid: int | None = None
        self.start_time = datetime.fromtimestamp(claim.begun_at)  # noqa: DTZ006 - Scrapyd's pages want local time
        self.end_time: datetime | None = None
        self.exit: Exit | None = None
        self.is_adopted = False
        self.is_start_known = False
        self.was_told: Deferred[None] = succeed(None)
        self.stopped_for: Cause | None = None
        self._start = ""
        self._on_gone = on_gone
        self._stopping: Stopping | None = None
        self._done: frozenset[Step] = frozenset()
        self._timers: dict[str, Any] = {}
        self._wish = Wish()
        self._is_gone = False

    @property
    def project(self) -> str:
        """The project's name, as Scrapyd's pages ask for it."""
        return self.claim.project

    @property
    def spider(self) -> str:
        """The spider's name, as Scrapyd's pages ask for it."""
        return self.claim.spider

    @property
    def job(self) -> str:
        """The job's id, as Scrapyd's pages ask for it."""
        return self.claim.job_id

    @property
    def transport(self) -> Run:
        """What Scrapyd's own `cancel.json` sends a signal through."""
        return self

    def signalProcess(self, which: str | int) -> None:  # noqa: N802 - Twisted's name
        """Send a signal to the process alone (`INT`, `KILL`, a number).

        Raises:
            ProcessExitedAlready: it is gone.

        """
        number = which if isinstance(which, int) else getattr(signal, f"SIG{which}")
        if self._is_gone or self.pid is None or not self.machine.processes.is_alive(self.pid, self._start):
            raise error.ProcessExitedAlready
        self.machine.processes.signal_one(self.pid, self._start, number)

    def spawned(self, pid: int) -> None:
        """Take note of our new child; from here on its time limit counts."""
        self._begin(pid, self.machine.processes.start_of(pid) or "")

    def adopt(self, pid: int, start: str, *, stopped_for: Cause | None) -> None:
        """Watch over a process that an earlier Scrapyd has started, and finish what that one began."""
        self.is_adopted = True
        # What the process follows now: a wish that was taken back while nobody was here is a change.
        self._wish = read_control(self.folder.read(CONTROL))
        self._begin(pid, start)
        self.machine.watch_exit(pid, start, self._leader_gone)
        if stopped_for is not None:
            self.stop(stopped_for)

    def left(self, reason: Failure) -> None:
        """Take note of how our child ended."""
        value = reason.value
        if isinstance(value, error.ProcessTerminated) and value.signal is not None:
            self.exit = Exit(signal=_signal_name(value.signal))
        else:
            self.exit = Exit(exit_code=getattr(value, "exitCode", None) or 0)
        self._leader_gone()

    @property
    def held(self) -> Held:
        """What the queue is told of it, but for its progress."""
        grace_s = self._wish.cancel_grace_s
        if grace_s is None and self.stopped_for is Cause.CANCEL:
            grace_s = TIMEOUT_GRACE_S
        return Held(self.claim.job_id, self.claim.token, cancel_grace_s=grace_s)

    def heed(self, wish: Wish) -> None:
        """Make it so: end the process, or tell it to pause, go on, go slower. The same wish again changes nothing."""
        if wish.cancel_grace_s is not None:
            self.stop(Cause.CANCEL, grace_s=wish.cancel_grace_s)
        if control_of(wish) != control_of(self._wish):
            try:
                self.folder.write(CONTROL, control_of(wish))
            except OSError as problem:
                _log.warn("The wish for job {job} could not be written: {why}", job=self.job, why=problem)
                return
        self._wish = wish

    def stop(self, cause: Cause, *, grace_s: float | None = None) -> None:
        """Ask the process to end, insist after its grace, and kill its group 5 s later; asking again may hurry it.

        Stopped with its node, its group is killed after `grace_s`.
        """
        if self._is_gone:
            return
        if grace_s is None:
            grace_s = STALE_GRACE_S if cause is Cause.STALE else TIMEOUT_GRACE_S
        if self.stopped_for is None or cause is Cause.STALE:
            self.stopped_for = cause
            with contextlib.suppress(OSError):
                self.folder.write(STOP, {"cause": cause.value})
        now = self.machine.monotonic()
        asked = Stopping.within(now, grace_s) if cause is Cause.NODE else Stopping(now, grace_s)
        self._stopping = asked if self._stopping is None else self._stopping.sooner(asked)
        self._advance()

    def touch(self) -> None:
        """Let the process know that its node lives, and see to it that what it prints fills no disk."""
        with contextlib.suppress(OSError):
            self.machine.touch(self.folder)
        with contextlib.suppress(OSError):
            self.folder.bound_output()

    def _begin(self, pid: int, start: str) -> None:
        self.pid, self._start = pid, start
        if self.claim.timeout_s is not None:
            age_s = self.machine.processes.age_of(start)
            if age_s is None:
                age_s = self.machine.time() - self.claim.begun_at
            self._later("timeout", max(0.0, self.claim.timeout_s - age_s), lambda: self.stop(Cause.TIMEOUT))

    def _advance(self) -> None:
        """Do the steps that are due, and come back when the next one is."""
        if self._is_gone or self._stopping is None or self.pid is None:
            return
        while (due := self._stopping.due(self._done)) is not None:
            at, step = due
            wait_s = at - self.machine.monotonic()
            if wait_s > 0:
                self._later("step", wait_s, self._advance)
                return
            self._done |= {step}
            self._signal(step)

    def _signal(self, step: Step) -> None:
        _log.info("Job {job} (process {pid}): {step}", job=self.job, pid=self.pid, step=step.name.lower())
        if step is Step.KILL:
            self.machine.processes.signal_group(self.pid or 0, self._start, signal.SIGKILL)
            return
        # To the process alone: what it started, it ends itself.
        with contextlib.suppress(error.ProcessExitedAlready, OSError):
            self.signalProcess("INT")

    def _leader_gone(self) -> None:
        """End what the process has left behind; only then it counts as gone."""
        if self._is_gone:
            return
        self._wait_for_group(self.machine.monotonic() + GROUP_GONE_WITHIN_S)

    def _wait_for_group(self, ends_at: float) -> None:
        pid, processes = self.pid or 0, self.machine.processes
        if processes.signal_group(pid, self._start, signal.SIGKILL) and processes.group_members_left(pid, self._start):
            if self.machine.monotonic() < ends_at:
                self._later("group", _GROUP_PAUSE_S, lambda: self._wait_for_group(ends_at))
                return
            _log.error("Processes that job {job} has started cannot be killed", job=self.job)
        self._gone()

    def _gone(self) -> None:
        self._is_gone = True
        self.end_time = datetime.now()  # noqa: DTZ005 - Scrapyd's pages want local time
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()
        self._on_gone(self)

    def _later(self, name: str, wait_s: float, work: Callable[[], None]) -> None:
        timer = self._timers.get(name)
        if timer is not None and timer.active():
            timer.cancel()
        self._timers[name] = self.machine.later(wait_s, work)


class SpawnedProcess(ProcessProtocol):
    """Tells a run how its process ended; nothing goes through pipes, which would break when Scrapyd is restarted."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        """Take note of the process before anybody can have reaped it."""
        self._run.spawned(self.transport.pid)  # type: ignore[union-attr]

    def processExited(self, reason: Failure) -> None:  # noqa: N802 - Twisted's name
        """Take note of the end of the process itself, once whoever spawns it is done."""
        self._run.machine.later(0, self._run.left, reason)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
