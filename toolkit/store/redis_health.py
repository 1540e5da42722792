"""Reads how the cluster's Redis is: INFO, a little of CONFIG and ACL, its clock, and whether it asks for a password.

Nothing is changed there. What our user may not ask is left out and named, so that nobody takes it for well.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redis.exceptions import RedisError

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.model.redis_health import RedisHealth, Replica
from toolkit.store.connect import RedisDoor, bare_client

PINGS = 5
MIN_REPLICAS = "min-replicas-to-write"
_NOTHING: Mapping[str, Any] = {}


def read_health(url: Secret, *, patience_s: float = 5.0) -> RedisHealth:
    """Return one reading; no answer is waited for longer than `patience_s` seconds, nor than the URL says.

    Raises:
        ConfigurationError: the URL cannot be understood.
        StoreUnreachableError: it does not answer, or lets us not in.

    """
    door = RedisDoor(url, patience_s=patience_s)
    try:
        door.ask("PING")
        begun, begun_at = time.monotonic(), time.time()
        theirs = door.now().timestamp()
        took_s = time.monotonic() - begun
        refused: list[str] = []
        health = told(_asked(door, refused, "INFO") or _NOTHING)
        return replace(
            health,
            place=str(door.address),
            latency_s=_latency_s(door),
            clock_ahead_s=theirs - (begun_at + took_s / 2),
            clock_error_s=took_s / 2,
            fsync=_configured(door, refused, "appendfsync"),
            min_replicas=None if health.good_replicas is None else int(_configured(door, refused, MIN_REPLICAS) or 1),
            user=_text(_asked(door, refused, "ACL", "WHOAMI")),
            is_open=_is_open(door),
            refused=tuple(refused),
        )
    finally:
        door.close()


def read_some(door: RedisDoor, *sections: str) -> RedisHealth:
    """Return what these sections of INFO tell, in one round trip; nothing where we may not ask, or none answers."""
    refused: list[str] = []
    said = _asked(door, refused, "INFO", *sections)
    return replace(told(said or _NOTHING), place=str(door.address), refused=tuple(refused))


def told(said: Mapping[str, Any]) -> RedisHealth:
    """Read an answer to INFO; fields that are not there stay `None`. Pure."""
    role = _text(said.get("role"))
    return RedisHealth(
        place="",
        latency_s=0.0,
        clock_ahead_s=0.0,
        clock_error_s=0.0,
        version=_text(said.get("valkey_version") or said.get("redis_version")),
        is_valkey="valkey_version" in said,
        is_append_only=_flag(said.get("aof_enabled")),
        is_last_append_ok=_is_ok(said, "aof_last_write_status", "aof_last_bgrewrite_status"),
        is_last_snapshot_ok=_is_ok(said, "rdb_last_bgsave_status"),
        policy=_text(said.get("maxmemory_policy")),
        max_bytes=_number(said.get("maxmemory")),
        used_bytes=_number(said.get("used_memory")),
        machine_bytes=_number(said.get("total_system_memory")),
        evicted=_number(said.get("evicted_keys")),
        clients=_number(said.get("connected_clients")),
        max_clients=_number(said.get("maxclients")),
        role=role,
        master_is_up=said.get("master_link_status") == "up" if role == "slave" else None,
        replicas=tuple(
            _replica(each, written=_number(said.get("master_repl_offset")))
            for name, each in sorted(said.items())
            if name.removeprefix("slave").isdecimal() and isinstance(each, Mapping)
        ),
        good_replicas=_number(said.get("min_slaves_good_slaves")),
    )


def config_pairs(answer: Any) -> dict[str, str]:
    """Read an answer to CONFIG GET, in either of the shapes that the library gives it."""
    if not isinstance(answer, Mapping):
        answer = dict(zip(answer[::2], answer[1::2], strict=True)) if answer else {}
    return {str(name): str(value) for name, value in answer.items()}


def _replica(said: Mapping[str, Any], *, written: int | None) -> Replica:
    has = _number(said.get("offset"))
    return Replica(
        f"{said.get('ip')}:{said.get('port')}",
        said.get("state") == "online",
        _number(said.get("lag")) or 0,
        None if written is None or has is None else max(0, written - has),
    )


def _configured(door: RedisDoor, refused: list[str], name: str) -> str | None:
    return config_pairs(_asked(door, refused, "CONFIG", "GET", name)).get(name)


def _asked(door: RedisDoor, refused: list[str], *command: str) -> Any:
    """Ask for what a user of few rights may be refused; that is noted, and is no failure."""
    try:
        return door.ask(*command)
    except StoreUnreachableError as error:
        refused.append(f"{' '.join(command)}: {error.message}")
        return None


def _latency_s(door: RedisDoor) -> float:
    taken = []
    for _ in range(PINGS):
        begun = time.monotonic()
        door.ask("PING")
        taken.append(time.monotonic() - begun)
    return statistics.median(taken)


def _is_open(door: RedisDoor) -> bool | None:
    """Tell whether a stranger is let in; `None` when that could not be tried."""
    client = bare_client(door.address)
    try:
        return bool(client.ping())
    except RedisError as error:
        words = str(error).lower()
        return False if "auth" in words or "denied" in words or "noperm" in words else None
    except OSError:
        return None
    finally:
        client.close()


def _is_ok(said: Mapping[str, Any], *names: str) -> bool | None:
    known = [said[name] for name in names if name in said]
    return all(each == "ok" for each in known) if known else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)
