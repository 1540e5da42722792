"""Jobs of the shared queue on real Scrapyd nodes with the plug-in: each runs once and ends in one recorded outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support import http_calls
from support.node_spiders import a_node_job, ended, node_egg
from support.plugin_node import PluginNode, shared_of
from support.redis_server import RedisServer
from support.spider_cluster import spider_nodes, store_of
from support.waiting import wait_until

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, VersionName
from toolkit.store.interfaces import Store

pytestmark = pytest.mark.timeout(180)
SOON_S = 40.0


@pytest.fixture(scope="module")
def two_nodes(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PluginNode]]:
    with spider_nodes(2, redis_server, tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


@pytest.fixture
def store(two_nodes: list[PluginNode], redis_server: RedisServer, tmp_path: Path) -> Iterator[Store]:
    with store_of(two_nodes, redis_server, tmp_path) as opened:
        yield opened


def test_a_job_runs_once_and_its_outcome_says_all(two_nodes: list[PluginNode], store: Store) -> None:
    shared_of(store).queue.add([a_node_job("plain", args={"note": "Zürich %s"})])

    job = ended(store, "plain")

    assert job.state is JobState.FINISHED, job
    assert (job.exit_code, job.signal, job.finish_reason, job.attempt) == (0, None, "finished", 1)
    assert (job.items, job.pages, job.errors) == (1, 1, 0)
    assert job.node in {node.name for node in two_nodes}
    assert job.pid
    assert job.started_at is not None
    assert job.ended_at is not None
    assert job.started_at <= job.ended_at
    wait_until(lambda: not any(run_folders(two_nodes)), deadline_s=SOON_S, what="the run folders to go")


def test_a_spider_gets_none_of_the_nodes_secrets(two_nodes: list[PluginNode], store: Store) -> None:
    shared_of(store).queue.add([a_node_job("curious", on=(NodeName("node-1"),))])
    assert ended(store, "curious").state is JobState.FINISHED
    seen = json.loads((two_nodes[0].folder / "items" / "shop" / "quick" / "curious.jl").read_text())

    assert "SCRAPY_PROJECT" in seen["environment"]
    assert [name for name in seen["environment"] if name.startswith(("SCRAPYD_USER", "SCRAPYD_PASS"))] == []
    assert {name for name in seen["environment"] if name.startswith("CRAWLCTL_")} == {"CRAWLCTL_RUN"}
    assert "redis" not in " ".join(seen["args"])


def test_jobs_spread_over_the_slots_of_all_nodes(store: Store, tmp_path: Path) -> None:
    jobs = run_together(store, tmp_path, "spread")

    assert sorted(str(job.node) for job in jobs) == ["node-1", "node-1", "node-2", "node-2"]
    assert {job.state for job in jobs} == {JobState.FINISHED}


def test_a_process_that_dies_is_a_failed_job_with_its_exit_code_and_last_words(
    two_nodes: list[PluginNode], store: Store
) -> None:
    assert two_nodes
    shared_of(store).queue.add([a_node_job("dies", "dies", args={"code": "7"})])

    job = ended(store, "dies")

    assert (job.state, job.exit_code, job.signal, job.attempt) == (JobState.FAILED, 7, None, 1)
    assert job.reason is not None
    assert "exit code 7" in job.reason
    assert "the reason why it dies" in job.reason


def test_a_process_that_is_killed_is_a_failed_job_with_its_signal(two_nodes: list[PluginNode], store: Store) -> None:
    shared_of(store).queue.add([a_node_job("killed", args={"sleep_s": "60"})])
    process = wait_until(lambda: process_of(two_nodes, "killed"), deadline_s=SOON_S, what="its process")
    psutil.Process(process).kill()

    job = ended(store, "killed")

    assert (job.state, job.exit_code, job.signal, job.attempt) == (JobState.FAILED, None, "SIGKILL", 1)


def test_items_are_on_the_disk_within_a_second_and_outlive_a_kill(
    two_nodes: list[PluginNode], store: Store, tmp_path: Path
) -> None:
    begun, node = tmp_path / "begun", two_nodes[0]
    args = {"found": "3", "begun": str(begun), "until": str(tmp_path / "never")}
    shared_of(store).queue.add([a_node_job("finds", "finds", args=args, on=(NodeName("node-1"),))])
    file = node.folder / "items" / "shop" / "finds" / "finds.jl"
    wait_until(begun.exists, deadline_s=SOON_S, what="the items to be found")
    wait_until(lambda: numbers_in(file) == [0, 1, 2], deadline_s=1.0, what="the items to be on the disk")

    psutil.Process(wait_until(lambda: process_of([node], "finds"), deadline_s=SOON_S, what="its process")).kill()

    job = ended(store, "finds")
    assert (job.state, job.signal) == (JobState.FAILED, "SIGKILL")
    assert numbers_in(file) == [0, 1, 2]


def test_a_cancelled_spider_is_gone_with_all_it_started_also_when_it_ignores_signals(
    two_nodes: list[PluginNode], store: Store, tmp_path: Path
) -> None:
    assert two_nodes
    pids_file = tmp_path / "pids"
    shared_of(store).queue.add([a_node_job("deaf", "deaf", args={"pids": str(pids_file)})])
    pids = wait_until(lambda: pids_of(pids_file, 2), deadline_s=SOON_S, what="the spider and its child")

    shared_of(store).queue.cancel([JobId("deaf")], grace_s=0.5)
    job = ended(store, "deaf")

    assert (job.state, job.signal) == (JobState.CANCELLED, "SIGKILL")
    assert [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"] == []


def test_a_cancelled_spider_may_close_in_order(store: Store, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    shared_of(store).queue.add([a_node_job("polite", args={"sleep_s": "60", "begun": str(begun)})])
    wait_until(begun.exists, deadline_s=SOON_S, what="its spider to run")

    shared_of(store).queue.cancel([JobId("polite")], grace_s=30)
    job = ended(store, "polite")

    assert (job.state, job.finish_reason, job.signal) == (JobState.CANCELLED, "shutdown", None)


def test_a_job_past_its_time_limit_is_stopped_and_says_so(two_nodes: list[PluginNode], store: Store) -> None:
    assert two_nodes
    shared_of(store).queue.add([a_node_job("long", args={"sleep_s": "60"}, timeout_s=3)])

    job = ended(store, "long")

    assert job.state is JobState.FAILED
    assert job.reason == "stopped after its time limit of 3 s"


def test_what_a_finished_spider_leaves_behind_ends_with_it(
    two_nodes: list[PluginNode], store: Store, tmp_path: Path
) -> None:
    assert two_nodes
    pids_file = tmp_path / "pids"
    shared_of(store).queue.add([a_node_job("leaves", "leaves", args={"pids": str(pids_file)})])

    assert ended(store, "leaves").state is JobState.FINISHED
    (child,) = wait_until(lambda: pids_of(pids_file, 1), deadline_s=SOON_S, what="its child")
    wait_until(lambda: not psutil.pid_exists(child), deadline_s=SOON_S, what="its child to be gone")


def test_jobs_that_no_process_could_take_fail_and_cost_no_slot(
    two_nodes: list[PluginNode], store: Store, tmp_path: Path
) -> None:
    # As somebody else's program may put them there: crawlctl itself refuses them before.
    bad = {"nul": {"note": "a\0b"}, "huge": {"note": "x" * 200_000}, "reserved": {"_job": "other"}}
    jobs = [a_node_job(f"bad-{name}-{n}", args=args) for n in range(2) for name, args in bad.items()]
    jobs.append(a_node_job("bad-path", "../../up"))
    shared_of(store).queue.add(jobs)

    outcomes = [ended(store, job.id) for job in jobs]

    assert {job.state for job in outcomes} == {JobState.FAILED}
    assert all(job.reason and job.reason.startswith("it could not be started: ") for job in outcomes)
    after = run_together(store, tmp_path, "after")
    assert sorted(str(job.node) for job in after) == ["node-1", "node-1", "node-2", "node-2"]
    wait_until(lambda: not any(run_folders(two_nodes)), deadline_s=SOON_S, what="the run folders to go")


def test_a_drained_node_takes_nothing_until_it_is_resumed(two_nodes: list[PluginNode], store: Store) -> None:
    assert two_nodes
    shared = shared_of(store)
    shared.nodes.drain([NodeName("node-1")], who="ann@desk")
    shared.queue.add([a_node_job(f"drained-{n}") for n in range(4)])
    assert {ended(store, f"drained-{n}").node for n in range(4)} == {"node-2"}
    shared.queue.add([a_node_job("only", on=(NodeName("node-1"),))])

    shared.nodes.resume([NodeName("node-1")])

    assert ended(store, "only").node == "node-1"


def test_a_version_that_nobody_holds_waits_until_somebody_does(two_nodes: list[PluginNode], store: Store) -> None:
    shared_of(store).queue.add([a_node_job("early", version=VersionName("v2"))])
    two_nodes[1].hold("v2", egg=node_egg())

    assert ended(store, "early").node == "node-2"


def test_a_pause_reaches_the_spider_and_is_taken_back(store: Store, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    queue = shared_of(store).queue
    queue.add([a_node_job("paused", args={"sleep_s": "60", "begun": str(begun)})])
    wait_until(begun.exists, deadline_s=SOON_S, what="its spider to run")

    for is_paused, state in ((True, JobState.PAUSED), (False, JobState.RUNNING)):
        queue.pause(JobId("paused"), is_paused=is_paused)
        wait_state(store, "paused", state)

    queue.cancel([JobId("paused")], grace_s=0)
    assert ended(store, "paused").state is JobState.CANCELLED


def test_scrapyds_pages_show_the_jobs_that_wait(two_nodes: list[PluginNode], store: Store) -> None:
    shared_of(store).queue.add([a_node_job("never", on=(NodeName("nobody"),))])

    wait_until(lambda: page_with(two_nodes[0], "never"), deadline_s=SOON_S, what="the page to show what waits")

    shared_of(store).queue.cancel([JobId("never")], grace_s=0)
    wait_until(lambda: not page_with(two_nodes[0], "never"), deadline_s=SOON_S, what="the page to forget it")


def test_scrapyds_pages_show_the_jobs_that_ended_on_the_node(two_nodes: list[PluginNode], store: Store) -> None:
    shared_of(store).queue.add([a_node_job("shown", on=(NodeName("node-1"),))])
    ended(store, "shown")
    page = wait_until(lambda: page_with(two_nodes[0], "shown"), deadline_s=SOON_S, what="the page to show it")

    assert "/logs/shop/quick/shown.log" in page


def run_together(store: Store, folder: Path, name: str) -> list[Job]:
    """Run as many jobs as there are slots, none of which ends before all of them have begun; return how they ended."""
    until = folder / "until"
    names = [f"{name}-{n}" for n in range(4)]
    shared_of(store).queue.add([a_node_job(each, args={"until": str(until)}) for each in names])
    for each in names:
        wait_state(store, each, JobState.RUNNING)
    until.touch()
    return [ended(store, each) for each in names]


def page_with(node: PluginNode, text: str) -> str | None:
    page = http_calls.get(f"{node.url}/jobs", credentials=node.credentials).body.decode()
    return page if text in page else None


def wait_state(store: Store, job_id: str, state: JobState) -> None:
    def is_there() -> bool:
        job = store.jobs.get(JobId(job_id))
        return job is not None and job.state is state

    wait_until(is_there, deadline_s=SOON_S, what=f"{job_id} to be {state}")


def run_folders(nodes: list[PluginNode]) -> list[Path]:
    return [path for node in nodes for path in node.runs.iterdir()]


def process_of(nodes: list[PluginNode], job_id: str) -> int | None:
    found = next((process for node in nodes if (process := node.process_of(job_id))), None)
    return found.pid if found else None


def pids_of(path: Path, count: int) -> list[int] | None:
    pids = [int(pid) for pid in path.read_text().split()] if path.exists() else []
    return pids if len(pids) == count else None


def numbers_in(items: Path) -> list[int]:
    return [json.loads(line)["number"] for line in items.read_text().splitlines()] if items.exists() else []
