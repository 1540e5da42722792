"""The real command on a terminal of its own, with somebody who types the answers."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from support.cli import DEADLINE_S
from support.processes import end, quiet_environment, start


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


def _start(words: tuple[str, ...], cwd: Path, env: Mapping[str, str], line: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "toolkit.cli.main", *words]
    return start(command, cwd=cwd, env=env, output=line, stdin=line)


def _read(screen: IO[bytes], shown: list[bytes]) -> None:
    # Linux ends a terminal whose last writer has gone with an error, not with an end of file.
    with contextlib.suppress(OSError):
        while piece := screen.read(65_536):
            shown.append(piece)
