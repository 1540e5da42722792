"""The one door to Redis: connects, sends commands and scripts, and turns every failure into `StoreUnreachableError`.

Loading the redis library takes longer than most commands take to run, so this module is imported only where there is a
Redis to open (`open.py`).
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry
from redis.sentinel import Sentinel

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.model.nodes import Whereabouts
from toolkit.store.address import RedisAddress, parse_address
from toolkit.store.redis_errors import store_error

Argument = str | bytes | int
T = TypeVar("T")

ACKNOWLEDGED_WITHIN_S = 0.25
"""How long a write that a failover must not lose waits for a replica."""

ALONE_AFTER_S = 15.0
"""After so long without an acknowledgement nothing waits any more: work goes on as on a server without replicas."""

LOOK_FOR_REPLICAS_EVERY_S = 1.0
_REPLICATION: Sequence[Argument] = ("INFO", "replication")


def connect(url: Secret) -> redis.Redis:
    """Return a client for the URL (its forms: `address.py`); nothing is sent yet.

    It gives up connecting after 3 s and waiting for an answer after 5 s unless the URL says otherwise, and never
    repeats a command by itself: a write whose answer was lost may have been done. Several threads may use it.

    Raises:
        ConfigurationError: the URL cannot be understood.

    """
    return _client(parse_address(url))


@dataclass(frozen=True, slots=True)
class _Replicas:
    """Whether the server has any, as seen on so many connections, at a time of the monotonic clock."""

    are_there: bool
    connections: int
    seen_at: float


class RedisDoor:
    """One Redis as the store's rooms see it: commands and scripts in, plain values out, one kind of error.

    No connection or answer is waited for longer than `patience_s` seconds, nor than the URL says. Safe
    between threads. A connection that broke is made anew by the next call.

    Raises:
        ConfigurationError: the URL cannot be understood, or names TLS files that cannot be used.
        StoreUnreachableError: from every method, saying where and why, never with a password.

    """

    def __init__(self, url: Secret | RedisAddress, *, patience_s: float = math.inf) -> None:
        address = url if isinstance(url, RedisAddress) else parse_address(url)
        self.address = replace(
            address,
            connect_timeout_s=min(address.connect_timeout_s, patience_s),
            answer_timeout_s=min(address.answer_timeout_s, patience_s),
        )
        self._connections = 0
        self._seen: tuple[int, Whereabouts] | None = None
        self._client = _client(self.address, on_connect=self._connected)
        self._scripts: dict[str, Any] = {}
        self._binary_scripts: dict[str, Any] = {}
        self._replicas: _Replicas | None = None
        self._unacknowledged_since: float | None = None

    def ask(self, *command: Argument) -> Any:
        """Send one command and return its answer as redis-py shapes it, bytes as text."""
        return self._carry(lambda: self._client.execute_command(*command))  # type: ignore[no-untyped-call]

    def ask_together(self, *commands: Sequence[Argument]) -> list[Any]:
        """Send several commands in one round trip; no other client's command comes between them (MULTI/EXEC)."""
        return self._carry(lambda: _together(self._client, commands))

    def run(self, script: str, *, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Run `lua/<script>.lua`, a write; a server that does not know it (restart, SCRIPT FLUSH) is sent it first."""
        return self._run(self._client, self._scripts, script, keys, args)

    def run_kept(self, script: str, *, keys: Sequence[str], args: Sequence[Argument]) -> tuple[Any, bool]:
        """Run a script as `run` does; return its answer, and whether a replica acknowledged what it wrote (WAIT).

        The script must write something, whatever it finds: WAIT does not wait for what other connections wrote.
        The wait is part of the same round trip and takes 0.25 s at most. It is `True` without a wait where there is no
        replica, or our user may not WAIT. A server that loses its replicas may be one that is being replaced, so all
        answers are `False` until one acknowledges again, for 15 s at most.
        """
        return self._run_kept(self._client, self._scripts, script, keys, args)

    def ask_for_bytes(self, *command: Argument) -> bytes | None:
        """Send one command whose answer is no text, and return that answer as it is."""
        answer = self._carry(lambda: self._binary.execute_command(*command))  # type: ignore[no-untyped-call]
        return None if answer is None else bytes(answer)

    def run_for_bytes(self, script: str, *, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Run a script as `run` does, and return its answer with texts as bytes."""
        return self._run(self._binary, self._binary_scripts, script, keys, args)

    def run_kept_for_bytes(self, script: str, *, keys: Sequence[str], args: Sequence[Argument]) -> tuple[Any, bool]:
        """Run a script as `run_kept` does, on the connection of `run_for_bytes`: so after what that wrote there."""
        return self._run_kept(self._binary, self._binary_scripts, script, keys, args)

    def ask_together_for_bytes(self, *commands: Sequence[Argument]) -> list[Any]:
        """Send several commands as `ask_together` does, and return their answers with texts as bytes."""
        return self._carry(lambda: _together(self._binary, commands))

    def ask_groups_for_bytes(self, groups: Sequence[Sequence[Sequence[Argument]]]) -> list[list[Any]]:
        """Send groups of commands as one `ask_together_for_bytes`, and return for each group its answers."""
        commands = [command for group in groups for command in group]
        answers = iter(self.ask_together_for_bytes(*commands) if commands else ())
        return [list(islice(answers, len(group))) for group in groups]

    def wait_for_bytes(self, key: str, *, most: int, timeout_s: float) -> list[bytes]:
        """Take up to `most` entries off the head of a list, waiting for a first one (BLMPOP); none when none came.

        It waits for no longer than half of what any answer may take, so that waiting is not mistaken for silence.
        """
        timeout_s = max(0.01, min(timeout_s, self.address.answer_timeout_s / 2))
        command = ("BLMPOP", timeout_s, 1, key, "LEFT", "COUNT", most)
        found = self._carry(lambda: self._binary.execute_command(*command))  # type: ignore[no-untyped-call]
        return [] if found is None else list(found[1])

    def listen(self, channel: str, *, timeout_s: float) -> Iterator[str]:
        """Yield what is published on a channel, on a connection of its own; an empty text after each silent term.

        The first thing it yields is an empty text, when it listens: what is published from then on is not missed. A
        server that is silent for as long as an answer may take is asked whether it is there, and must answer in time.
        """
        with self._translated():
            messages = self._client.pubsub(ignore_subscribe_messages=False)  # type: ignore[no-untyped-call]
            patience_s = self.address.answer_timeout_s
            heard_at, asked_at = time.monotonic(), None
            try:
                messages.subscribe(channel)
                while True:
                    message = messages.get_message(timeout=timeout_s)
                    now = time.monotonic()
                    if message:
                        heard_at, asked_at = now, None
                    elif asked_at is None and now - heard_at > patience_s:
                        messages.ping()
                        asked_at = now
                    elif asked_at is not None and now - asked_at > patience_s:
                        # Nothing tells of a machine that vanished, or of a router that forgot the connection.
                        raise store_error(TimeoutError(), self.address, waited_s=now - asked_at)
                    yield str(message["data"]) if message and message["type"] == "message" else ""
            finally:
                messages.close()

    def whereabouts(self, *, anew: bool = False) -> Whereabouts:
        """Return our own end of the connection; Redis is asked (CLIENT INFO) only when one is new.

        `anew` asks on a connection made for that, whatever became of the others.
        """
        if anew:
            with contextlib.closing(_client(self.address)) as client:
                return Whereabouts(_local_end(self.address), self._seen_from(client))
        count = self._connections
        if self._seen is None or self._seen[0] != count:
            outside = self._seen_from(self._client)
            self._seen = (self._connections, Whereabouts(_local_end(self.address), outside))
        return self._seen[1]

    def forget_connections(self) -> None:
        """Close all connections, those in use too, whose calls fail; the next calls make new ones."""
        for client in self._clients():
            client.connection_pool.disconnect()
        self._seen = None

    def _seen_from(self, client: redis.Redis) -> str | None:
        with self._translated():
            try:
                told = str(client.execute_command("CLIENT", "INFO"))  # type: ignore[no-untyped-call]
            except ResponseError:
                return None  # Its user may not ask, or it is older than Redis 6.2.
        found = re.search(r"(?:^| )addr=(\S+):\d+", told)
        return found[1].strip("[]") if found else None

    def _connected(self, connection: Any) -> None:
        connection.on_connect()
        self._connections += 1

    def _clients(self) -> list[redis.Redis]:
        return [client for client in (self._client, self.__dict__.get("_binary")) if client is not None]

    @cached_property
    def _binary(self) -> redis.Redis:
        return _client(self.address, decodes=False, on_connect=self._connected)

    def now(self) -> datetime:
        """Return Redis' own time (TIME)."""
        seconds, microseconds = self.ask("TIME")
        return datetime.fromtimestamp(int(seconds), UTC).replace(microsecond=int(microseconds))

    def close(self) -> None:
        """Close the connections; the next call would make a new one."""
        for client in self._clients():
            client.close()

    def _run(
        self, client: redis.Redis, known: dict[str, Any], script: str, keys: Sequence[str], args: Sequence[Argument]
    ) -> Any:
        code = self._script(client, known, script)
        return self._carry(lambda: code(keys=keys, args=args), is_write=True)

    def _run_kept(
        self, client: redis.Redis, known: dict[str, Any], script: str, keys: Sequence[str], args: Sequence[Argument]
    ) -> tuple[Any, bool]:
        code = self._script(client, known, script)
        seen = self._replicas
        if seen is None or seen.connections != self._connections:
            # A new connection may lead to another server.
            seen = self._see_replicas(self._carry(lambda: _in_a_row(client, [_REPLICATION]))[0])
        then: list[Sequence[Argument]] = []
        if seen.are_there:
            wait_s = min(ACKNOWLEDGED_WITHIN_S, self.address.answer_timeout_s / 2)
            # WAIT takes 0 for no limit.
            then = [("WAIT", 1, max(1, round(wait_s * 1000))), _REPLICATION]
        elif time.monotonic() - seen.seen_at > LOOK_FOR_REPLICAS_EVERY_S:
            then = [_REPLICATION]
        answer, *told = self._carry(lambda: _run_before(client, code, keys, args, then), is_write=True)
        if told:
            self._see_replicas(told.pop())
        return answer, self._is_kept(*told)

    def _script(self, client: redis.Redis, known: dict[str, Any], script: str) -> Any:
        if script not in known:
            known[script] = client.register_script(self._source(script))
        return known[script]

    def _see_replicas(self, told: Any) -> _Replicas:
        parts = told.values() if isinstance(told, Mapping) else ()
        are_there = any(isinstance(part, Mapping) and part.get("state") == "online" for part in parts)
        before = self._replicas
        self._replicas = seen = _Replicas(are_there, self._connections, time.monotonic())
        if before is not None and before.are_there and not are_there:
            # A server that was killed and comes back takes itself for the primary until it hears of the new one.
            self._unacknowledged_since = self._unacknowledged_since or seen.seen_at
        return seen

    def _is_kept(self, acknowledged: Any = None) -> bool:
        """Judge the answer to WAIT, which is `None` where there was no replica to wait for."""
        is_unable = isinstance(acknowledged, exceptions.NoPermissionError) or "unknown command" in str(acknowledged)
        if is_unable or (isinstance(acknowledged, int) and acknowledged > 0):
            self._unacknowledged_since = None
        elif acknowledged is not None:
            self._unacknowledged_since = self._unacknowledged_since or time.monotonic()
        since = self._unacknowledged_since
        return since is None or time.monotonic() - since > ALONE_AFTER_S

    def _carry(self, call: Callable[[], T], *, is_write: bool = False) -> T:
        """Make one call to Redis, there and back."""
        with self._translated(is_write=is_write):
            return call()

    def _source(self, script: str) -> str:
        """Return a script with what it includes, below the line that tells Redis its flags."""
        text = resources.files("toolkit.store").joinpath("lua", f"{script}.lua").read_text(encoding="utf-8")
        included = re.search(r"^-- INCLUDES: (\w+)$", text, re.MULTILINE)
        source = text if included is None else f"{self._source(included[1])}\n{text}"
        flags = re.search(r"^-- FLAGS: (\S+)$", text, re.MULTILINE)
        return source if flags is None else f"#!lua flags={flags[1]}\n{source}"

    @contextmanager
    def _translated(self, *, is_write: bool = False) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except (RedisError, OSError) as error:
            if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
                # What killed this connection, as a new address does, has killed the idle ones; each would hang in turn.
                for client in self._clients():
                    client.connection_pool.disconnect(inuse_connections=False)
            raise store_error(error, self.address, waited_s=time.monotonic() - began, is_write=is_write) from error


def bare_client(address: RedisAddress) -> redis.Redis:
    """Return a client that shows no credentials, to see whether strangers are let in; errors are not translated."""
    return _client(replace(address, username=None, password=None))


def _local_end(address: RedisAddress) -> str | None:
    """Return the address that this machine uses towards Redis; it is asked of the system, and nothing is sent."""
    if not address.hosts:
        return None
    with contextlib.suppress(OSError):
        for family, kind, protocol, _, place in socket.getaddrinfo(*address.hosts[0], type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(place)
                return str(probe.getsockname()[0])
    return None


def _together(client: redis.Redis, commands: Sequence[Sequence[Argument]]) -> list[Any]:
    with client.pipeline(transaction=True) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        return list(pipeline.execute())


def _in_a_row(client: redis.Redis, commands: Sequence[Sequence[Argument]]) -> list[Any]:
    """Send commands in one round trip on one connection; an answer may be an error."""
    with client.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        return list(pipeline.execute(raise_on_error=False))


def _run_before(
    client: redis.Redis, code: Any, keys: Sequence[str], args: Sequence[Argument], then: Sequence[Sequence[Argument]]
) -> list[Any]:
    """Run a script, and other commands after it on the same connection; only an error of the script is raised."""
    commands = [("EVALSHA", code.sha, len(keys), *keys, *args), *then]
    answers = _in_a_row(client, commands)
    if isinstance(answers[0], exceptions.NoScriptError):
        client.script_load(code.script)
        answers = _in_a_row(client, commands)
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers


def _client(
    address: RedisAddress, *, decodes: bool = True, on_connect: Callable[[Any], None] | None = None
) -> redis.Redis:
    options: dict[str, Any] = {
        "db": address.db,
        "username": address.username,
        "password": address.password.reveal() if address.password else None,
        "socket_timeout": address.answer_timeout_s,
        "socket_connect_timeout": address.connect_timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": decodes,
        "redis_connect_func": on_connect,
        # A body that is no UTF-8 must come through, so that the wire format refuses it by name.
        "encoding_errors": "replace",
    }
    if address.socket_path is not None:
        options["unix_socket_path"] = address.socket_path
    if address.tls is not None:
        options |= {"ssl": True, **_tls(address.tls)}
    if address.service is not None:
        return _master(address, options)
    if address.hosts:
        options["host"], options["port"] = address.hosts[0]
    return redis.Redis(**options)


def _master(address: RedisAddress, options: dict[str, Any]) -> redis.Redis:
    to_sentinel = options | {
        "db": 0,
        "username": address.sentinel_username,
        "password": address.sentinel_password.reveal() if address.sentinel_password else None,
        "socket_timeout": address.connect_timeout_s,
    }
    sentinel = Sentinel(list(address.hosts), sentinel_kwargs=to_sentinel, **options)  # type: ignore[no-untyped-call]
    master: redis.Redis = sentinel.master_for(address.service)  # type: ignore[no-untyped-call]
    return master


def _tls(options: Mapping[str, str]) -> dict[str, Any]:
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        if name in options and not Path(options[name]).is_file():
            raise ConfigurationError(
                f"there is no file {options[name]}, which the Redis URL names as {name}",
                hint="write its absolute path",
            )
    checks = options.get("ssl_cert_reqs", "required").lower()
    checks_host = options.get("ssl_check_hostname", "no" if checks == "none" else "yes").lower()
    return {**options, "ssl_cert_reqs": checks, "ssl_check_hostname": checks_host in {"yes", "true", "1"}}
