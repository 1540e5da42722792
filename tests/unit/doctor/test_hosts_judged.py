"""What a doctor says of nodes that answer, and of hosts that it looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.registry import a_record

from toolkit.cluster.scrapyd import NodeLoad
from toolkit.doctor import end_script, host_script
from toolkit.doctor.host_health import JobsKnown, judge_host, judge_way_in, orphans
from toolkit.doctor.hosts import HostEvidence, Spider, WayToRedis, read
from toolkit.doctor.judged import EndOrphan, Judged
from toolkit.doctor.nodes import NodeEvidence, judge_nodes
from toolkit.model import errors
from toolkit.model.hosts import Host, Provisioning, Secret, SshAddress
from toolkit.model.names import JobId, NodeName
from toolkit.runs.process import start_of

NAME = NodeName("node-1")
NOW = datetime(2026, 11, 21, tzinfo=UTC)
HOST = Host(NAME, "10.0.0.1", username="u", password=Secret("p"), slots=2, ssh=SshAddress(user="ann"))
WELL = NodeEvidence(HOST, NodeLoad(0, 1, 5, "node-1"), is_open=False, seconds=0.01)
HEALTHY = HostEvidence(
    HOST,
    python=(3, 11, 2),
    is_root=True,
    disk_free=50_000_000_000,
    disk_size=100_000_000_000,
    memory_free=4_000_000_000,
    listening=("10.0.0.1",),
    addresses=("10.0.0.1", "127.0.0.1"),
    spiders=(),
    redis=WayToRedis(0.001, ("10.0.0.5",)),
)


def of_node(*, lives: bool = False, **changed: Any) -> list[tuple[str, str]]:
    records = {NAME: a_record("node-1")} if lives else {}
    judged = judge_nodes({NAME: replace(WELL, **changed)}, records, now=NOW)
    return told(judged)


def of_host(*, jobs: JobsKnown | None = None, **changed: Any) -> list[Judged]:
    return judge_host(
        replace(HEALTHY, **changed), redis_ahead_s=0.0, redis_addresses=["10.0.0.5"], jobs=jobs or JobsKnown()
    )


def told(judged: Sequence[Judged]) -> list[tuple[str, str]]:
    return [(each.finding.check, each.finding.severity.value) for each in judged]


def test_nothing_is_said_of_what_is_well() -> None:
    assert of_node() == []
    assert of_host() == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"is_open": True}, ("node-open", "error")),
        ({"load": NodeLoad(0, 1, 5, "node-2")}, ("node-name", "warning")),
        ({"load": NodeLoad(0, 3, 5, "node-1")}, ("node-slots", "warning")),
        ({"seconds": 4.0}, ("node-slow", "warning")),
        ({"certificate_ends": NOW + timedelta(days=9)}, ("tls-expiring", "warning")),
        ({"certificate_error": "certificate has expired"}, ("tls-invalid", "error")),
        ({"error": errors.NodeUnauthorizedError("node-1", "x", "y"), "load": None}, ("node-login", "error")),
        ({"error": errors.NodeAnswerError("node-1", "x", "y"), "load": None}, ("node-answer", "error")),
        ({"error": errors.NodeUnreachableError("node-1", "x", "y"), "load": None}, ("node-unreachable", "error")),
    ],
)
def test_each_trouble_of_an_answer_is_one_finding(changed: dict[str, Any], expected: tuple[str, str]) -> None:
    assert of_node(**changed) == [expected]


def test_a_plug_in_node_that_lives_need_not_be_reachable() -> None:
    unreachable = errors.NodeUnreachableError("node-1", "x", "y")
    assert of_node(error=unreachable, load=None, lives=True) == [("node-unreachable", "note")]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"python": (3, 9, 2)}, ("host-python", "error")),
        ({"sudo_error": "a password is required"}, ("ssh-sudo", "note")),
        ({"clock_ahead_s": -41.3}, ("host-clock", "warning")),
        ({"clock_ahead_s": 4000.0}, ("host-clock", "error")),
        ({"disk_free": 3_000_000_000}, ("host-disk", "warning")),
        ({"disk_free": 100_000_000}, ("host-disk", "error")),
        ({"memory_free": 100_000_000}, ("host-memory", "warning")),
        ({"listening": ("0.0.0.0",)}, ("host-exposed", "note")),
        ({"listening": ("0.0.0.0",), "addresses": ("93.184.215.14",)}, ("host-exposed", "error")),
        ({"listening": ("93.184.215.14",)}, ("host-exposed", "error")),
        ({"redis": WayToRedis(why="no route to host")}, ("host-redis", "error")),
        ({"redis": WayToRedis(0.001, ("10.9.9.9",))}, ("host-redis", "warning")),
        ({"redis": WayToRedis(0.03, ("10.0.0.5",))}, ("host-redis", "note")),
        ({"redis": WayToRedis(0.3, ("10.0.0.5",))}, ("host-redis", "warning")),
    ],
)
def test_each_trouble_of_a_host_is_one_finding(changed: dict[str, Any], expected: tuple[str, str]) -> None:
    assert told(of_host(**changed)) == [expected]


def test_nothing_is_said_of_what_a_host_did_not_tell() -> None:
    assert judge_host(HostEvidence(HOST), redis_ahead_s=None, redis_addresses=(), jobs=JobsKnown()) == []


def test_a_host_with_a_redis_url_of_its_own_may_find_it_elsewhere() -> None:
    own = replace(HOST, provision=Provisioning(redis=Secret("redis://10.9.9.9/0")))
    assert of_host(host=own, redis=WayToRedis(0.001, ("10.9.9.9",))) == []


def test_tls_makes_listening_for_all_a_fair_thing() -> None:
    secured = replace(HOST, scheme="https")
    assert of_host(host=secured, listening=("0.0.0.0",), addresses=("93.184.215.14",)) == []


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (errors.HostUnreachableError, "ssh-unreachable"),
        (errors.HostUnauthorizedError, "ssh-login"),
        (errors.HostRefusedError, "host-python"),
        (errors.HostKeyError, "ssh-host-key"),
    ],
)
def test_why_a_host_could_not_be_looked_at_is_told(kind: type[errors.HostError], check: str) -> None:
    error = kind("node-1", "connecting", "no")
    wanted, unwanted = judge_way_in(HOST, error), judge_way_in(replace(HOST, ssh=SshAddress()), error)
    assert (wanted.finding.check, wanted.finding.severity.value) == (check, "error")
    # Where the inventory says nothing of SSH, perhaps nobody wants it: an error it is only when no Python runs there.
    assert unwanted.finding.severity.value != "error" or check == "host-python"


def a_spider(**more: Any) -> Spider:
    return Spider(**{"pid": 7, "start": "boot:1", "parent": 1, "age_s": 4000.0, "job": JobId("j1"), **more})


def test_a_process_is_an_orphan_when_no_scrapyd_and_no_folder_has_it() -> None:
    known = [
        a_spider(has_scrapyd=True),
        a_spider(is_ours=True, has_folder=True),
        a_spider(is_ours=True, has_folder=None),
        a_spider(age_s=5.0),
    ]
    nobodys = [a_spider(), a_spider(is_ours=True, has_folder=False)]
    assert orphans(replace(HEALTHY, spiders=(*known, *nobodys))) == nobodys


def test_only_an_orphan_whose_job_has_ended_for_sure_may_be_ended() -> None:
    stock, ours = a_spider(), a_spider(is_ours=True, has_folder=False)
    ended, unasked = frozenset({JobId("j1")}), JobsKnown(frozenset({JobId("j1")}))
    asked = JobsKnown(ended, {NAME: frozenset()})

    def remedy(spider: Spider, jobs: JobsKnown) -> object:
        (one,) = of_host(spiders=(spider,), jobs=jobs)
        assert one.finding.check == "host-orphan"
        return one.remedy

    assert remedy(stock, asked) == EndOrphan(NAME, 7, "boot:1", as_root=True)
    assert remedy(ours, unasked) == EndOrphan(NAME, 7, "boot:1", as_root=True)
    assert remedy(stock, unasked) is None, "its node was not asked"
    assert remedy(stock, JobsKnown(listed={NAME: frozenset()})) is None, "nobody knows its job"
    assert remedy(replace(stock, job=None), asked) is None
    assert of_host(spiders=(stock,), jobs=JobsKnown(ended, {NAME: ended})) == [], "its node runs it after all"


def run_on_this_machine(script: object, *words: str) -> subprocess.CompletedProcess[bytes]:
    source = Path(str(getattr(script, "__file__", ""))).read_bytes()
    return subprocess.run([sys.executable, "-", *words], input=source, capture_output=True, timeout=30, check=False)


def test_the_program_for_hosts_tells_of_this_machine() -> None:
    before = time.time()
    ran = run_on_this_machine(host_script, "6800", "/no/such/folder", "127.0.0.1", "1")
    assert ran.returncode == 0, ran.stderr
    seen = read(HOST, json.loads(ran.stdout), begun_at=before, took_s=time.time() - before)
    assert seen.python == sys.version_info[:3]
    assert seen.is_root is (os.getuid() == 0)
    assert abs(seen.clock_ahead_s) <= seen.clock_error_s + 0.1
    assert seen.redis is not None
    assert seen.redis.why == "connection refused"
    if sys.platform == "linux":
        assert seen.disk_free
        assert seen.memory_free
        assert seen.listening is not None
        assert "127.0.0.1" in seen.addresses


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_process_is_asked_to_end_only_if_it_is_still_the_same_one() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        ran = run_on_this_machine(end_script, str(sleeper.pid), "another boot:1", "5")
        assert (ran.returncode, ran.stdout) == (0, b"it had ended by itself\n")
        assert sleeper.poll() is None
        ran = run_on_this_machine(end_script, str(sleeper.pid), str(start_of(sleeper.pid)), "5")
        assert (ran.returncode, ran.stdout) == (0, b"it has ended\n")
