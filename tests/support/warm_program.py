"""Loads what commands load, and forks a process for each that is asked for on the socket given by its descriptor.

`python -P warm_program.py 7`, without the tests' modules. Each demand is JSON (`Demand`) with four open
files: the command's input, output and errors, and where to write its process id and then its exit code. It ends with
the other end of the socket.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import TypedDict

COMMAND = "toolkit.cli.main"
# What no command loads: it runs on nodes and in spiders, or writes the documentation.
ELSEWHERE = ("toolkit.node", "toolkit.spider", "toolkit.duties", "toolkit.samples", "toolkit.cli.reference")
# What the libraries load late, and almost every command needs.
LATE = ("typer._adapters", "rich.console", "rich.table")
DEMAND_BYTES = 150_000


class Demand(TypedDict):
    """What is asked for; limits are those of the module `resource`, by their names."""

    words: list[str]
    cwd: str
    env: dict[str, str]
    limits: dict[str, tuple[int, int]]


def main() -> None:
    """Serve until the other end is closed; return only in a fork, which is to run its command."""
    # A story may limit how large files get: it means its commands, not the byte code that is written here for all.
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
    for name in (*sorted(_modules("toolkit")), *LATE):
        # Whatever cannot be loaded is told by the command that needs it.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    sys.dont_write_bytecode = True
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as demands:
        _serve(demands)


def _modules(package: str) -> Iterator[str]:
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if found.name.startswith(ELSEWHERE) or found.name.endswith(("_program", ".__main__")):
            continue
        yield found.name
        if found.ispkg:
            yield from _modules(found.name)


def _serve(demands: socket.socket) -> None:
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    answers: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([demands.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(answers)
        if demands.fileno() not in ready:
            continue
        demand, files, _, _ = socket.recv_fds(demands, DEMAND_BYTES, 4)
        if not demand:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            demands.close()
            for file in (woken, waker, *answers.values()):
                os.close(file)
            _become(json.loads(demand), files)
            return
        for file in files[:3]:
            os.close(file)
        answers[pid] = files[3]


def _tell_ends(answers: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            answer = answers.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(answer, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(answer)


def _become(demand: Demand, files: list[int]) -> None:
    """Make this process what the demand says: a session leader, there, with these open files and so on."""
    os.setsid()
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(demand["cwd"])
    os.environ.clear()
    os.environ.update(demand["env"])
    time.tzset()
    for name, both in demand["limits"].items():
        resource.setrlimit(getattr(resource, name), both)
    sys.argv = [COMMAND, *demand["words"]]
    os.write(files[3], f"{os.getpid()}\n".encode())
    os.close(files[3])


if __name__ == "__main__":
    main()
    importlib.import_module(COMMAND).run()
