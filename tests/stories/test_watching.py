"""Looking at a cluster: logs as they grow, nodes that are away, jobs as they were last known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.cli import NodeEntry
from support.desk import FOREVER_S, Desk, process_of
from support.faulty_server import FaultyNode
from support.market import Market
from support.processes import quiet_environment
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode, running_nodes
from support.terminal import OnTerminal, run_on_terminal
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-watching")

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Stage(NamedTuple):
    desk: Desk
    nodes: list[ScrapydNode]
    redis: RedisServer
    version: str


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    """Give two nodes on which some jobs have run: two that ended well, one that raised."""
    folder = tmp_path_factory.mktemp("watching")
    with running_nodes(2, folder=folder / "nodes") as nodes:
        secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
        desk = Desk.of(nodes, story_redis.url, folder / "desk", secrets=secrets, timeout_s=20)
        version = desk.json("deploy", str(Market(folder / "market")))["version"]
        desk.json("schedule", "quick", "--id", "daily-1", "--on", "node-1")
        desk.json("schedule", "quick", "--id", "daily-2", "--on", "node-2")
        desk.json("schedule", "raising", "--id", "weekly", "--wait")
        wait_until(lambda: states(desk) == {"finished"}, deadline_s=60, what="the first jobs to end")
        yield Stage(desk, nodes, story_redis, version)


@pytest.fixture(autouse=True)
def well(stage: Stage) -> Iterator[None]:
    """Leave every sentence with nodes that answer and have nothing to do."""
    yield
    for node in stage.nodes:
        if not node.is_running:
            node.start()
    if any(node.spider_pids() for node in stage.nodes):
        stage.desk.cancel_all()


def states(desk: Desk) -> set[str]:
    return {job["state"] for job in desk.json("jobs")}


def test_logs_follow_goes_on_to_the_end_of_the_job(stage: Stage) -> None:
    until = stage.desk.folder / "was-followed"
    job = stage.desk.json("schedule", "quick", "-a", f"until={until}")["jobs"][0]
    with stage.desk.begin("logs", job["id"][:9], "-f", "-n", "1000") as following:
        wait_until(lambda: "asleep" in following.out, deadline_s=60, what="the log to come as it grows")
        assert process_of(job["id"]), "it is shown while the job runs"
        until.touch()
        followed = stage.desk.read(following.wait(), 0).out
    assert followed == stage.desk.run("logs", job["id"]).out
    assert "Spider closed (finished)" in followed
    assert len(followed.splitlines()) == len(set(followed.splitlines())) or followed.count("Spider opened") == 1


def test_logs_follow_of_a_job_that_waits_begins_when_it_runs(stage: Stage) -> None:
    for _ in range(2):
        stage.desk.start_sleeper("--on", "node-1")
    waiting = stage.desk.json("schedule", "quick", "--on", "node-1")["jobs"][0]
    with stage.desk.begin("logs", waiting["id"], "-f") as following:
        wait_until(lambda: stage.desk.job(waiting["id"])["state"] == "pending", deadline_s=60, what="it to wait")
        stage.desk.json("cancel", "--on", "node-1", "--yes", "--spider", "raising")
        sleeping = [job["id"] for job in stage.desk.json("jobs", "--state", "running")]
        stage.desk.json("cancel", *sleeping)
        assert "Spider closed (finished)" in stage.desk.read(following.wait(), 0).out


def test_ctrl_c_ends_the_following_and_not_the_job(stage: Stage) -> None:
    job = stage.desk.start_sleeper()
    with stage.desk.begin("logs", job["id"], "-f") as following:
        wait_until(lambda: following.out, deadline_s=60, what="some of the log")
        following.interrupt()
        stage.desk.read(following.wait(), 130)
    assert process_of(job["id"])


def test_logs_can_be_cut_to_their_last_lines(stage: Stage) -> None:
    whole = stage.desk.run("logs", "daily-1").out
    for lines in (1, 3, 10_000):
        wanted = "".join(whole.splitlines(keepends=True)[-lines:])
        assert stage.desk.run("logs", "daily-1", "-n", str(lines)).out == wanted
    assert stage.desk.run("logs", "daily-1", "-n", "0").out == ""
    assert [row["line"] for row in stage.desk.run("logs", "daily-1", "-n", "2", "--output", "jsonl").jsonl()] == (
        whole.splitlines()[-2:]
    )


def test_jobs_are_filtered_by_all_that_they_have(stage: Stage) -> None:
    def ids(*words: str) -> set[str]:
        return {job["id"] for job in stage.desk.json("jobs", "list", *words)} & {"daily-1", "daily-2", "weekly"}

    everything = {"daily-1", "daily-2", "weekly"}
    assert ids() == everything
    assert ids("--spider", "raising") == {"weekly"}
    assert ids("--spider", "quick", "--on", "node-2") == {"daily-2"}
    assert ids("--state", "finished", "--state", "failed") == everything
    assert ids("--state", "running") == set()
    assert ids("--project", "market") == everything
    assert ids("--project", "bazaar") == set()
    assert ids("--since", "1h30m") == everything
    assert len(stage.desk.json("jobs", "-n", "1")) == 1
    assert "no span of time" in stage.desk.error("jobs", "--since", "yesterday", exit_code=2)


def test_the_beginning_of_an_id_is_enough_when_it_is_the_only_one(stage: Stage) -> None:
    assert stage.desk.job("week")["id"] == "weekly"
    assert stage.desk.job("daily-2")["node"] == "node-2"
    told = stage.desk.error("jobs", "show", "daily", exit_code=2)
    assert "2 jobs' ids begin with 'daily': daily-1, daily-2" in told
    assert "no job's id begins with 'monthly'" in stage.desk.error("jobs", "show", "monthly", exit_code=7)
    for words in (["logs", "monthly"], ["items", "monthly"], ["cancel", "monthly"], ["logs", "-f", "monthly"]):
        assert "monthly" in stage.desk.error(*words, exit_code=7)


def test_status_goes_on_without_a_node_that_is_away_and_tells_of_it(stage: Stage) -> None:
    stage.nodes[1].kill()
    shown = stage.desk.run("status", "--output", "json", exit_code=4)
    up, away = shown.json()["nodes"]
    assert (up["state"], up["projects"]) == ("live", {"market": [stage.version]})
    assert (away["name"], away["state"]) == ("node-2", "unreachable")
    assert [away[field] for field in ("pending", "running", "finished", "projects")] == [None] * 4
    assert "connection refused" in away["error"]
    assert [(each["kind"], each["nodes"]) for each in shown.json()["attention"]] == [("unreachable", ["node-2"])]
    assert "1 of 2 node(s) could not be asked" in shown.err
    table = stage.desk.run("status", exit_code=4).out
    assert "unreachable" in table
    assert "node-2 cannot be reached" in table


def test_status_tells_a_wrong_password_from_a_node_that_is_away(stage: Stage, tmp_path: Path) -> None:
    first, second = stage.nodes
    wrong = NodeEntry("node-2", second.address, second.port, ("crawler", "not-the-password"))
    desk = Desk.of([first, wrong], stage.redis.url, tmp_path, secrets=["not-the-password"])
    nodes = desk.json("status", exit_code=4)["nodes"]
    assert [node["state"] for node in nodes] == ["live", "unauthorized"]
    assert "wrong username or password" in nodes[1]["error"]
    without = Desk.of(
        [first, NodeEntry("node-2", second.address, second.port)], stage.redis.url, tmp_path / "other"
    ).json("status", exit_code=4)
    assert without["nodes"][1]["state"] == "unauthorized"
    assert "it wants a username and password" in without["nodes"][1]["error"]


def test_status_of_nodes_that_are_all_away_ends_with_five(stage: Stage, tmp_path: Path) -> None:
    with FaultyNode("refuse") as one, FaultyNode("hang") as two, FaultyNode("html") as three:
        entries = [NodeEntry(f"gone-{i}", "127.0.0.1", node.port) for i, node in enumerate((one, two, three))]
        desk = Desk.of(entries, stage.redis.url, tmp_path, timeout_s=1)
        status = desk.json("status", exit_code=5)
        assert [node["state"] for node in status["nodes"]] == ["unreachable"] * 3
        assert status["jobs"] == {"pending": 0, "running": 0, "finished": 0}
        whys = [node["error"] for node in status["nodes"]]
        for why, word in zip(whys, ["refused", "did not answer in time", "not Scrapyd's answer"], strict=True):
            assert word in why
        told = desk.error("schedule", "quick", exit_code=6)
        assert "holds market" in told


def test_the_jobs_of_a_node_that_was_killed_are_shown_as_last_known(stage: Stage) -> None:
    job = stage.desk.start_sleeper("--on", "node-2")
    assert stage.desk.job(job["id"])["state"] == "running"
    stage.nodes[1].kill()
    shown = stage.desk.run("jobs", "--output", "json", exit_code=4)
    known = {row["id"]: row for row in shown.json()}
    assert (known[job["id"]]["state"], known[job["id"]]["node"]) == ("running", "node-2")
    assert known["daily-2"]["state"] == "finished"
    assert "their jobs are as last known: node-2" in shown.err
    assert "node-2" in stage.desk.error("logs", job["id"], exit_code=5)


def test_the_job_of_a_node_that_was_killed_and_came_back_is_lost(stage: Stage) -> None:
    job = stage.desk.start_sleeper("--on", "node-2")
    # Within its first seconds, a job that was never seen to run may as well be on its way still.
    assert stage.desk.job(job["id"])["state"] == "running"
    stage.nodes[1].kill()
    stage.nodes[1].start()
    found = stage.desk.job(job["id"])
    assert (found["state"], found["finish_reason"]) == ("lost", "its node knows nothing of it any more")
    assert [row for row in stage.desk.json("jobs", "--state", "lost") if found.items() >= row.items()]


def test_a_job_that_waited_on_a_killed_node_runs_when_it_is_back(stage: Stage) -> None:
    for _ in range(2):
        stage.desk.start_sleeper("--on", "node-2")
    waiting = stage.desk.json("schedule", "quick", "--on", "node-2")["jobs"][0]
    stage.nodes[1].kill()
    stage.nodes[1].start()
    wait_until(
        lambda: stage.desk.job(waiting["id"])["state"] == "finished", deadline_s=60, what="the waiting job to run"
    )


def test_what_is_not_a_terminal_gets_no_escape_codes(stage: Stage) -> None:
    for words in (["status"], ["jobs"], ["releases"], ["jobs", "show", "weekly"], ["--help"], ["deploy", "--help"]):
        shown = stage.desk.run(*words)
        assert "\x1b" not in shown.out + shown.err, words


def test_a_terminal_gets_colours_unless_no_color_is_set(stage: Stage) -> None:
    code, screen = run_on_terminal("jobs", cwd=stage.desk.folder)
    assert code == 0
    assert COLOUR.search(screen)
    code, screen = run_on_terminal("jobs", cwd=stage.desk.folder, env={"NO_COLOR": "1"})
    assert code == 0
    assert "weekly" in screen
    colours = [found for found in COLOUR.findall(screen) if re.search(r"[\[;](3|4|9|10)\d", found)]
    assert colours == []
    code, screen = run_on_terminal("jobs", "--output", "json", cwd=stage.desk.folder)
    assert "\x1b" not in screen


@pytest.mark.parametrize("words", [["jobs"], ["jobs", "--output", "jsonl"], ["status"], ["logs", "weekly"]])
def test_a_reader_that_has_gone_ends_the_command_quietly(stage: Stage, words: list[str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-P", "-m", "toolkit.cli.main", *words]
        done = subprocess.run(
            command,
            cwd=stage.desk.folder,
            env=quiet_environment(tmp_path),
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_status_watch_looks_again_until_ctrl_c(stage: Stage) -> None:
    with stage.desk.begin("status", "--watch", "--every", "0.3", "--output", "jsonl") as watching:
        wait_until(lambda: watching.out.count("\n") >= 2, deadline_s=60, what="two looks")
        job = stage.desk.json("schedule", "quick", "-a", f"sleep_s={FOREVER_S}")["jobs"][0]
        wait_until(lambda: '"running": 1' in watching.out, deadline_s=60, what=f"{job['id']} to be seen")
        watching.interrupt()
        stage.desk.read(watching.wait(), 130)


def test_top_shows_a_cluster_a_job_and_its_log_and_leaves_the_terminal_as_it_was(stage: Stage) -> None:
    with OnTerminal("top", "--every", "1s", cwd=stage.desk.folder) as terminal:
        terminal.until("weekly")
        terminal.type("/", then="words that must be there")
        terminal.type("weekly", then="/weekly")
        terminal.type("\r", then="only rows with weekly")
        terminal.type("\r", then="Spider closed (finished)")
        terminal.type("w", then="why weekly")
        # Not a word of the screen that is left: what comes right after an Esc is taken for a part of it.
        terminal.type("\x1b", then="Spider closed (finished)")
        assert terminal.end("\x03") == 0
    assert terminal.shown.startswith("\x1b[?1049h")
    assert "\x1b[?1049l" in terminal.shown[-200:]
    assert "\x1b[?25h" in terminal.shown[-200:]


def test_top_without_a_terminal_names_what_does_without_one(stage: Stage) -> None:
    told = stage.desk.error("top", exit_code=2)
    assert "crawlctl status --watch" in told
    assert "--every 0s" in stage.desk.error("top", "--every", "0s", exit_code=2)
