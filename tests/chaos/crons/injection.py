"""Kills, freezes and restarts what fires, and Redis under it, by a plan of one seed."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from support.plugin_node import PluginNode
from support.processes import Process, end, quiet_environment, start
from support.redis_server import RedisServer

LONGEST_AWAY_S = 1.5
FROZEN_S = 3.0
FOUND_AGAIN_MS = 1000
"""Within this after its start, whoever waits for Redis has found it again."""

NODE_GONE_S = 1.0
_TESTS = Path(__file__).parents[2]


class Contenders:
    """Processes that fire; one that died is replaced by the next look."""

    def __init__(self, count: int, url: str, folder: Path, *, seed: int) -> None:
        self._count, self._url, self._folder = count, url, folder
        self._seed = seed
        self._born = 0
        self.processes: list[Process] = []

    def look(self) -> None:
        """Fill up."""
        self.processes = [process for process in self.processes if process.poll() is None]
        while len(self.processes) < self._count:
            self._born += 1
            name = f"contender-{self._born}"
            words = [self._url, name, str(self._seed * 1000 + self._born), str(self._count)]
            env = {**quiet_environment(self._folder), "PYTHONPATH": f"{_TESTS}:{_TESTS.parent}"}
            with (self._folder / "contenders.log").open("ab") as log:
                command = [sys.executable, "-m", "chaos.crons.contender", *words]
                self.processes.append(start(command, cwd=self._folder, env=env, output=log))

    def end(self) -> None:
        """End all of them."""
        for process in self.processes:
            end(process)


class Injector:
    """Does one fault after the other; `disturbed` are the times without Redis, in milliseconds of this machine."""

    def __init__(
        self,
        redis: RedisServer,
        nodes: list[PluginNode],
        contenders: Contenders,
        *,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._redis, self._nodes, self._contenders = redis, nodes, contenders
        self._chance = random.Random(seed)  # noqa: S311 - a plan, no secret
        self._say = say
        self.kinds: Counter[str] = Counter()
        self.disturbed: list[tuple[int, int]] = []

    def next(self) -> None:
        """Wait for a moment close to a due time, which each whole second is, and let something fail."""
        self._contenders.look()
        now = time.time()
        near = int(now) + 1 + self._chance.uniform(-0.15, 0.15)
        time.sleep(max(0.0, near - now))
        faults = [self._kill_redis, self._kill_redis, self._kill_contender, self._freeze_contender]
        fault = self._chance.choice([*faults, self._kill_node] if self._nodes else faults)
        fault()

    def _kill_redis(self) -> None:
        self.kinds["Redis dies"] += 1
        away_s, begin_ms = self._chance.uniform(0.1, LONGEST_AWAY_S), _now_ms()
        self._say(f"Redis is killed for {away_s:.1f} s")
        self._redis.kill()
        time.sleep(away_s)
        self._redis.start()
        self.disturbed.append((begin_ms, _now_ms() + FOUND_AGAIN_MS))

    def _kill_contender(self) -> None:
        process = self._chance.choice(self._contenders.processes)
        self.kinds["contender dies"] += 1
        self._say(f"contender {process.pid} is killed")
        process.kill()
        process.wait()

    def _freeze_contender(self) -> None:
        process = self._chance.choice(self._contenders.processes)
        self.kinds["contender freezes"] += 1
        self._say(f"contender {process.pid} is frozen for {FROZEN_S:g} s")
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(FROZEN_S)
        os.kill(process.pid, signal.SIGCONT)

    def _kill_node(self) -> None:
        node = self._chance.choice(self._nodes)
        self.kinds["node dies"] += 1
        self._say(f"{node.name} is killed and started again")
        node.kill()
        time.sleep(self._chance.uniform(0, NODE_GONE_S))
        node.start()


def _now_ms() -> int:
    return round(time.time() * 1000)
