"""`up` and `down` where there is a Redis: hosts become nodes of one shared queue, and nothing of them stays behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from support.laptop import Laptop, actions, credentials_of, is_there
from support.redis_server import RedisServer
from support.waiting import wait_until

from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.model.snapshot import NodeState
from toolkit.provision import processes
from toolkit.provision.credentials import local_password, with_local_credentials
from toolkit.store.interfaces import Shared, Store
from toolkit.store.open import open_store

JOB = JobId("job-1")


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(tmp_path).has_redis()
    yield made
    made.end_all()


@pytest.fixture
def open_stores() -> Iterator[list[Store]]:
    opened: list[Store] = []
    yield opened
    for store in opened:
        store.close()


def store_of(laptop: Laptop, opened: list[Store]) -> tuple[Store, Shared]:
    known = with_local_credentials(laptop.inventory, laptop.state)
    store = open_store(known.redis, laptop.state, cluster=known.cluster)
    opened.append(store)
    assert store.shared is not None
    return store, store.shared


def members(laptop: Laptop, opened: list[Store]) -> dict[str, NodeRecord]:
    return {record.name: record for record in store_of(laptop, opened)[1].nodes.all()}


def test_nodes_are_members_of_the_cluster_as_soon_as_up_has_ended(laptop: Laptop, open_stores: list[Store]) -> None:
    laptop.has_nodes(2)
    first, second = laptop.inventory.hosts
    labelled = replace(first, labels={"region": "eu", "note": "a, b", "size": "50% = half"}, slots=3)
    laptop.inventory = replace(laptop.inventory, hosts=(labelled, second), cluster="mine")
    started = laptop.up()
    assert actions(started) == {"redis": "started", "node-1": "started", "node-2": "started"}
    assert [each.note for each in started.values.values()] == ["", "", ""]
    known = members(laptop, open_stores)
    assert {name: record.state for name, record in known.items()} == dict.fromkeys(known, NodeState.LIVE)
    assert set(known) == {"node-1", "node-2"}
    report = known[NodeName("node-1")].report
    assert (report.slots, report.unfit, report.address) == (3, None, labelled.place)
    # What the file's form cannot hold is the inventory's alone.
    assert report.labels == {"region": "eu", "size": "50% = half"}
    assert laptop.ask(1, "crawlctl.json")["cluster"] == "mine"
    assert set(actions(laptop.up()).values()) == {"unchanged"}


def test_a_host_whose_kind_is_stock_stays_stock_beside_nodes(laptop: Laptop, open_stores: list[Store]) -> None:
    laptop.has_nodes(2)
    first, second = laptop.inventory.hosts
    laptop.inventory = replace(laptop.inventory, hosts=(first, replace(second, kind="stock")))
    laptop.up()
    assert set(members(laptop, open_stores)) == {"node-1"}
    conf = (laptop.state / "nodes" / "node-2" / "scrapyd.conf").read_text()
    assert "toolkit" not in conf
    assert not (laptop.state / "nodes" / "node-2" / "redis.url").exists()


def test_a_redis_that_was_there_already_is_shared_as_it_is(laptop: Laptop, open_stores: list[Store]) -> None:
    laptop.has_nodes(1)
    with RedisServer(laptop.home / "theirs") as theirs:
        laptop.inventory = replace(laptop.inventory, redis=Secret(f"redis://127.0.0.1:{theirs.port}/3"))
        started = laptop.up()
        assert started.values[NodeName("redis")].note == "a Redis that was there already"
        assert set(members(laptop, open_stores)) == {"node-1"}
        url = (laptop.state / "nodes" / "node-1" / "redis.url").read_text()
        assert url == f"redis://127.0.0.1:{theirs.port}/3\n"
        laptop.down()


def test_a_node_whose_redis_is_away_comes_up_and_says_what_it_waits_for(laptop: Laptop) -> None:
    laptop.has_nodes(1)
    laptop.inventory = replace(laptop.inventory, redis=Secret("redis://127.0.0.1:1/0?db=0&socket_timeout=1"))
    laptop.environ["CRAWLCTL_REDIS_SERVER"] = "/bin/false"
    started = laptop.up()
    assert started.values[NodeName("node-1")].note == "takes no job: waits for Redis"


def test_no_password_is_in_a_command_line_or_an_environment_also_of_spiders(laptop: Laptop) -> None:
    laptop.environ["CRAWLCTL_REDIS"] = "redis://:hush@127.0.0.1:1/0"
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    password = local_password(laptop.state).reveal()
    for process in (psutil.Process(laptop.pid("node-1")), spider):
        seen = " ".join(process.cmdline()) + str(process.environ())
        assert password not in seen
        assert "hush" not in seen
    node = laptop.state / "nodes" / "node-1"
    assert (node / "redis.url").stat().st_mode & 0o777 == 0o600
    readable = [path for path in node.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert not [path for path in readable if password.encode() in path.read_bytes()]


def test_a_restart_for_other_settings_leaves_a_running_spider_alone(laptop: Laptop, open_stores: list[Store]) -> None:
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    host = laptop.inventory.hosts[0]
    laptop.inventory = replace(laptop.inventory, hosts=(replace(host, slots=7),))
    assert actions(laptop.up()) == {"redis": "unchanged", "node-1": "restarted"}
    assert is_there(spider)
    store, shared = store_of(laptop, open_stores)
    job = store.jobs.get(JOB)
    assert job is not None
    assert (job.state, job.node, job.pid, job.attempt) == (JobState.RUNNING, "node-1", spider.pid, 1)
    assert shared.queue.cancel([JOB], grace_s=1) == {JOB: JobState.RUNNING}
    wait_until(lambda: not is_there(spider), deadline_s=60, what="the adopted spider to be gone")
    wait_until(
        lambda: (now := store.jobs.get(JOB)) is not None and now.state is JobState.CANCELLED,
        deadline_s=60,
        what="its outcome",
    )


def test_a_spider_that_a_killed_node_left_goes_on_under_its_successor(laptop: Laptop, open_stores: list[Store]) -> None:
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    os.kill(laptop.pid("node-1"), signal.SIGKILL)
    wait_until(lambda: processes.find(laptop.record("node-1")) is None, deadline_s=60, what="node-1 to be gone")
    assert actions(laptop.up()) == {"redis": "unchanged", "node-1": "started"}
    assert is_there(spider)
    job = store_of(laptop, open_stores)[0].jobs.get(JOB)
    assert job is not None
    assert (job.state, job.attempt) == (JobState.RUNNING, 1)


@pytest.mark.parametrize("is_killed", [False, True], ids=["of-a-node", "of-a-killed-node"])
def test_down_leaves_no_spider_although_each_has_a_session_of_its_own(laptop: Laptop, *, is_killed: bool) -> None:
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    node = psutil.Process(laptop.pid("node-1"))
    assert os.getsid(spider.pid) == spider.pid
    if is_killed:
        node.kill()
        wait_until(lambda: not is_there(node), deadline_s=60, what="node-1 to be gone")
    assert actions(laptop.down()) == {"node-1": "stopped", "redis": "stopped"}
    assert not is_there(node)
    assert not is_there(spider)
    log = laptop.state / "nodes" / "node-1" / "logs" / "small" / "alpha" / "job-1.log"
    assert "'finish_reason': 'shutdown'" in log.read_text()


def test_what_down_ended_is_run_again_by_the_next_up(laptop: Laptop, open_stores: list[Store]) -> None:
    laptop.has_nodes(1).up()
    laptop.runs_a_spider(1)
    laptop.down()
    laptop.up()
    store, _ = store_of(laptop, open_stores)

    def runs_again() -> bool:
        job = store.jobs.get(JOB)
        return job is not None and job.state is JobState.RUNNING and job.attempt == 1

    wait_until(runs_again, deadline_s=60, what="the job to run again")


def test_a_node_that_becomes_stock_ends_its_spiders_first(laptop: Laptop) -> None:
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    host = replace(laptop.inventory.hosts[0], kind="stock")
    laptop.inventory = replace(laptop.inventory, hosts=(host,))
    assert actions(laptop.up())["node-1"] == "restarted"
    assert not is_there(spider)
    assert "crawlctl.json" not in (laptop.state / "nodes" / "node-1" / "scrapyd.conf").read_text()


def test_a_name_that_is_live_elsewhere_is_told_at_once(laptop: Laptop, tmp_path: Path) -> None:
    laptop.has_nodes(1).up()
    twin = Laptop(tmp_path / "twin")
    twin.home.mkdir()
    twin.has_nodes(1)
    twin.inventory = replace(twin.inventory, redis=with_local_credentials(laptop.inventory, laptop.state).redis)
    try:
        started = twin.up().values[NodeName("node-1")]
        assert started.note.startswith("takes no job: ")
        assert "node-1" in started.note
        assert laptop.ask(1, "crawlctl.json")["unfit"] is None
    finally:
        twin.end_all()


def test_a_node_answers_only_to_its_password(laptop: Laptop) -> None:
    laptop.has_nodes(1).up()
    user, password = credentials_of(laptop.host(1))
    assert (user, password) == ("crawlctl", local_password(laptop.state).reveal())
    assert laptop.ask(1, "daemonstatus.json")["node_name"] == "node-1"
