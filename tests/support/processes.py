"""Processes that tests start: each in a session of its own, and gone with the test run however that ends.

A small guard process outlives us for a moment: it reads our list of process groups from a pipe and kills what is left
of them when the pipe closes, which it does even if we are killed with SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

import psutil

_GUARD = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class _Guard:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: IO[str] | None = None
        self._pid = 0

    def tell(self, sign: str, group: int) -> None:
        with self._lock:
            if self._pipe is None or self._pid != os.getpid():
                self._start()
            assert self._pipe is not None
            self._pipe.write(f"{sign}{group}\n")
            self._pipe.flush()

    def _start(self) -> None:
        guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD], stdin=subprocess.PIPE, text=True, start_new_session=True
        )
        guard.returncode = 0  # It ends after us: nobody here waits for it.
        self._pipe = guard.stdin
        self._pid = os.getpid()


_GUARD_OF_THIS_RUN = _Guard()


def start(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: IO[bytes],
    errors: IO[bytes] | None = None,
    stdin: IO[bytes] | None = None,
    kept: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start the command as the leader of its own session; its errors go to `output` too unless `errors` is given.

    `kept` is the descriptor of a file that it is to have as well.
    """
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=output,
        stderr=subprocess.STDOUT if errors is None else errors,
        start_new_session=True,
        pass_fds=() if kept is None else (kept,),
    )
    remember(process.pid)
    return process


def remember(group: int) -> None:
    """Have a process group killed if this test run ends without having ended it."""
    _GUARD_OF_THIS_RUN.tell("+", group)


class Process(Protocol):
    """What there is to do with a process: a `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


def end(process: Process, *, politely_s: float = 0.0) -> int:
    """End the process and everything it started, orphans included; return its exit code. Safe to call again.

    With `politely_s`, it first gets SIGTERM and that many seconds to end by itself.
    """
    family = descendants(process.pid)
    if politely_s and process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(politely_s)
    if process.poll() is None:
        process.kill()
    kill_group(process.pid)
    for child in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(family, timeout=10)
    code = process.wait(10)
    _GUARD_OF_THIS_RUN.tell("-", process.pid)
    return code


def kill_group(group: int) -> None:
    """Send SIGKILL to every process of the group; nothing happens if there is none."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def descendants(pid: int) -> list[psutil.Process]:
    """Return the process' children and theirs, and the orphans that stayed in its session."""
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        found = {child.pid: child for child in psutil.Process(pid).children(recursive=True)}
    for candidate in psutil.process_iter():
        with contextlib.suppress(OSError):
            if candidate.pid != pid and os.getsid(candidate.pid) == pid:
                found.setdefault(candidate.pid, candidate)
    return list(found.values())


def quiet_environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment in which no setting of this machine's user reaches the process."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "PYTHONUNBUFFERED": "1", **more}
