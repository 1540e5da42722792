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
from types import TracebackType
from typing import IO, Self

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


class RunningChild:
    """A program under way from entering the context on; leaving it kills its whole process group if it still runs.

    With `waits` it can be told something, once; otherwise it has no input.

    Raises:
        OSError: on entering, the program cannot be started.

    """

    def __init__(
        self, command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], waits: bool = False
    ) -> None:
        self._command = [os.fspath(part) for part in command]
        self._cwd = cwd
        self._env = dict(env)
        self._waits = waits
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as closing:
            self._out = closing.enter_context(tempfile.TemporaryFile())
            self._err = closing.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._env,
                stdin=subprocess.PIPE if self._waits else subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                start_new_session=True,
            )
            self._closing = closing.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._closing:
            self.end()

    def tell(self, text: str) -> None:
        """Write what the program waits for to its standard input, and close that.

        Raises:
            OSError: it has ended already.
            ValueError: it was not started to wait, or was told something already.

        """
        if self._process.stdin is None:
            raise ValueError("this program has no input")
        with self._process.stdin as pipe:
            pipe.write(text.encode())

    def wait(self, timeout_s: float) -> Finished:
        """Return what the program left, once it has ended; after `timeout_s` seconds from now it is ended."""
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout_s)
        self.end()
        return Finished(code, _text_of(self._out), _text_of(self._err))

    def end(self) -> None:
        """Kill the program's process group if the program still runs. Safe to call again."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def run_child(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], timeout_s: float) -> Finished:
    """Run the program and return what it left; at the time limit, or at Ctrl-C, its whole process group is killed.

    Raises:
        OSError: the program cannot be started.

    """
    with RunningChild(command, cwd=cwd, env=env) as child:
        return child.wait(timeout_s)


def clean_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what would bend Python or Scrapy: `PYTHON*` and `SCRAPY_*`."""
    return {name: value for name, value in environ.items() if not name.startswith(("PYTHON", "SCRAPY_"))}


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
