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
import redis
from chaos.links import Link, Links
from support.plugin_node import PluginNode
from support.redis_server import RedisServer
from support.waiting import wait_until

STOP_WITHIN_S = 15.0
CONTAINER_STOPS_WITHIN_S = 10.0
WRITTEN_WITHIN_S = 30.0


class Machine:
    """One node: up or down, its link whole or cut. `is_sound` while nothing is being done to it.

    With `is_container`, its spiders are closed when Scrapyd is stopped.
    """

    def __init__(
        self, folder: Path, name: str, link: Link, *, lease_s: float, slots: int, is_container: bool = False
    ) -> None:
        self.name = name
        self.link = link
        self.is_container = is_container
        self.is_sound = False
        self.scrapyd = PluginNode(
            folder,
            redis_url=f"redis://127.0.0.1:{link.port}/0",
            name=name,
            slots=slots,
            lease_s=lease_s,
            own={"on_stop": "close" if is_container else "leave"},
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
        """End Scrapyd with SIGTERM; only in a container it ends its spiders. Return whether it ended in time."""
        process = psutil.Process(self.scrapyd.pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(CONTAINER_STOPS_WITHIN_S if self.is_container else STOP_WITHIN_S)
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
    """All machines, and the Redis that they share; ended with the context, whatever happened.

    `redis` is the server of the moment; at `url` it is reached also after another has taken its place.
    """

    def __init__(self, folder: Path, *, lease_s: float, slots: int) -> None:
        self.redis = RedisServer(folder / "redis-1")
        self.all: list[Machine] = []
        self._folder = folder
        self._links = Links()
        self._lease_s = lease_s
        self._slots = slots
        self._servers = [self.redis]
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._links.__enter__()
        self.redis.start()
        self._front = self._links.lay(self.redis.port)
        return self

    @property
    def url(self) -> str:
        """Redis' address for whoever runs on none of the machines."""
        return f"redis://127.0.0.1:{self._front.port}/0"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for machine in self.all:
            machine.die()
        for server in self._servers:
            server.kill()
        self._links.__exit__(kind, error, at)

    def add(self) -> Machine:
        """Start one more node, and return it when it answers."""
        with self._lock:
            name = f"node-{len(self.all) + 1}"
            link = self._links.lay(self.redis.port)
            machine = Machine(
                self._folder / name,
                name,
                link,
                lease_s=self._lease_s,
                slots=self._slots,
                is_container=len(self.all) % 2 == 1,
            )
            self.all.append(machine)
        machine.start()
        machine.is_sound = True
        return machine

    def promoted(self) -> RedisServer:
        """Start a replica and promote it once it has all; who uses Redis does not know it yet."""
        replica = RedisServer(self._folder / f"redis-{len(self._servers) + 1}")
        self._servers.append(replica)
        replica.start()
        replica.follow(self.redis)
        with redis.Redis.from_url(replica.url) as client:

            def is_written() -> bool:
                return not client.info("persistence")["aof_rewrite_in_progress"]

            wait_until(is_written, deadline_s=WRITTEN_WITHIN_S, what="the replica's file")
            client.replicaof("NO", "ONE")
        return replica

    def hand_over(self, promoted: RedisServer) -> None:
        """Let another server take the place of `redis`, which ends."""
        with self._lock:
            former, self.redis = self.redis, promoted
            for link in (self._front, *(machine.link for machine in self.all)):
                self._links.lead_to(link, promoted.port)
        former.kill()

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
