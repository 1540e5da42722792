"""Scrapyd is stopped, killed and started again under running spiders: they go on, and their ends are recorded."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
from support.node_spiders import a_node_job, ended
from support.plugin_node import PluginNode, shared_of
from support.redis_server import RedisServer
from support.spider_cluster import revived, spider_nodes, store_of
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import DEFAULT_CLUSTER, JobId, NodeName
from toolkit.runs.registration import Registered
from toolkit.store.interfaces import Store
from toolkit.store.keys import Keys

pytestmark = pytest.mark.timeout(180)
SOON_S = 40.0
LEASE_S = 20.0
ON_1 = (NodeName("node-1"),)


@pytest.fixture(scope="module")
def cluster(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PluginNode]]:
    with spider_nodes(1, redis_server, tmp_path_factory.mktemp("nodes"), lease_s=LEASE_S) as nodes:
        yield nodes


@pytest.fixture
def nodes(cluster: list[PluginNode], redis_server: RedisServer) -> list[PluginNode]:
    return revived(cluster, redis_server)


@pytest.fixture
def store(nodes: list[PluginNode], redis_server: RedisServer, tmp_path: Path) -> Iterator[Store]:
    with store_of(nodes, redis_server, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("how", ["term", "kill"])
def test_spiders_go_on_over_a_restart_of_scrapyd_and_their_end_is_recorded(
    nodes: list[PluginNode], store: Store, tmp_path: Path, how: str
) -> None:
    node, until = nodes[0], tmp_path / "until"
    job_id = f"adopted-{how}"
    shared_of(store).queue.add([a_node_job(job_id, args={"until": str(until)}, on=ON_1)])
    process = wait_runs(node, job_id)

    node.stop(spiders=False) if how == "term" else node.kill(spiders=False)
    node.start()

    wait_until(lambda: shows(node, job_id, process.pid), deadline_s=SOON_S, what="the node to know its process")
    until.touch()
    job = ended(store, job_id)
    assert (job.state, job.exit_code, job.attempt, job.items) == (JobState.FINISHED, 0, 1, 1)
    assert job.pid == process.pid


def test_adopted_spiders_count_as_taken_slots(nodes: list[PluginNode], store: Store) -> None:
    node = nodes[0]
    jobs = [a_node_job(f"slot-{n}", args={"sleep_s": "5"}, on=ON_1) for n in range(2)]
    shared_of(store).queue.add(jobs)
    for job in jobs:
        wait_runs(node, job.id)

    node.kill(spiders=False)
    node.start()
    shared_of(store).queue.add([a_node_job("slot-waits", on=ON_1)])

    ends = [ended_at for job in jobs if (ended_at := ended(store, job.id).ended_at)]
    waited = ended(store, "slot-waits")
    assert waited.started_at is not None
    assert waited.started_at >= min(ends)


def test_a_spider_that_died_while_scrapyd_was_away_is_told_with_what_it_said_last(
    nodes: list[PluginNode], store: Store, tmp_path: Path
) -> None:
    node, until = nodes[0], tmp_path / "until"
    unseen_job = a_node_job("unseen", args={"until": str(until)}, on=ON_1)
    shared_of(store).queue.add([unseen_job, a_node_job("vanished", args={"sleep_s": "60"}, on=ON_1)])
    unseen, vanished = wait_runs(node, "unseen"), wait_runs(node, "vanished")

    node.kill(spiders=False)
    until.touch()
    os.kill(vanished.pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(unseen.pid), deadline_s=SOON_S, what="the spider to finish alone")
    node.start()

    told = ended(store, "unseen")
    assert (told.state, told.exit_code, told.attempt) == (JobState.FINISHED, 0, 1)
    again = wait_until(
        lambda: (job := store.jobs.get(JobId("vanished"))) and job.attempt == 2 and job,
        deadline_s=SOON_S,
        what="the vanished job to run again",
    )
    assert again
    shared_of(store).queue.cancel([JobId("vanished")], grace_s=0)
    assert ended(store, "vanished").state is JobState.CANCELLED


def test_what_a_spider_that_died_while_scrapyd_was_away_has_left_behind_is_ended(
    nodes: list[PluginNode], store: Store, tmp_path: Path
) -> None:
    node = nodes[0]
    pids = tmp_path / "pids"
    order = a_node_job("orphaned", "deaf", args={"pids": str(pids)}, on=ON_1, attempts=1)
    shared_of(store).queue.add([order])
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, deadline_s=SOON_S, what="the spider")
    spider, child = map(int, pids.read_text().split())

    node.kill(spiders=False)
    os.kill(spider, signal.SIGKILL)
    assert psutil.pid_exists(child)
    node.start()

    assert ended(store, "orphaned").state is JobState.LOST
    wait_until(lambda: not psutil.pid_exists(child), deadline_s=SOON_S, what="the spider's child to be gone")


def test_a_cancel_of_an_adopted_spider_ends_it(nodes: list[PluginNode], store: Store, tmp_path: Path) -> None:
    node = nodes[0]
    pids = tmp_path / "pids"
    shared_of(store).queue.add([a_node_job("deaf-adopted", "deaf", args={"pids": str(pids)}, on=ON_1)])
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, deadline_s=SOON_S, what="the spider")
    node.kill(spiders=False)
    node.start()

    shared_of(store).queue.cancel([JobId("deaf-adopted")], grace_s=0.5)

    assert ended(store, "deaf-adopted").state is JobState.CANCELLED
    left = [int(pid) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]
    assert [pid for pid in left if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE] == []


def test_a_node_that_is_stopped_in_order_says_goodbye(
    nodes: list[PluginNode], store: Store, redis_server: RedisServer
) -> None:
    assert store
    room = Keys(DEFAULT_CLUSTER).room
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        wait_until(lambda: client.zscore(room, "node-1") is not None, deadline_s=SOON_S, what="the node to have room")

        nodes[0].stop()

        assert client.zscore(room, "node-1") is None
    assert "Traceback" not in nodes[0].log_text()


def wait_runs(node: PluginNode, job_id: str) -> Registered:
    return wait_until(lambda: node.process_of(job_id), deadline_s=SOON_S, what=f"{job_id} to run")


def shows(node: PluginNode, job_id: str, pid: int) -> bool:
    return [(row["id"], row["pid"]) for row in node.get("listjobs.json")["running"]] == [(job_id, pid)]
