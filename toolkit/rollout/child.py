"""Runs one program to its end, or ends it: in a process group of its own, without input, its output kept in files.

Output goes to files because a grandchild that outlives the program would hold a pipe open for ever.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LAST_LINES = 15


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program left: its exit code (negative for a signal, `None` if it was ended at its time limit)."""

    code: int | None
    stdout: str
    stderr: str

    @property
    def last_lines(self) -> str:
        """The end of what it said, standard error rather than standard output: where the reason usually stands."""
        said = [line.rstrip() for line in (self.stderr.strip() or self.stdout.strip()).splitlines() if line.strip()]
        return "\n".join(f"  {line}" for line in said[-_LAST_LINES:])


def run_child(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], timeout_s: float) -> Finished:
    """Run the program and return what it left; at the time limit, or at Ctrl-C, its whole process group is killed.

    Raises:
        OSError: the program cannot be started.

    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [os.fspath(part) for part in command],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        code: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout_s)
        finally:
            if process.poll() is None:
                _kill_group(process)
        return Finished(code, _text_of(out), _text_of(err))


def clean_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what would bend Python or Scrapy: `PYTHON*` and `SCRAPY_*`."""
    return {name: value for name, value in environ.items() if not name.startswith(("PYTHON", "SCRAPY_"))}


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
