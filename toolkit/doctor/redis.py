"""Judges the cluster's Redis: what it would lose, when it is full, who is let in, how far away it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.doctor.judged import ERROR, NOTE, WARNING, Judged, found
from toolkit.model.redis_health import FULL, NEARLY_FULL, RedisHealth

LEAST_REDIS, LEAST_VALKEY = (7, 0), (7, 2)
SLOW_S, VERY_SLOW_S = 0.02, 0.1
SKEW_S, LARGE_SKEW_S = 2.0, 60.0
LAG_S = 10


def judge_redis(health: RedisHealth, *, is_of_this_machine: bool) -> list[Judged]:
    """Say what is wrong with the Redis, or might become so."""
    return [
        *_judge_version(health),
        *_judge_keeping(health),
        *_judge_memory(health),
        *_judge_guests(health, is_of_this_machine=is_of_this_machine),
        *_judge_copies(health),
        *_judge_min_replicas(health),
        *_judge_way(health),
    ]


def unseen_of(health: RedisHealth) -> tuple[str, ...]:
    """Name what our user may not ask this Redis."""
    return tuple(f"Redis: {each}" for each in health.refused)


def set_command(health: RedisHealth, option: str, value: str) -> str:
    """Return the command that sets an option in a running Redis."""
    host, _, port = health.place.rpartition(":")
    to = f" -h {host} -p {port}" if re.fullmatch(r"[\w.-]+", host) and port.isdecimal() else ""
    return f"redis-cli{to} CONFIG SET {option} {value}"


def _judge_version(health: RedisHealth) -> Iterator[Judged]:
    least = LEAST_VALKEY if health.is_valkey else LEAST_REDIS
    numbers = re.findall(r"\d+", health.version or "")
    if numbers and tuple(map(int, numbers[:2])) < least:
        need = ".".join(map(str, least))
        text = f"the Redis at {health.place} is {health.product}; the queue and the frontier are tried with {need} on"
        yield found("redis-version", ERROR, text, command="crawlctl docs node")


def _judge_keeping(health: RedisHealth) -> Iterator[Judged]:
    where = f"the Redis at {health.place}"
    if health.is_append_only is False:
        text = f"{where} has no append-only file: a restart loses jobs and entries that were accepted"
        yield found("redis-persistence", WARNING, text, command=set_command(health, "appendonly", "yes"))
    elif health.fsync == "no":
        text = f"{where} leaves to the system when its file is flushed: a power cut may lose half a minute"
        yield found("redis-persistence", WARNING, text, command=set_command(health, "appendfsync", "everysec"))
    for is_ok, what in (
        (health.is_last_append_ok, "its append-only file"),
        (health.is_last_snapshot_ok, "its snapshot"),
    ):
        if is_ok is False:
            text = f"{where} could not write {what} the last time: look at its disk and its log"
            yield found("redis-saving", ERROR, text, command="df -h")


def _judge_memory(health: RedisHealth) -> Iterator[Judged]:
    where = f"the Redis at {health.place}"
    evicts = health.policy not in {None, "noeviction"}
    repair = set_command(health, "maxmemory-policy", "noeviction")
    if health.evicted:
        text = f"{where} has thrown {health.evicted} keys away since its start: jobs, releases or entries may be gone"
        yield found("redis-eviction", ERROR, text, command=repair)
    elif evicts and health.max_bytes:
        text = f"{where} throws records away when it is full (maxmemory-policy {health.policy})"
        yield found("redis-eviction", ERROR, text, command=repair)
    elif evicts:
        text = f"{where} would throw records away (maxmemory-policy {health.policy}) if it were given a maxmemory"
        yield found("redis-eviction", NOTE, text, command=repair)
    if (trouble := health.memory_trouble) is not None:
        severity = ERROR if (health.memory_share or 0.0) >= FULL else WARNING
        yield found("redis-memory", severity, f"{where} {trouble}", command="crawlctl crawls list")
    if health.clients and health.max_clients and health.clients >= NEARLY_FULL * health.max_clients:
        text = f"{where} has {health.clients} connections of at most {health.max_clients}; then nodes are turned away"
        command = set_command(health, "maxclients", str(2 * health.max_clients))
        yield found("redis-clients", WARNING, text, command=command)


def _judge_guests(health: RedisHealth, *, is_of_this_machine: bool) -> Iterator[Judged]:
    where = f"the Redis at {health.place}"
    if health.is_open:
        text = f"{where} asks for no password: who reaches it can run code on every node"
        severity = WARNING if is_of_this_machine else ERROR
        yield found("redis-open", severity, text, command="crawlctl docs security")
    elif health.user == "default" and not is_of_this_machine:
        text = f"{where} knows us as its user default, who may do everything: a user with fewer rights is enough"
        yield found("redis-user", NOTE, text, command="crawlctl docs security")


def _judge_copies(health: RedisHealth) -> Iterator[Judged]:
    where = f"the Redis at {health.place}"
    if health.role == "slave":
        state = "" if health.master_is_up else ", and it has lost its master"
        text = f"{where} is a replica{state}, and takes no changes: the inventory has to name its master, or a Sentinel"
        yield found("redis-replica", ERROR, text, command="crawlctl docs inventory")
    for replica in health.replicas:
        if not replica.is_online or replica.lag_s >= LAG_S:
            why = f"lags {replica.lag_s} s behind" if replica.is_online else "is not up to date"
            text = f"{where}: its replica {replica.address} {why}; a failover would lose what it lacks"
            yield found("redis-replica", WARNING, text)


def _judge_min_replicas(health: RedisHealth) -> Iterator[Judged]:
    where, needed = f"the Redis at {health.place}", health.min_replicas or 1
    if health.role != "master":
        return
    if health.good_replicas is not None and health.good_replicas < needed:
        text = (
            f"{where} refuses every write: min-replicas-to-write is {needed}, replicas in step: {health.good_replicas}"
        )
        yield found("redis-min-replicas", ERROR, text, command="crawlctl redis configure")
    elif health.good_replicas is None and health.replicas:
        text = f"{where} has replicas but no min-replicas-to-write: what a failover may lose is not limited"
        if lacking := [each.behind_bytes for each in health.replicas if each.behind_bytes is not None]:
            lag_s = max(each.lag_s for each in health.replicas)
            text += f" (now at most {max(lacking)} bytes, last acknowledged {lag_s} s ago)"
        yield found("redis-min-replicas", WARNING, text, command="crawlctl redis configure --apply")


def _judge_way(health: RedisHealth) -> Iterator[Judged]:
    if health.latency_s >= SLOW_S:
        severity = WARNING if health.latency_s >= VERY_SLOW_S else NOTE
        text = f"the Redis at {health.place} answers us after {1000 * health.latency_s:.0f} ms: commands feel slow here"
        yield found("redis-slow", severity, text)
    ahead_s = health.clock_ahead_s
    if abs(ahead_s) - health.clock_error_s >= SKEW_S:
        which = "ahead of" if ahead_s > 0 else "behind"
        text = f"the clock of the Redis at {health.place} is {abs(ahead_s):.1f} s {which} this machine's"
        severity = ERROR if abs(ahead_s) >= LARGE_SKEW_S else WARNING
        yield found("redis-clock", severity, text, command="timedatectl status")
