"""Jobs of the shared queue on real plug-in nodes, from the desk of an operator: run, changed, ended, and told of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support.cli import run_crawlctl
from support.desk import FOREVER_S, Desk, process_of
from support.market import Market
from support.plugin_node import PluginNode, running_plugin_nodes
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-queue-life")


class Stage(NamedTuple):
    desk: Desk
    nodes: list[PluginNode]
    stock: ScrapydNode
    version: str


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    """Two plug-in nodes and a stock one, with one release on all of them."""
    folder = tmp_path_factory.mktemp("queue")
    user, secret = TEST_CREDENTIALS
    with (
        running_plugin_nodes(2, redis_url=story_redis.url, folder=folder) as nodes,
        ScrapydNode(folder / "stock-1", name="stock-1", username=user, password=secret) as stock,
    ):
        desk = Desk.of([*nodes, stock], story_redis.url, folder / "desk", secrets=(secret, str(story_redis.password)))
        deployed = desk.json("deploy", str(Market(folder / "market")))
        yield Stage(desk, nodes, stock, deployed["version"])


@pytest.fixture(autouse=True)
def idle(stage: Stage) -> Iterator[None]:
    """Leave every sentence with idle nodes."""
    yield
    stage.desk.cancel_all()


def state_of(stage: Stage, job_id: str) -> str:
    return str(stage.desk.job(job_id)["state"])


def log_of(stage: Stage, job_id: str) -> str:
    """Return the log as far as it is there."""
    return run_crawlctl("logs", job_id, cwd=stage.desk.folder).out


def kill_at_work(stage: Stage, job_id: str) -> None:
    """Kill a job's process with SIGKILL, once it has come to its job."""

    def has_begun() -> bool:
        return any(node.process_of(job_id) is not None for node in stage.nodes)

    wait_until(has_begun, deadline_s=60, what=f"the process of {job_id} to come to its job")
    process = process_of(job_id)
    assert process is not None
    process.kill()


def wait_for_state(stage: Stage, job_id: str, state: str) -> None:
    wait_until(lambda: state_of(stage, job_id) == state, deadline_s=60, what=f"{job_id} to be {state}")


def nodes_of_two(stage: Stage) -> list[str]:
    """Run two jobs on idle nodes and return where; a node that is slow to wake loses its turn in a quarter second."""
    stage.desk.cancel_all()
    wait_until(lambda: running_on_nodes(stage)[:2] == [0, 0], deadline_s=60, what="idle nodes")
    jobs = stage.desk.json("schedule", "quick", "-a", f"sleep_s={FOREVER_S}", "--workers", "2")["jobs"]
    for job in jobs:
        wait_for_state(stage, job["id"], "running")
    return sorted(stage.desk.job(job["id"])["node"] for job in jobs)


def running_on_nodes(stage: Stage) -> list[int]:
    return [node["running"] for node in stage.desk.json("status")["nodes"]]


def test_a_job_runs_to_its_end_and_all_of_it_is_told(stage: Stage) -> None:
    (job,) = stage.desk.json("schedule", "quick", "-a", "note=hello", "--wait")
    assert (job["state"], job["finish_reason"], job["exit_code"], job["attempt"]) == ("finished", "finished", 0, 1)
    assert (job["pages"], job["items"], job["signal"], job["version"]) == (1, 1, None, stage.version)
    assert job["node"] in {"node-1", "node-2"}
    assert stage.desk.items(job["id"]) == [{"release": "first", "note": "hello"}]
    assert "Spider closed (finished)" in stage.desk.run("logs", job["id"]).out
    assert stage.desk.job(job["id"]).items() >= job.items()
    assert stage.desk.json("why", job["id"])["summary"].startswith("it finished on node-")


def test_two_jobs_on_two_idle_nodes_land_one_each_and_further_ones_wait(stage: Stage) -> None:
    assert ["node-1", "node-2"] in (nodes_of_two(stage) for _ in range(5))
    stage.desk.json("schedule", "quick", "-a", f"sleep_s={FOREVER_S}", "--workers", "2")
    wait_until(
        lambda: len(stage.desk.json("jobs", "--state", "running")) == 4,
        deadline_s=60,
        what="all four slots to be taken",
    )
    # A node says how many it runs with its next heartbeat only.
    wait_until(
        lambda: running_on_nodes(stage)[:2] == [2, 2], deadline_s=60, what="both nodes to say that they are full"
    )
    stage.desk.json("schedule", "quick", "--id", "waits")
    told = stage.desk.json("why", "waits")
    assert told["state"] == "pending"
    assert [node["could"] for node in told["nodes"]] == [False, False]
    status = stage.desk.json("status")
    assert status["jobs"]["pending"] == 1
    assert [(node["name"], node["kind"], node["running"]) for node in status["nodes"]] == [
        ("node-1", "node", 2),
        ("node-2", "node", 2),
        ("stock-1", "stock", 0),
    ]


def test_a_running_job_is_cancelled_and_its_process_gone(stage: Stage) -> None:
    job = stage.desk.start_sleeper("--id", "to-be-ended")
    (row,) = stage.desk.json("cancel", job["id"], "--grace", "5")["jobs"]
    assert (row["before"], row["after"], row["error"]) == ("running", "cancelled", None)
    assert process_of(job["id"]) is None
    assert state_of(stage, job["id"]) == "cancelled"


def test_a_job_that_hears_no_signal_is_killed(stage: Stage) -> None:
    job = stage.desk.start_job("deaf", "--id", "deaf-one")
    wait_until(lambda: "deaf from now on" in log_of(stage, job["id"]), deadline_s=60, what="it to be deaf")
    (row,) = stage.desk.json("cancel", job["id"], "--grace", "0")["jobs"]
    assert (row["after"], row["error"]) == ("cancelled", None)
    assert process_of(job["id"]) is None
    assert stage.desk.job(job["id"])["signal"] == "SIGKILL"


def test_a_cancel_that_is_interrupted_says_what_becomes_of_the_job(stage: Stage) -> None:
    job = stage.desk.start_job("deaf", "--id", "deaf-two")
    wait_until(lambda: "deaf from now on" in log_of(stage, job["id"]), deadline_s=60, what="it to be deaf")
    with stage.desk.begin("cancel", job["id"], "--grace", "10") as cancelling:
        wait_until(lambda: stage.desk.job(job["id"])["cancel_requested_at"], deadline_s=60, what="the wish to be known")
        cancelling.interrupt()
        assert "they end all the same" in stage.desk.read(cancelling.wait(), 130).err
    wait_for_state(stage, job["id"], "cancelled")


def test_a_job_past_its_time_limit_fails_and_says_so(stage: Stage) -> None:
    words = ("schedule", "quick", "-a", f"sleep_s={FOREVER_S}", "--timeout", "2s", "--wait", "--output", "json")
    job = stage.desk.run(*words, exit_code=8).json()[0]
    assert job["state"] == "failed"
    assert "time limit of 2 s" in job["reason"]


def test_a_paused_spider_goes_on_when_it_is_resumed(stage: Stage) -> None:
    job = stage.desk.start_sleeper("--id", "pausing")
    wait_for_state(stage, job["id"], "running")
    wait_until(lambda: "asleep" in log_of(stage, job["id"]), deadline_s=60, what="the spider to begin")
    assert stage.desk.json("jobs", "pause", job["id"])["state"] == "paused"
    assert [row["id"] for row in stage.desk.json("jobs", "--state", "paused")] == [job["id"]]
    assert stage.desk.json("jobs", "resume", job["id"])["state"] == "running"


def test_logs_follow_of_a_job_that_waits_in_the_queue_begins_when_a_node_takes_it(stage: Stage) -> None:
    stage.desk.run("schedule", "quick", "--id", "later", "--delay", "1h")
    with stage.desk.begin("logs", "later", "-f") as following:
        wait_until(lambda: "later is pending" in following.err, deadline_s=60, what="it to be told")
        stage.desk.run("jobs", "release", "later")
        shown = stage.desk.read(following.wait(), 0).out
    assert "Spider closed (finished)" in shown


def test_a_drained_node_takes_nothing_until_it_is_resumed(stage: Stage) -> None:
    assert stage.desk.json("nodes", "drain", "node-1", "--wait", "--timeout", "50s")["nodes"][0]["running"] == 0
    jobs = stage.desk.json("schedule", "quick", "--workers", "3", "--wait")
    assert {job["node"] for job in jobs} == {"node-2"}
    assert "draining" in [each["kind"] for each in stage.desk.json("status")["attention"]]
    stage.desk.run("nodes", "resume", "node-1")
    (job,) = stage.desk.json("schedule", "quick", "--on", "node-1", "--wait")
    assert job["node"] == "node-1"


def test_a_killed_spider_failed_by_its_signal_and_is_repeated_only_when_asked(stage: Stage) -> None:
    job = stage.desk.start_sleeper("--id", "killed-once")
    wait_until(lambda: "asleep" in log_of(stage, job["id"]), deadline_s=60, what="the spider to begin")
    kill_at_work(stage, job["id"])
    wait_for_state(stage, job["id"], "failed")
    told = stage.desk.job(job["id"])
    assert (told["signal"], told["exit_code"], told["attempt"]) == ("SIGKILL", None, 1)
    assert any("asleep" in line for line in told["log"])
    again = stage.desk.start_sleeper("--id", "killed-again", "--retry-failed")
    kill_at_work(stage, again["id"])
    wait_until(lambda: stage.desk.job(again["id"])["attempt"] == 2, deadline_s=60, what="a second attempt")


def test_a_job_goes_straight_to_a_stock_node_that_is_picked(stage: Stage) -> None:
    (job,) = stage.desk.json("schedule", "quick", "--on", "stock-1", "--wait")
    assert (job["node"], job["state"], job["attempt"], job["token"]) == ("stock-1", "finished", None, None)
    told = stage.desk.run("jobs", "retry", job["id"], exit_code=6)
    assert "belongs to stock-1, a stock node" in told.err


def test_nodes_of_both_kinds_are_listed_with_what_is_known(stage: Stage) -> None:
    rows = {row["name"]: row for row in stage.desk.json("nodes")}
    assert list(rows) == ["node-1", "node-2", "stock-1"]
    node = rows["node-1"]
    assert (node["state"], node["kind"], node["slots"]) == ("live", "node", 2)
    assert 0 <= node["heartbeat_age_s"] < 60
    assert node["memory_free_mb"] > 0
    assert stage.version in node["versions"]["market"]
    shown = stage.desk.json("nodes", "show", "node-1")
    assert shown["behind"] == {}
    assert shown["software"]["scrapyd"].startswith("1.6")
