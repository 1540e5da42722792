"""Commands that need not load their modules: each a process of its own, forked from one that has loaded them.

Stories run two thousand commands, and three quarters of what these cost a processor is the loading. How commands load
is told by tests of their own (`tests/architecture`), and those of docs, units and real hosts start every command from
nothing; CRAWLCTL_TESTS_COLD=1 makes the stories do so too.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from support.processes import quiet_environment, remember, start

PROGRAM = Path(__file__).with_name("warm_program.py")
IS_COLD = "CRAWLCTL_TESTS_COLD" in os.environ or not sys.platform.startswith("linux")
LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_STACK")
BEGUN_WITHIN_S = 60.0


class WarmProcess:
    """One command's process, to be used as a `subprocess.Popen` is."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._said = b""
        self._code: int | None = None
        if not self._hear(BEGUN_WITHIN_S, lines=1):
            raise AssertionError(f"no process was forked within {BEGUN_WITHIN_S:g} s")
        self.pid = int(self._said.split(b"\n")[0])

    def __del__(self) -> None:
        """Close what it was to answer on."""
        with suppress(OSError):
            os.close(self._answers)

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal, once it has ended."""
        if self._code is None and self._hear(0.0, lines=2):
            self._code = int(self._said.split(b"\n")[1])
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended.

        Raises:
            subprocess.TimeoutExpired: it had not ended after so many seconds.

        """
        if self._code is None and self._hear(timeout, lines=2):
            self._code = int(self._said.split(b"\n")[1])
        if self._code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self._code

    def terminate(self) -> None:
        """Send it SIGTERM if it has not ended."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL if it has not ended."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _hear(self, timeout_s: float | None, *, lines: int) -> bool:
        """Read what is answered until there are so many lines, at most so many seconds."""
        while self._said.count(b"\n") < lines:
            ready, _, _ = select.select([self._answers], [], [], timeout_s)
            if not ready:
                return False
            piece = os.read(self._answers, 4096)
            if not piece:
                raise AssertionError("the process that forks commands has gone")
            self._said += piece
        return True


class _Forker:
    """The process that has loaded the modules, one for this process."""

    def __init__(self) -> None:
        self._demands: socket.socket | None = None
        self._pid = 0

    def fork(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], files: Sequence[IO[bytes]]
    ) -> WarmProcess:
        if self._demands is None or self._pid != os.getpid():
            self._demands, self._pid = self._start(), os.getpid()
        answers, answer = os.pipe()
        limits = {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS}
        demand = {"words": list(words), "cwd": str(cwd), "env": dict(env), "limits": limits}
        try:
            socket.send_fds(self._demands, [json.dumps(demand).encode()], [*(file.fileno() for file in files), answer])
        finally:
            os.close(answer)
        process = WarmProcess(answers)
        remember(process.pid)
        return process

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        home = Path(tempfile.gettempdir())
        with ExitStack() as stack:
            stack.enter_context(theirs)
            command = [sys.executable, "-P", str(PROGRAM), str(theirs.fileno())]
            log = stack.enter_context(tempfile.TemporaryFile())
            process = start(command, cwd=home, env=quiet_environment(home / "nobody"), output=log, kept=theirs.fileno())
            process.returncode = 0  # It ends after us: nobody here waits for it.
        return ours


_FORKER = _Forker()


def start_warm(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: IO[bytes], output: IO[bytes], errors: IO[bytes]
) -> WarmProcess:
    """Run `crawlctl` with these words in a process of its own, the leader of its own session."""
    return _FORKER.fork(words, cwd=cwd, env=env, files=(stdin, output, errors))
