"""Runs programs to their end beside Scrapyd: in a group of their own, with a deadline, and nothing left of them.

In Scrapyd's threads, never on its reactor. `close` ends what is under way, so that no thread outlives Scrapyd.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.model.errors import EggError

MAX_OUTPUT_BYTES = 4_000_000
_LOOK_EVERY_S = 0.05
_PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended (a negative code is a signal), and what it said."""

    code: int
    output: bytes
    errors: bytes

    @property
    def how(self) -> str:
        """The end in words: `exit code 3`, or a signal's name."""
        if self.code >= 0:
            return f"exit code {self.code}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.code).name
        return f"signal {-self.code}"


class Children:
    """The programs that one part of the node has under way. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._is_closed = False

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        timeout_s: float,
        doing: str,
        cwd: Path | None = None,
    ) -> Ended:
        """Run a program to its end; whatever it started goes with it. `doing` says in messages what it is for.

        Raises:
            EggError: it took longer than `timeout_s` or printed too much, and was killed; or this node is stopping.
            OSError: it cannot be started.

        """
        process = self._begin(command, environment, cwd)
        try:
            with process:
                try:
                    output, errors = _follow(process, timeout_s, doing)
                finally:
                    # Whatever it started goes with it: it had its time, and nobody will ever ask for it again.
                    _kill(process.pid)
                    for pipe in (process.stdout, process.stderr):
                        if pipe is not None:
                            pipe.close()
                return Ended(process.wait(), output, errors)
        finally:
            with self._lock:
                self._running.discard(process.pid)

    def close(self) -> None:
        """End every program that is under way, and begin no further one."""
        with self._lock:
            self._is_closed = True
            running = set(self._running)
        for pid in running:
            _kill(pid)

    def _begin(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path | None
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_closed:
                raise EggError("this node is stopping")
            process = subprocess.Popen(
                list(command),
                env=dict(environment),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process.pid)
        return process


def _follow(process: subprocess.Popen[bytes], timeout_s: float, doing: str) -> tuple[bytes, bytes]:
    """Read what the process says until it is gone, too late or too loud; who else has its pipes is let be."""
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    said = [bytearray() for _ in pipes]
    ends_at = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as still_open:
        for pipe, text in zip(pipes, said, strict=True):
            still_open.register(pipe, selectors.EVENT_READ, text)
        while process.poll() is None or still_open.get_map():
            is_gone = process.poll() is not None
            ready = still_open.select(0 if is_gone else _LOOK_EVERY_S)
            if is_gone and not ready:
                break
            if time.monotonic() >= ends_at:
                raise EggError(f"{doing} took longer than {timeout_s:g} s, and was ended")
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                key.data.extend(piece)
                if not piece:
                    still_open.unregister(key.fileobj)
            if sum(map(len, said)) > MAX_OUTPUT_BYTES:
                raise EggError(f"{doing} printed more than {MAX_OUTPUT_BYTES // 1_000_000} MB")
    return bytes(said[0]), bytes(said[1])


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
