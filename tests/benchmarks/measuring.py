"""Times whole commands as an operator starts them: a process of its own, nothing of this machine's user in it."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import psutil
from support.processes import quiet_environment

COMMAND_TIMEOUT_S = 300.0
QUIET_FOR_S = 0.5
QUIET_PERCENT = 8.0
_SHOWN_CHARS = 800
_NAMED = ("crawlctl", "scrapy", "scrapyd", "scrapyd-client", "python-scrapyd-api")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the report: the same work done by crawlctl and, where there is one, by a stock tool.

    All times are in seconds. `target` is what crawlctl is to reach, in words; `key` is the place of the two medians in
    the last line, empty for what is only shown.
    """

    what: str
    crawlctl: Sequence[float]
    stock: Sequence[float] = ()
    peer: str = ""
    target: str = ""
    key: tuple[str, ...] = field(default=())

    @property
    def crawlctl_s(self) -> float:
        """The median of crawlctl's times."""
        return statistics.median(self.crawlctl)

    @property
    def stock_s(self) -> float | None:
        """The median of the stock tool's times; `None` where there is no such tool."""
        return statistics.median(self.stock) if self.stock else None


class Commands:
    """Starts commands from one folder's environment and times them; a failing one ends the benchmark.

    On a machine that others use too, each command waits until the processor is idle, at most `patience_s` seconds.
    """

    def __init__(self, home: Path, *, patience_s: float = 0.0) -> None:
        self._patience_s = patience_s
        home.mkdir(parents=True, exist_ok=True)
        self._env = {name: text for name, text in quiet_environment(home).items() if not name.startswith("PYTHON")}

    def seconds(self, command: Sequence[str | Path], *, cwd: Path) -> float:
        """Return how long the command takes from start to end."""
        return self.timed(command, cwd=cwd)[0]

    def timed(self, command: Sequence[str | Path], *, cwd: Path, exit_code: int = 0) -> tuple[float, str]:
        """Return how long the command takes, and what it printed.

        Raises:
            AssertionError: it ended with another exit code; the message shows the end of what it said.

        """
        self._wait_for_quiet()
        began = time.perf_counter()
        done = subprocess.run(
            [os.fspath(part) for part in command],
            cwd=cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=COMMAND_TIMEOUT_S,
        )
        took = time.perf_counter() - began
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        said = f"{' '.join(map(str, command))} ended with {done.returncode}:\n{(out + err)[-_SHOWN_CHARS:]}"
        assert done.returncode == exit_code, said
        return took, out

    def _wait_for_quiet(self) -> None:
        ends_at = time.monotonic() + self._patience_s
        while time.monotonic() < ends_at and psutil.cpu_percent(QUIET_FOR_S) > QUIET_PERCENT:
            pass


def program(name: str) -> Path:
    """Return the command of that name which is installed beside this Python."""
    path = Path(sys.executable).with_name(name)
    assert path.is_file(), f"{name} is not installed beside {sys.executable}"
    return path


def described_machine() -> str:
    """Say on what the figures were got."""
    versions: Mapping[str, str] = {name: version(name) for name in _NAMED}
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    tools = ", ".join(f"{name} {number}" for name, number in versions.items())
    where = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{where}; load before the run {load}\n{tools}"
