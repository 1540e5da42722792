"""The real command on a terminal of its own, with somebody who types the answers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from support.cli import DEADLINE_S
from support.processes import end, quiet_environment, start
from support.waiting import wait_until


def run_on_terminal(
    *words: str, cwd: Path, typed: str = "", env: Mapping[str, str] | None = None, timeout_s: float = DEADLINE_S
) -> tuple[int, str]:
    """Run the command to its end on a terminal; return its exit code and all that the screen was sent."""
    ours, theirs = pty.openpty()
    with tempfile.TemporaryDirectory(prefix="crawlctl-") as home, contextlib.ExitStack() as closing:
        screen = closing.enter_context(os.fdopen(ours, "rb+", buffering=0))
        with os.fdopen(theirs, "rb+", buffering=0) as line:
            process = _start(
                words, cwd, {**quiet_environment(Path(home)), "TERM": "xterm-256color", **(env or {})}, line
            )
        closing.callback(end, process)
        screen.write(typed.encode())
        shown: list[bytes] = []
        reader = threading.Thread(target=_read, args=(screen, shown), daemon=True)
        reader.start()
        code = process.wait(timeout_s)
        reader.join(5)
        return code, b"".join(shown).decode()


class OnTerminal:
    """The command on a terminal while somebody looks at it and types; it is ended, if it has not, with the context."""

    def __init__(self, *words: str, cwd: Path, size: tuple[int, int] = (80, 24)) -> None:
        self._words, self._cwd, self._size = words, cwd, size
        self._shown: list[bytes] = []
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        ours, theirs = pty.openpty()
        columns, lines = self._size
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        home = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="crawlctl-"))
        self._screen = self._closing.enter_context(os.fdopen(ours, "rb+", buffering=0))
        with os.fdopen(theirs, "rb+", buffering=0) as line:
            env = {**quiet_environment(Path(home)), "TERM": "xterm-256color"}
            self._process = _start(self._words, self._cwd, env, line)
        self._closing.callback(end, self._process)
        self._reader = threading.Thread(target=_read, args=(self._screen, self._shown), daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.close()

    @property
    def shown(self) -> str:
        """All that the terminal was sent by now."""
        return b"".join(self._shown).decode(errors="replace")

    def type(self, text: str, *, then: str) -> None:
        """Type something, and wait until something is sent to the terminal that was not there before."""
        before = len(self.shown)
        self._screen.write(text.encode())
        self.until(then, after=before)

    def until(self, text: str, *, after: int = 0) -> None:
        """Wait until this is sent to the terminal."""
        wait_until(lambda: text in self.shown[after:], deadline_s=DEADLINE_S, what=f"{text!r} on the terminal")

    def end(self, typed: str) -> int:
        """Type what ends the command, and return its exit code."""
        self._screen.write(typed.encode())
        code = self._process.wait(DEADLINE_S)
        self._reader.join(5)
        return code


def _start(words: tuple[str, ...], cwd: Path, env: Mapping[str, str], line: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "toolkit.cli.main", *words]
    return start(command, cwd=cwd, env=env, output=line, stdin=line)


def _read(screen: IO[bytes], shown: list[bytes]) -> None:
    # Linux ends a terminal whose last writer has gone with an error, not with an end of file.
    with contextlib.suppress(OSError):
        while piece := screen.read(65_536):
            shown.append(piece)
