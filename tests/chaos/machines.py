"""The machines of a run: one Redis, and its nodes: real Scrapyd processes with the plug-in, each on its own link."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from chaos.links import Link, Links
from support.plugin_node import PluginNode
from support.redis_server import RedisServer

STOP_WITHIN_S = 15.0


class Machine:
    """One node: up or down, its link whole or cut. `is_sound` while nothing is being done to it."""

    def __init__(self, folder: Path, name: str, link: Link, *, lease_s: float, slots: int) -> None:
        self.name = name
        self.link = link
        self.is_sound = False
        self.scrapyd = PluginNode(
            folder,
            redis_url=f"redis://127.0.0.1:{link.port}/0",
            name=name,
            slots=slots,
            lease_s=lease_s,
            options={"jobs_to_keep": "10000"},
        )

    def start(self) -> None:
        """Start Scrapyd and return when it answers."""
        self.scrapyd.start()

    def die(self) -> None:
        """End Scrapyd and everything that runs on the machine, at once."""
        self.lose_scrapyd()
        self.signal_spiders(signal.SIGKILL)

    def lose_scrapyd(self) -> None:
        """End Scrapyd with SIGKILL; what it started goes on."""
        if self.scrapyd.is_running:
            self.scrapyd.kill(spiders=False)

    def stop_scrapyd(self) -> bool:
        """End Scrapyd with SIGTERM; what it started goes on. Return whether it ended in time."""
        process = psutil.Process(self.scrapyd.pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_WITHIN_S)
        except psutil.TimeoutExpired:
            self.lose_scrapyd()
            return False
        return True

    def freeze(self) -> None:
        """Let everything on the machine stand still, as a virtual machine that is moved."""
        self.scrapyd.freeze()
        self.signal_spiders(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let everything go on from where it stood."""
        self.signal_spiders(signal.SIGCONT)
        self.scrapyd.thaw()

    def signal_spiders(self, number: signal.Signals) -> None:
        """Send a signal to all that runs on the machine but Scrapyd."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def processes(self) -> list[psutil.Process]:
        """Return all that runs on the machine but Scrapyd: what has its folder as its home."""
        return [each for each in _at_home(self.scrapyd.folder) if each.pid != self.scrapyd.pid]


class Machines:
    """All machines, and the Redis that they share; ended with the context, whatever happened."""

    def __init__(self, folder: Path, *, lease_s: float, slots: int) -> None:
        self.redis = RedisServer(folder / "redis")
        self.all: list[Machine] = []
        self._folder = folder
        self._links = Links()
        self._lease_s = lease_s
        self._slots = slots
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._links.__enter__()
        self.redis.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for machine in self.all:
            machine.die()
        self.redis.kill()
        self._links.__exit__(kind, error, at)

    def add(self) -> Machine:
        """Start one more node, and return it when it answers."""
        with self._lock:
            name = f"node-{len(self.all) + 1}"
            link = self._links.lay(self.redis.port)
            machine = Machine(self._folder / name, name, link, lease_s=self._lease_s, slots=self._slots)
            self.all.append(machine)
        machine.start()
        machine.is_sound = True
        return machine

    def cut(self, machine: Machine, *, is_silent: bool) -> None:
        """Cut a node's link to Redis."""
        self._links.cut(machine.link, is_silent=is_silent)

    def heal(self, machine: Machine) -> None:
        """Heal a node's link to Redis."""
        self._links.heal(machine.link)


def _at_home(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get("HOME") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                yield process
