"""The Redis of a simulation: a real server and the real scripts, whose clock, outages and rollbacks are simulated.

The scripts ask for `TIME`; the one change that is made to them is that they read it from a key, which is set before
each call, and that what they publish is put into a list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import redis
from redis import exceptions
from simulation.world import Owner, Waiting, World

from toolkit.model.hosts import Secret
from toolkit.model.nodes import Whereabouts
from toolkit.store.connect import RedisDoor

T = TypeVar("T")
CLOCK, WORDS = "simulation:clock", "simulation:words"
_SNAPSHOTS = range(1, 12)
_COPY = """
redis.call("SELECT", ARGV[2])
redis.call("FLUSHDB")
redis.call("SELECT", ARGV[1])
local keys = redis.call("KEYS", "*")
for _, key in ipairs(keys) do
  redis.call("COPY", key, key, "DB", ARGV[2], "REPLACE")
end
return #keys
"""


class Real:
    """The real server, emptied for each history; its clients and known scripts are shared by all doors."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.text: redis.Redis = redis.Redis.from_url(url, protocol=2, decode_responses=True, encoding_errors="replace")
        self.bytes: redis.Redis = redis.Redis.from_url(url, protocol=2)
        self.scripts: dict[str, Any] = {}
        self.binary_scripts: dict[str, Any] = {}
        self._copy = self.text.register_script(_COPY)

    def empty(self) -> None:
        """Forget everything but the scripts."""
        self.text.flushall()

    def keep(self, number: int) -> None:
        """Keep a copy of the present state under a number."""
        self._copy(args=[0, number])

    def restore(self, number: int) -> None:
        """Bring a copy back."""
        self._copy(args=[number, 0])


class Server(Owner):
    """The server as nodes and workers see it. It can be away, frozen, older than it was, and its clock can step."""

    def __init__(self, world: World, real: Real) -> None:
        super().__init__("redis")
        self.world = world
        self.real = real
        self.is_down = False
        self.life = 1
        """Rises with each start: connections of earlier lives are broken."""
        self.offset_s = 0.0
        self.rollbacks: list[tuple[float, float]] = []
        """When it came back, and from when its state was."""
        self.on_words: list[Callable[[str], None]] = []
        self.listening: list[Callable[[], None]] = []
        self._free = list(_SNAPSHOTS)
        real.empty()

    def carry_out(self, call: Callable[[], T]) -> T:
        """Do what a client asks for, at this moment of the simulation."""
        now = self.world.now + self.offset_s
        text = self.real.text
        text.hset(CLOCK, mapping={"s": int(now), "us": int(now % 1 * 1_000_000), "run": f"life{self.life}"})
        try:
            return call()
        finally:
            words = text.lpop(WORDS, 1000)
            for word in words if isinstance(words, list) else ():
                for hear in list(self.on_words):
                    hear(str(word))

    def die(self) -> None:
        """End at once; whoever is connected finds that out."""
        self.is_down = True
        self.life += 1
        self._break_listeners()

    def come_back(self, *, snapshot: Snapshot | None = None) -> None:
        """Answer again, with the state of before or an older one."""
        if snapshot is not None:
            self.real.restore(snapshot.number)
            self._free.append(snapshot.number)
            self.rollbacks.append((self.world.now, snapshot.at))
        self.is_down = False

    def snapshot(self) -> Snapshot | None:
        """Keep the present state to come back with it; `None` when too many are kept."""
        if not self._free:
            return None
        number = self._free.pop()
        self.real.keep(number)
        return Snapshot(number, self.world.now)

    def _break_listeners(self) -> None:
        listening, self.listening = self.listening, []
        for broken in listening:
            broken()


class Snapshot:
    """A state that the server was in."""

    def __init__(self, number: int, at: float) -> None:
        self.number, self.at = number, at


class Link:
    """One client's way to the server. Cut, calls are refused, or, silently, stuck until it heals."""

    def __init__(self, world: World, server: Server, owner: Owner, *, name: str) -> None:
        self.world, self.server, self.owner = world, server, owner
        self.name = name
        self.cut: str = ""
        self.slow_s = 0.0
        self.losses = 0.0
        self._chance = world.random(f"link {name}")
        self._stuck: list[Callable[[], None]] = []
        self._network = Owner(f"network of {name}")
        self.listening: list[Callable[[], None]] = []

    def carry(self, call: Callable[[], T], *, patience_s: float) -> T:
        """Bring a call to the server and its answer back, in a task.

        Raises:
            redis.exceptions.RedisError: no answer came, whatever became of the call; or what the server answered.

        """
        reply = Waiting()
        life = self.server.life
        if self.cut == "refused" or (self.server.is_down and self.cut == ""):
            self.world.sleep(self._delay())
            raise exceptions.ConnectionError("Connection refused")
        self.world.after(self._delay(), self._network, lambda: self._arrive(call, reply, life))
        if not self.world.wait(reply, patience_s):
            raise exceptions.TimeoutError("Timeout reading from socket")
        error, result = reply.value
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def heal(self) -> None:
        """Lead to the server again; what was stuck arrives late, or never."""
        self.cut = ""
        stuck, self._stuck = self._stuck, []
        for arrive in stuck:
            if self._chance.random() < 0.5:
                self.world.after(self._delay(), self._network, arrive)

    def break_off(self, how: str) -> None:
        """Lead nowhere: `refused`, or `silent`."""
        self.cut = how
        if how == "refused":
            listening, self.listening = self.listening, []
            for broken in listening:
                broken()

    def _arrive(self, call: Callable[[], Any], reply: Waiting, life: int) -> None:
        server = self.server
        if self.cut == "silent":
            self._stuck.append(lambda: self._arrive(call, reply, life))
            return
        if self.cut or server.is_down or server.life != life:
            self._answer(reply, exceptions.ConnectionError("Connection closed by server"), None)
            return
        if server.holder() is not None:
            server.miss(lambda: self._arrive(call, reply, life))
            return
        try:
            result, error = server.carry_out(call), None
        except exceptions.RedisError as problem:
            result, error = None, problem
        if self._chance.random() < self.losses:
            self._answer(reply, exceptions.ConnectionError("Connection reset by peer"), None)
            return
        self._answer(reply, error, result)

    def _answer(self, reply: Waiting, error: Exception | None, result: Any) -> None:
        def arrive() -> None:
            if not self.cut:
                reply.set((error, result))

        self.world.after(self._delay(), self._network, arrive)

    def _delay(self) -> float:
        return self._chance.uniform(0.0001, 0.003) + self._chance.random() ** 4 * self.slow_s


class Door(RedisDoor):
    """A store's door to the simulated server; `link` is the way there."""

    def __init__(self, link: Link, *, patience_s: float = 5.0) -> None:
        super().__init__(Secret(link.server.real.url), patience_s=patience_s)
        real = link.server.real
        self._link = link
        self._client = real.text
        self.__dict__["_binary"] = real.bytes
        self._scripts, self._binary_scripts = real.scripts, real.binary_scripts

    def ask(self, *command: Any) -> Any:
        if command[0] == "PUBLISH":
            command = ("RPUSH", WORDS, command[2])
        return super().ask(*command)

    def whereabouts(self, *, anew: bool = False) -> Whereabouts:
        return Whereabouts("10.0.0.1", "10.0.0.1")

    def forget_connections(self) -> None:
        """There are none that could be left."""

    def close(self) -> None:
        """Keep the clients, which are everybody's."""

    def listen(self, channel: str, *, timeout_s: float) -> Any:
        """Yield what is published, as `RedisDoor.listen` does."""
        world, link = self._link.world, self._link
        self._carry(lambda: None)
        heard: list[str] = []
        waiting = Waiting()
        is_broken = False

        def hear(word: str) -> None:
            if not link.cut:
                heard.append(word)
                waiting.set()

        def broken() -> None:
            nonlocal is_broken
            is_broken = True
            waiting.set()

        link.server.on_words.append(hear)
        link.server.listening.append(broken)
        link.listening.append(broken)
        try:
            yield ""
            while True:
                is_woken = world.wait(waiting, timeout_s)
                if is_broken:
                    with self._translated():
                        raise exceptions.ConnectionError("Connection closed by server")
                if not is_woken:
                    # A server that is silent for long is asked whether it is there.
                    self._carry(lambda: None)
                waiting = Waiting()
                words, heard = heard, []
                yield from words or [""]
        finally:
            link.server.on_words.remove(hear)

    def _carry(self, call: Callable[[], T], *, is_write: bool = False) -> T:
        with self._translated(is_write=is_write):
            return self._link.carry(call, patience_s=self.address.answer_timeout_s)

    def _clients(self) -> list[redis.Redis]:
        return []

    def _source(self, script: str) -> str:
        text = super()._source(script)
        text = text.replace('redis.call("TIME")', f'redis.call("HMGET", "{CLOCK}", "s", "us")')
        text = text.replace(
            'redis.call("INFO", "server")', f'"run_id:" .. (redis.call("HGET", "{CLOCK}", "run") or "none")'
        )
        return text.replace('redis.call("PUBLISH", ', f'redis.call("RPUSH", "{WORDS}", ').replace(
            f'"{WORDS}", wake, ', f'"{WORDS}", '
        )
