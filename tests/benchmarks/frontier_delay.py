"""A way to Redis that takes its time: a process between client and server that passes on every byte later.

`delay.c` is compiled where there is a C compiler; else `delay_by_threads.py` does the same, at the cost of processor
time that the crawl then lacks. `median_round_trip_ms` says what came of it.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

_SOURCE = Path(__file__).with_name("delay.c")
_PINGS = 40
WITHOUT_COMPILER: Sequence[str] = (sys.executable, str(Path(__file__).with_name("delay_by_threads.py")))


class Delay:
    """Redis at a distance of `round_trip_ms`, from entering the context to leaving it."""

    def __init__(self, program: Sequence[str], *, target_port: int, round_trip_ms: float) -> None:
        self.port = 0
        self._command = [*program, str(target_port), str(round(round_trip_ms * 500))]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._line())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def round_trips(self) -> int:
        """Return how often a client has waited for the server so far."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def delaying_program(folder: Path) -> tuple[Sequence[str], str]:
    """Return the command that delays, without its arguments, and what it is in words."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return WITHOUT_COMPILER, "Python threads (no C compiler here: they take their share)"
    return [_compiled(compiler, folder)], "a C program"


@cache
def _compiled(compiler: str, folder: Path) -> str:
    program = folder / "delay"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-O2", "-o", str(program), str(_SOURCE)], check=True, stdin=subprocess.DEVNULL)
    return str(program)


def median_round_trip_ms(port: int) -> float:
    """Return how long Redis takes to answer PING at this port."""
    times = []
    with redis.Redis(port=port) as client:
        client.ping()
        for _ in range(_PINGS):
            began = time.perf_counter()
            client.ping()
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)
