"""Scrapyd is stopped in order where its spiders shall not outlive it: their jobs go back, and no attempt is used up."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import psutil
import pytest
from support.node_spiders import VERSION, a_node_job, ended, node_egg
from support.plugin_node import ContainedNode, PluginNode, away, hold_everywhere, shared_of, shared_store
from support.redis_server import RedisServer
from support.require import require
from support.spider_cluster import spider_nodes, store_of
from support.waiting import wait_until

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.runs.registration import Registered
from toolkit.store.interfaces import Store

pytestmark = pytest.mark.timeout(240)
SOON_S = 40.0
GRACE_S = 4.0
STOPPED_WITHIN_S = 10.0
"""As `docker stop` waits."""

ON_1 = (NodeName("node-1"),)
Cluster = Callable[..., tuple[list[PluginNode], Store]]


@pytest.fixture
def cluster(redis_server: RedisServer, tmp_path: Path) -> Iterator[Cluster]:
    """Start nodes with these options of their own."""
    with ExitStack() as stack:

        def start(count: int, *, lease_s: float = 3.0, **own: str) -> tuple[list[PluginNode], Store]:
            nodes = stack.enter_context(spider_nodes(count, redis_server, tmp_path / "nodes", lease_s=lease_s, own=own))
            opened: AbstractContextManager[Store] = store_of(nodes, redis_server, tmp_path)
            return nodes, stack.enter_context(opened)

        yield start


def test_closed_spiders_give_their_jobs_back_uncounted_and_these_run_to_their_end_elsewhere(
    cluster: Cluster, tmp_path: Path
) -> None:
    nodes, store = cluster(2, on_stop="close", stop_grace_s=f"{GRACE_S:g}")
    until, begun = tmp_path / "until", tmp_path / "begun"
    args = {"until": str(until), "begun": str(begun)}
    shared_of(store).queue.add([a_node_job("moved", args=args, attempts=1)])
    first, process = wait_runs(nodes, "moved")
    wait_until(begun.exists, deadline_s=SOON_S, what="the spider to be at work")

    assert stopped(first) < GRACE_S

    assert not lives(process.pid)
    other, _ = wait_runs([node for node in nodes if node is not first], "moved")
    until.touch()
    job = ended(store, "moved")
    assert (job.state, job.node, job.attempt, job.items) == (JobState.FINISHED, other.name, 1, 1)
    assert "Traceback" not in first.log_text()


def test_a_spider_that_does_not_close_is_killed_with_its_children_after_the_grace_and_not_counted_either(
    cluster: Cluster, tmp_path: Path
) -> None:
    (node,), store = cluster(1, on_stop="close", stop_grace_s=f"{GRACE_S:g}")
    pids = tmp_path / "pids"
    shared_of(store).queue.add([a_node_job("deaf", "deaf", args={"pids": str(pids)}, attempts=1)])
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, deadline_s=SOON_S, what="the spider")

    assert GRACE_S <= stopped(node) < STOPPED_WITHIN_S

    assert not any(map(lives, map(int, pids.read_text().split())))
    job = known(store, "deaf")
    assert (job.state, job.attempt, job.reason) == (JobState.PENDING, 0, "stopped with its node")


def test_a_job_that_is_to_be_cancelled_does_not_run_again(cluster: Cluster, tmp_path: Path) -> None:
    (node,), store = cluster(1, on_stop="close", stop_grace_s="2")
    pids = tmp_path / "pids"
    shared_of(store).queue.add([a_node_job("unwanted", "deaf", args={"pids": str(pids)})])
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, deadline_s=SOON_S, what="the spider")

    os.kill(node.pid, signal.SIGTERM)
    shared_of(store).queue.cancel([JobId("unwanted")], grace_s=60)

    wait_until(lambda: not node.is_running, deadline_s=SOON_S, what="Scrapyd to end")
    assert known(store, "unwanted").state is JobState.CANCELLED


def test_without_redis_the_run_folder_keeps_what_became_of_the_job_for_the_next_start(
    cluster: Cluster, redis_server: RedisServer, tmp_path: Path
) -> None:
    (node,), store = cluster(1, lease_s=20.0, on_stop="close", stop_grace_s=f"{GRACE_S:g}")
    until = tmp_path / "until"
    shared_of(store).queue.add([a_node_job("kept", args={"until": str(until)}, attempts=1)])
    wait_runs([node], "kept")

    with away(redis_server):
        assert stopped(node) < STOPPED_WITHIN_S
        assert [path.name for path in node.runs.glob("kept~*/ending.json")]
    assert known(store, "kept").state is JobState.RUNNING
    until.touch()
    node.start()

    job = ended(store, "kept")
    assert (job.state, job.attempt) == (JobState.FINISHED, 1)


def test_what_is_killed_before_the_grace_is_over_is_not_counted_either(cluster: Cluster, tmp_path: Path) -> None:
    (node,), store = cluster(1, lease_s=20.0, on_stop="close", stop_grace_s="60")
    pids = tmp_path / "pids"
    shared_of(store).queue.add([a_node_job("cut-short", "deaf", args={"pids": str(pids)}, attempts=1)])
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, deadline_s=SOON_S, what="the spider")

    os.kill(node.pid, signal.SIGTERM)
    wait_until(lambda: list(node.runs.glob("*/stop.json")), deadline_s=SOON_S, what="the spider to be asked")
    pids.unlink()
    node.kill()
    node.start()

    wait_until(pids.exists, deadline_s=SOON_S, what="the job to run again")
    assert known(store, "cut-short").attempt == 1


def test_a_draining_stop_lets_jobs_end_by_themselves_and_takes_no_other(cluster: Cluster, tmp_path: Path) -> None:
    lease_s = 3.0
    (node,), store = cluster(1, lease_s=lease_s, on_stop="drain")
    until = tmp_path / "until"
    long = a_node_job("long", args={"until": str(until)}, attempts=1)
    shared_of(store).queue.add([long, a_node_job("long-too", args={"sleep_s": "600"})])
    _, process = wait_runs([node], "long")
    wait_runs([node], "long-too")

    os.kill(node.pid, signal.SIGTERM)
    wait_until(lambda: unfit(node, store) == "is stopping", deadline_s=SOON_S, what="the node to say that it stops")
    shared_of(store).queue.add([a_node_job("next")])
    # The leases go on: another node would have taken these jobs by then.
    shows_both = {"long", "long-too"}
    ends_at = time.monotonic() + 2 * lease_s
    while time.monotonic() < ends_at:
        assert {row["id"] for row in node.get("listjobs.json")["running"]} == shows_both
        time.sleep(0.5)
    shared_of(store).queue.cancel([JobId("long-too")], grace_s=1)
    assert ended(store, "long-too").state is JobState.CANCELLED
    assert node.is_running
    until.touch()

    wait_until(lambda: not node.is_running, deadline_s=SOON_S, what="Scrapyd to end")
    job = known(store, "long")
    assert (job.state, job.pid, job.attempt) == (JobState.FINISHED, process.pid, 1)
    assert known(store, "next").state is JobState.PENDING


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_scrapyd_at_once_and_leaves_its_spiders_to_the_next(
    cluster: Cluster, tmp_path: Path, again: signal.Signals
) -> None:
    (node,), store = cluster(1, lease_s=20.0, on_stop="drain")
    until = tmp_path / "until"
    shared_of(store).queue.add([a_node_job("left", args={"until": str(until)}, attempts=1)])
    _, process = wait_runs([node], "left")

    os.kill(node.pid, signal.SIGTERM)
    wait_until(lambda: "Asked to stop: waiting for 1" in node.log_text(), deadline_s=SOON_S, what="the first signal")
    os.kill(node.pid, again)
    wait_until(lambda: not node.is_running, deadline_s=STOPPED_WITHIN_S, what="Scrapyd to end")
    assert lives(process.pid)
    assert "Traceback" not in node.log_text()
    node.start()
    until.touch()

    job = ended(store, "left")
    assert (job.state, job.pid, job.attempt) == (JobState.FINISHED, process.pid, 1)


@pytest.mark.parametrize("has_init", [False, True])
def test_a_job_survives_that_its_container_is_stopped_again_and_again(
    redis_server: RedisServer, tmp_path: Path, *, has_init: bool
) -> None:
    require(os.geteuid() == 0, "a pid namespace is made as root")
    redis_server.flush()
    until, begun = tmp_path / "until", tmp_path / "begun"
    with ExitStack() as stack:
        node = ContainedNode(tmp_path / "node", redis_url=redis_server.url, has_init=has_init)
        stack.callback(node.kill)
        node.start()
        store = stack.enter_context(shared_store(redis_server.url, tmp_path / "operator"))
        hold_everywhere([node], VERSION, egg=node_egg())
        node.wait_ready(store, VERSION)
        args = {"until": str(until), "begun": str(begun)}
        shared_of(store).queue.add([a_node_job("contained", args=args, attempts=1)])

        for _ in range(2):
            wait_until(begun.exists, deadline_s=SOON_S, what="the spider to be at work")
            begun.unlink()
            node.stop(within_s=STOPPED_WITHIN_S)
            job = known(store, "contained")
            assert (job.state, job.attempt) == (JobState.PENDING, 0)
            node.start()
        until.touch()

        job = ended(store, "contained")
        assert (job.state, job.attempt) == (JobState.FINISHED, 1)


def stopped(node: PluginNode) -> float:
    """Stop a node with SIGTERM, and return how long it took."""
    began = time.monotonic()
    node.stop(spiders=False)
    return time.monotonic() - began


def lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def known(store: Store, job_id: str) -> Job:
    job = store.jobs.get(JobId(job_id))
    assert job is not None
    return job


def unfit(node: PluginNode, store: Store) -> str | None:
    record = node.record(shared_of(store))
    return None if record is None else record.report.unfit


def wait_runs(nodes: list[PluginNode], job_id: str) -> tuple[PluginNode, Registered]:
    def found() -> tuple[PluginNode, Registered] | None:
        return next(((node, process) for node in nodes if (process := node.process_of(job_id))), None)

    return wait_until(found, deadline_s=SOON_S, what=f"{job_id} to run")
