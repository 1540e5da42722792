"""Stopping jobs: asked, insisted, killed; and `cancelled` is said only of what is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from support.cli import NodeEntry
from support.desk import FOREVER_S, Desk, alive, process_of
from support.faulty_server import FaultProxy
from support.market import Market
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode, running_nodes
from support.terminal import run_on_terminal
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-cancelling")


class Stage(NamedTuple):
    desk: Desk
    nodes: list[ScrapydNode]
    redis: RedisServer


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    """Give two nodes with one slot each."""
    folder = tmp_path_factory.mktemp("cancelling")
    with running_nodes(2, folder=folder / "nodes", options={"max_proc": "1"}) as nodes:
        secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
        desk = Desk.of(nodes, story_redis.url, folder / "desk", secrets=secrets, timeout_s=20)
        desk.json("deploy", str(Market(folder / "market")))
        yield Stage(desk, nodes, story_redis)


@pytest.fixture(autouse=True)
def idle(stage: Stage) -> Iterator[None]:
    yield
    if any(node.spider_pids() for node in stage.nodes):
        stage.desk.cancel_all()


def asleep(stage: Stage, *words: str) -> dict[str, Any]:
    """Start a job that lasts, and return it when its spider has begun."""
    job = stage.desk.start_sleeper(*words)
    until_logged(stage, job, "asleep")
    return job


def until_logged(stage: Stage, job: dict[str, Any], words: str) -> None:
    node = next(node for node in stage.nodes if node.name == job["node"])
    log = node.folder / "logs" / job["project"] / job["spider"] / f"{job['id']}.log"
    wait_until(lambda: log.exists() and words in log.read_text(), deadline_s=60, what=f"{words!r} in {log}")


def test_a_pending_job_is_taken_out_of_the_queue_and_never_runs(stage: Stage) -> None:
    asleep(stage, "--on", "node-1")
    waiting = stage.desk.json("schedule", "quick", "--on", "node-1")["jobs"][0]
    assert stage.desk.job(waiting["id"])["state"] == "pending"
    cancelled = stage.desk.json("cancel", waiting["id"])["jobs"]
    assert [(row["id"], row["before"], row["after"]) for row in cancelled] == [(waiting["id"], "pending", "cancelled")]
    assert stage.nodes[0].get("listjobs.json")["pending"] == []
    after = stage.desk.job(waiting["id"])
    assert (after["state"], after["started_at"]) == ("cancelled", None)


def test_a_running_job_closes_its_spider_in_order_and_its_process_is_gone(stage: Stage) -> None:
    job = asleep(stage)
    process = process_of(job["id"])
    assert process is not None
    cancelled = stage.desk.json("cancel", job["id"][:10])["jobs"][0]
    assert alive([process.pid]) == []
    assert (cancelled["before"], cancelled["after"]) == ("running", "cancelled")
    after = stage.desk.job(job["id"])
    assert (after["state"], after["finish_reason"]) == ("cancelled", "shutdown")
    assert after["ended_at"] is not None
    # A second cancel finds nothing left to do.
    again = stage.desk.json("cancel", job["id"])["jobs"][0]
    assert (again["before"], again["after"]) == ("cancelled", "cancelled")


def test_a_spider_that_hears_no_signal_is_killed_in_time(stage: Stage) -> None:
    job = stage.desk.start_job("deaf")
    until_logged(stage, job, "deaf from now on")
    process = process_of(job["id"])
    assert process is not None
    cancelled = stage.desk.json("cancel", job["id"], "--grace", "1")["jobs"][0]
    assert alive([process.pid]) == []
    assert (cancelled["before"], cancelled["after"]) == ("running", "cancelled")
    after = stage.desk.job(job["id"])
    assert (after["state"], after["finish_reason"]) == ("cancelled", "killed")


def test_many_are_cancelled_side_by_side(stage: Stage) -> None:
    jobs = [asleep(stage, "--on", node.name) for node in stage.nodes]
    jobs += stage.desk.json("schedule", "quick", "-a", f"sleep_s={FOREVER_S}", "--workers", "4")["jobs"]
    others = [process_of(job["id"]) for job in jobs[:2]]
    cancelled = stage.desk.json("cancel", "--spider", "quick", "--yes")["jobs"]
    assert {row["id"]: (row["before"], row["after"]) for row in cancelled} == {
        job["id"]: ("running" if job in jobs[:2] else "pending", "cancelled") for job in jobs
    }
    assert alive([process.pid for process in others if process]) == []
    assert stage.desk.json("status")["jobs"] | {"finished": 0} == {"pending": 0, "running": 0, "finished": 0}


def test_a_bulk_cancel_asks_and_no_means_no(stage: Stage) -> None:
    job = asleep(stage)
    code, screen = run_on_terminal("cancel", "--all", cwd=stage.desk.folder, typed="n\n")
    assert code == 2
    assert "Cancel 1 job(s)? [y/N]" in screen
    assert "nothing was cancelled" in screen
    assert process_of(job["id"])
    code, screen = run_on_terminal("cancel", "--all", cwd=stage.desk.folder, typed="\n")
    assert code == 2
    assert process_of(job["id"])


def test_a_bulk_cancel_asks_and_yes_means_yes(stage: Stage) -> None:
    job = asleep(stage)
    code, screen = run_on_terminal("cancel", "--project", "market", cwd=stage.desk.folder, typed="y\n")
    assert code == 0, screen
    assert "Cancel 1 job(s)? [y/N]" in screen
    assert "cancelled" in screen
    assert process_of(job["id"]) is None


def test_a_bulk_cancel_that_nobody_can_answer_is_refused(stage: Stage) -> None:
    job = asleep(stage)
    told = stage.desk.error("cancel", "--all", exit_code=2)
    assert "There is no terminal to ask on" in told
    assert "--yes" in told
    assert "name jobs by their ids, or choose by" in stage.desk.error("cancel", exit_code=2)
    assert "name jobs by their ids, or choose by" in stage.desk.error("cancel", job["id"], "--all", exit_code=2)
    assert process_of(job["id"])


def test_a_bulk_cancel_of_nothing_needs_no_answer(stage: Stage) -> None:
    assert stage.desk.json("cancel", "--spider", "raising") == {"jobs": []}


def test_a_bulk_cancel_can_be_bound_to_some_nodes(stage: Stage) -> None:
    here, there = asleep(stage, "--on", "node-1"), asleep(stage, "--on", "node-2")
    cancelled = stage.desk.json("cancel", "--on", "node-2", "--yes")["jobs"]
    assert [row["id"] for row in cancelled] == [there["id"]]
    assert process_of(here["id"])


def test_a_job_whose_node_is_away_is_not_said_to_be_cancelled(stage: Stage) -> None:
    job = asleep(stage, "--on", "node-2")
    stage.nodes[1].kill(spiders=False)
    try:
        answer = stage.desk.json("cancel", job["id"], "--grace", "1", exit_code=4)["jobs"][0]
        assert answer["after"] != "cancelled"
        assert "node-2" in answer["error"]
        assert process_of(job["id"]), "the orphan runs on"
    finally:
        end_orphan(job)
        stage.nodes[1].start()


def test_a_job_that_its_restarted_node_has_forgotten_is_not_proven_to_be_gone(stage: Stage) -> None:
    job = asleep(stage, "--on", "node-2")
    stage.nodes[1].kill(spiders=False)
    stage.nodes[1].start()
    try:
        ended = stage.desk.run("cancel", job["id"], "--output", "json", exit_code=4)
        answer = ended.json()["jobs"][0]
        assert answer["after"] != "cancelled"
        assert "cannot be proven to be gone: node-2 knows nothing of it" in answer["error"]
        assert "look for the process on the host" in ended.err
        assert process_of(job["id"]), "the orphan runs on"
        # Asked again, it still cannot say better.
        stage.desk.json("cancel", job["id"], exit_code=4)
    finally:
        end_orphan(job)


def test_ctrl_c_while_a_cancel_waits_ends_the_waiting(stage: Stage, tmp_path: Path) -> None:
    first = stage.nodes[0]
    job = stage.desk.start_job("deaf", "--on", "node-1")
    until_logged(stage, job, "deaf from now on")
    with FaultProxy(first.url) as proxy:
        entry = NodeEntry("node-1", "127.0.0.1", proxy.port, first.credentials)
        watched = Desk.of([entry], stage.redis.url, tmp_path, secrets=stage.desk.secrets)
        with watched.begin("cancel", job["id"], "--grace", "60") as command:
            wait_until(lambda: proxy.calls["status.json"] > 2, deadline_s=60, what="the waiting to begin")
            command.interrupt()
            stage.desk.read(command.wait(timeout_s=30), 130)
    assert process_of(job["id"])
    # The wish is remembered: whatever ends it now, it was cancelled.
    stage.nodes[0].kill_spiders()
    wait_until(lambda: stage.desk.job(job["id"])["state"] != "running", deadline_s=60, what="its end")
    after = stage.desk.job(job["id"])
    assert (after["state"], after["finish_reason"]) == ("cancelled", "killed")


def test_whoever_waits_for_a_job_that_is_cancelled_is_told_so(stage: Stage) -> None:
    with stage.desk.begin("schedule", "deaf", "--id", "waited-for", "--wait", "--output", "json") as waiting:
        wait_until(lambda: process_of("waited-for"), deadline_s=60, what="the spider to run")
        until_logged(stage, stage.desk.job("waited-for"), "deaf from now on")
        stage.desk.json("cancel", "waited-for", "--grace", "0")
        ended = stage.desk.read(waiting.wait(), 8)
    assert [(job["state"], job["finish_reason"]) for job in ended.json()] == [("cancelled", "killed")]
    assert "waited-for cancelled (killed)" in ended.err


def end_orphan(job: dict[str, Any]) -> None:
    """Kill a spider whose node has gone without it."""
    process = process_of(job["id"])
    if process is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            process.wait(10)
