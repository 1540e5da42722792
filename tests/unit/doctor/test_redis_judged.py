"""What a doctor says of a Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from toolkit.doctor.redis import judge_redis, unseen_of
from toolkit.model.findings import Finding
from toolkit.model.redis_health import RedisHealth, Replica

GOOD = RedisHealth(
    place="10.0.0.5:6379",
    latency_s=0.001,
    clock_ahead_s=0.01,
    clock_error_s=0.001,
    version="7.0.15",
    is_append_only=True,
    fsync="everysec",
    is_last_append_ok=True,
    is_last_snapshot_ok=True,
    policy="noeviction",
    max_bytes=0,
    used_bytes=100,
    machine_bytes=1000,
    evicted=0,
    clients=3,
    max_clients=10_000,
    role="master",
    user="crawlctl",
    is_open=False,
)
REPLICA = Replica("10.0.0.6:6379", is_online=True, lag_s=1, behind_bytes=512)


def said_of(*, is_of_this_machine: bool = False, **changed: Any) -> list[Finding]:
    judged = judge_redis(replace(GOOD, **changed), is_of_this_machine=is_of_this_machine)
    return [each.finding for each in judged]


def test_nothing_is_said_of_a_good_one() -> None:
    assert said_of() == []


def test_nothing_is_said_of_what_it_did_not_tell() -> None:
    bare = RedisHealth("10.0.0.5:6379", 0.001, 0.0, 0.0, refused=("INFO: no", "CONFIG GET appendfsync: no"))
    assert judge_redis(bare, is_of_this_machine=False) == []
    assert unseen_of(bare) == ("Redis: INFO: no", "Redis: CONFIG GET appendfsync: no")


@pytest.mark.parametrize(
    ("changed", "check", "severity"),
    [
        ({"version": "6.2.14"}, "redis-version", "error"),
        ({"version": "7.0.1", "is_valkey": True}, "redis-version", "error"),
        ({"is_append_only": False}, "redis-persistence", "warning"),
        ({"fsync": "no"}, "redis-persistence", "warning"),
        ({"is_last_append_ok": False}, "redis-saving", "error"),
        ({"is_last_snapshot_ok": False}, "redis-saving", "error"),
        ({"policy": "allkeys-lru"}, "redis-eviction", "note"),
        ({"policy": "allkeys-lru", "max_bytes": 10_000}, "redis-eviction", "error"),
        ({"evicted": 7}, "redis-eviction", "error"),
        ({"used_bytes": 850}, "redis-memory", "warning"),
        ({"used_bytes": 96, "max_bytes": 100}, "redis-memory", "error"),
        ({"clients": 9_000}, "redis-clients", "warning"),
        ({"is_open": True, "user": "default"}, "redis-open", "error"),
        ({"user": "default"}, "redis-user", "note"),
        ({"role": "slave", "master_is_up": False}, "redis-replica", "error"),
        ({"replicas": (replace(REPLICA, lag_s=60),), "good_replicas": 1}, "redis-replica", "warning"),
        ({"replicas": (replace(REPLICA, is_online=False),), "good_replicas": 1}, "redis-replica", "warning"),
        ({"replicas": (REPLICA,)}, "redis-min-replicas", "warning"),
        ({"replicas": (REPLICA,), "good_replicas": 1, "min_replicas": 2}, "redis-min-replicas", "error"),
        ({"good_replicas": 0}, "redis-min-replicas", "error"),
        ({"latency_s": 0.05}, "redis-slow", "note"),
        ({"latency_s": 0.2}, "redis-slow", "warning"),
        ({"clock_ahead_s": -5.0}, "redis-clock", "warning"),
        ({"clock_ahead_s": 500.0}, "redis-clock", "error"),
    ],
)
def test_each_trouble_is_one_finding(changed: dict[str, Any], check: str, severity: str) -> None:
    (finding,) = said_of(**changed)
    assert (finding.check, finding.severity.value) == (check, severity)
    assert "10.0.0.5:6379" in finding.text


def test_a_failover_that_may_lose_any_amount_is_told_with_what_it_would_lose_now() -> None:
    (finding,) = said_of(replicas=(REPLICA, replace(REPLICA, lag_s=0, behind_bytes=0)))
    assert "what a failover may lose is not limited (now at most 512 bytes, last acknowledged 1 s ago)" in finding.text
    assert finding.command == "crawlctl redis configure --apply"


def test_a_replica_in_step_for_each_that_is_wanted_is_well() -> None:
    assert said_of(replicas=(REPLICA, REPLICA), good_replicas=2, min_replicas=2) == []
    assert said_of(replicas=(REPLICA,), good_replicas=1) == [], "how many are wanted may not be asked: one at least"


def test_valkey_has_version_numbers_of_its_own() -> None:
    assert said_of(version="8.0.1", is_valkey=True) == []


def test_a_slow_answer_proves_no_wrong_clock() -> None:
    assert "redis-clock" not in [each.check for each in said_of(clock_ahead_s=3.0, clock_error_s=2.0)]


def test_one_that_only_this_machine_reaches_is_less_dangerous_when_open() -> None:
    (finding,) = said_of(is_of_this_machine=True, is_open=True, user="default")
    assert finding.severity.value == "warning"


def test_the_command_names_the_server_and_the_setting() -> None:
    (finding,) = said_of(is_append_only=False)
    assert finding.command == "redis-cli -h 10.0.0.5 -p 6379 CONFIG SET appendonly yes"
    (finding,) = said_of(is_append_only=False, place="main by Sentinel a:26379")
    assert finding.command == "redis-cli CONFIG SET appendonly yes"
