"""Ends a spider process whose node is gone for good: a thread that listens for the node's sign of life.

Runs in the spider process, beside Scrapy and without it: it also works while a callback keeps the processor to itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from enum import Enum, auto

from toolkit.runs.folder import EXIT, RunFolder
from toolkit.runs.report import Exit, exit_of

LEASE_S_IF_UNSAID = 60.0
KILL_AFTER_S = 30.0
"""How long Scrapy has to end gracefully before it and all that it started are killed."""

_LOOKS_A_LEASE = 15
_MAX_LOOK_S = 1.0
_MAX_LEASE_S = 86_400.0
# A look that comes later than this many intervals counts no more than so many: we slept, and so may have the node.
_INTERVALS_A_LOOK = 2.0

logger = logging.getLogger(__name__)


class Step(Enum):
    """What is to be done about a node's silence."""

    NOTHING = auto()
    CLOSE = auto()
    KILL = auto()


class Silence:
    """Decides, from one look to the next, when a node has been silent for too long.

    Silence counts only as far as we were awake to notice it, so a process that was stopped, or a machine that slept,
    gives its node a whole lease after waking up.
    """

    def __init__(self, *, lease_s: float, kill_after_s: float, look_s: float) -> None:
        self._lease_s = lease_s
        self._kill_after_s = kill_after_s
        self._max_gap_s = look_s * _INTERVALS_A_LOOK
        self._heard: float | None = None
        self._looked_at: float | None = None
        self._silent_s = 0.0
        self._is_closing = False

    def look(self, heard: float | None, now: float) -> Step:
        """Take in the node's latest sign of life (any change is one) at a time by a clock that only goes forward."""
        gap_s = 0.0 if self._looked_at is None else min(now - self._looked_at, self._max_gap_s)
        self._looked_at = now
        if heard is not None and heard != self._heard:
            self._heard, self._silent_s, self._is_closing = heard, 0.0, False
            return Step.NOTHING
        self._silent_s += gap_s
        if self._silent_s < (self._kill_after_s if self._is_closing else self._lease_s):
            return Step.NOTHING
        self._silent_s = 0.0
        if self._is_closing:
            return Step.KILL
        self._is_closing = True
        return Step.CLOSE


class Watchdog(threading.Thread):
    """Asks Scrapy to close when the node was silent for a lease, and kills the process group if that does not help."""

    def __init__(self, folder: RunFolder, *, lease_s: float, kill_after_s: float = KILL_AFTER_S) -> None:
        super().__init__(name="crawlctl-watchdog", daemon=True)
        self._folder = folder
        self._lease_s = lease_s
        self._look_s = min(lease_s / _LOOKS_A_LEASE, _MAX_LOOK_S)
        self._silence = Silence(lease_s=lease_s, kill_after_s=kill_after_s, look_s=self._look_s)
        self._parent = os.getppid()
        self.node_was_lost = False

    def run(self) -> None:
        """Look until the process ends."""
        while True:
            time.sleep(self._look_s)
            match self._silence.look(self._heard(), time.monotonic()):
                case Step.CLOSE:
                    self._close()
                case Step.KILL:
                    self._kill()
                case Step.NOTHING:
                    pass

    def _heard(self) -> float | None:
        heard = self._folder.alive_at()
        if heard is None and os.getppid() == self._parent:
            # Without its folder the node cannot speak; while it is still our parent, it is there all the same.
            with contextlib.suppress(OSError):
                return None if self._folder.path.exists() else time.monotonic()
        return heard

    def _close(self) -> None:
        self.node_was_lost = True
        # To the main thread, where Python runs its handlers, so that a call it sleeps in is interrupted too. Scrapy's
        # handler closes the spider; before Scrapy has set it, the process ends as by Ctrl-C.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        # In a thread of its own: whoever hangs while it writes the log keeps the log's lock.
        text = "The node gave no sign of life for %g s: closing this spider, which nobody may be minding any more"
        threading.Thread(target=logger.warning, args=(text, self._lease_s), daemon=True).start()

    def _kill(self) -> None:
        killed = Exit(signal=signal.SIGKILL.name, node_was_lost=True)
        # In a thread of its own too: a disk that hangs must not keep us from the kill.
        writes = threading.Thread(target=_write_exit, args=(self._folder, killed), daemon=True)
        writes.start()
        writes.join(1.0)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def lease_of(value: object) -> float:
    """Return the lease that a claim names, in seconds, or a careful one if it names none that makes sense."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return LEASE_S_IF_UNSAID
    return float(value) if 0 < value <= _MAX_LEASE_S else LEASE_S_IF_UNSAID


def _write_exit(folder: RunFolder, ended: Exit) -> None:
    try:
        folder.write(EXIT, exit_of(ended))
    except OSError as error:
        logger.warning("Its end could not be noted: %s", error)
