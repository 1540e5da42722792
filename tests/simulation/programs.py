"""What runs in the simulated processes: spiders that take their time, answer signals or do not, and report.

A spider speaks with its node through the run folder alone, as a real one does, and listens for its signs of life.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass, field

from simulation.machines import Process
from simulation.world import World

from toolkit.model.jobs import JobState
from toolkit.model.queue import Progress
from toolkit.node.claims import Claim, read_claim
from toolkit.runs.folder import CLAIM, EXIT, REPORT, RunFolder
from toolkit.runs.registration import NOT_OURS, register
from toolkit.runs.report import Exit, exit_of, report_of
from toolkit.runs.watchdog import KILL_AFTER_S, Silence, Step, lease_of

REPORT_EVERY_S = 3.0


@dataclass
class Life:
    """What became of one process that ran a job, seen from outside. `why` says how it ended, `None` while it lives."""

    claim: Claim
    node: str
    pid: int
    at: float
    ended_at: float | None = None
    why: str | None = None
    signals: list[str] = field(default_factory=list)
    stopped_for: str | None = None
    folder: RunFolder | None = None


class Spider:
    """A spider of so many seconds. On a first signal it takes `closing_s` to close, or is deaf to all but the last."""

    def __init__(
        self, world: World, process: Process, folder: RunFolder, lives: list[Life], *, node: str, run_s: float
    ) -> None:
        self.world, self.process, self.folder = world, process, folder
        self.chance = world.random(f"spider {folder.path.name} {process.pid}")
        self.run_s = run_s
        self.closing_s = self.chance.choice((0.0, 0.3, 2.0, 8.0))
        self.is_deaf = self.chance.random() < 0.06
        self.life: Life | None = None
        self._lives, self._node = lives, node
        self._is_closing = False
        self._node_was_lost = False
        self._pages = 0
        self._finish_reason: str | None = None

    def begin(self) -> None:
        """Take a while to load, then register."""
        self.world.after(self.chance.uniform(0.05, 0.6), self.process, self._register)

    def _register(self) -> None:
        if register(self.folder, self.process.pid, self.process.start) is not None:
            self.process.exit(NOT_OURS)
            return
        content = self.folder.read(CLAIM)
        claim = read_claim(content)
        assert claim is not None
        self.life = Life(claim, self._node, self.process.pid, self.world.now)
        self._lives.append(self.life)
        self.world.say(
            "{} begins job {} under {} (process {})", self._node, claim.job_id, claim.token, self.process.pid
        )
        lease_s = lease_of(claim.lease_s)
        self._look_s = min(lease_s / 15, 1.0)
        self._silence = Silence(lease_s=lease_s, kill_after_s=KILL_AFTER_S, look_s=self._look_s)
        self._listen()
        self._report()
        self.work()

    def work(self) -> None:
        """Do what the job is for."""
        self.world.after(self.run_s, self.process, lambda: self.close("finished"))

    def signalled(self, number: int) -> None:
        """Close in order at the first signal, and at once at the second."""
        if self.life is None:
            self.process.exit(signal=signal.Signals(number))
            return
        self.life.signals.append(signal.Signals(number).name)
        if self.is_deaf:
            return
        if self._is_closing:
            self.close("shutdown")
            return
        self._is_closing = True
        self.world.after(self.closing_s, self.process, lambda: self.close("shutdown"))

    def close(self, reason: str) -> None:
        """Write the last words, and end."""
        if self._finish_reason is not None or self.life is None:
            return
        self._finish_reason = reason
        self.life.why = reason
        self._write_report()
        with contextlib.suppress(OSError):
            self.folder.write(EXIT, exit_of(Exit(exit_code=0, node_was_lost=self._node_was_lost)))
        # Between the last words and the end of the process somebody may look.
        self.world.after(self.chance.choice((0.0, 0.05)), self.process, self.process.exit)

    def ended(self, process: Process) -> None:
        """Note how the process ended."""
        if self.life is not None:
            self.life.ended_at = self.world.now
            if process.signal is not None:
                self.life.why = process.signal.name
            self.world.say("job {} (process {}) ended: {}", self.life.claim.job_id, process.pid, self.life.why)

    def _report(self) -> None:
        self._pages += 1
        self._write_report()
        self.world.after(REPORT_EVERY_S, self.process, self._report)

    def _write_report(self) -> None:
        progress = Progress(state=JobState.RUNNING, pages=self._pages, items=0, finish_reason=self._finish_reason)
        with contextlib.suppress(OSError):
            self.folder.write(REPORT, report_of(progress))

    def _listen(self) -> None:
        match self._silence.look(self.process.host.touched.get(str(self.folder.path)), self.world.now):
            case Step.CLOSE:
                self._node_was_lost = True
                self.signalled(signal.SIGINT)
            case Step.KILL:
                with contextlib.suppress(OSError):
                    self.folder.write(EXIT, exit_of(Exit(signal="SIGKILL", node_was_lost=True)))
                self.process.exit(signal=signal.SIGKILL)
            case Step.NOTHING:
                pass
        self.world.after(self._look_s, self.process, self._listen)
