"""Jobs go where there is room, with the version and the arguments that were meant, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.cli import NodeEntry
from support.desk import FOREVER_S, Desk, kill_spider, process_of
from support.faulty_server import FaultProxy
from support.market import Market, market_egg
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-scheduling")

# Linux gives a program no word longer than 128 kB, so no longer one can be typed.
LONGEST_WORD = "x" * 125_000


class Stage(NamedTuple):
    desk: Desk
    nodes: list[ScrapydNode]
    version: str


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, three_nodes: list[ScrapydNode], story_redis: RedisServer) -> Stage:
    folder = tmp_path_factory.mktemp("scheduling")
    secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
    desk = Desk.of(three_nodes, story_redis.url, folder / "desk", secrets=secrets)
    deployed = desk.json("deploy", str(Market(folder / "market")))
    return Stage(desk, three_nodes, deployed["version"])


@pytest.fixture(autouse=True)
def idle(stage: Stage) -> Iterator[None]:
    """Leave every sentence with idle nodes."""
    yield
    if any(node.spider_pids() for node in stage.nodes):
        stage.desk.cancel_all()


def sleepers(desk: Desk, *words: str) -> list[dict[str, Any]]:
    """Schedule jobs that last, and return them when their processes are there."""
    jobs: list[dict[str, Any]] = desk.json("schedule", "quick", "-a", f"sleep_s={FOREVER_S}", *words)["jobs"]
    for job in jobs:
        wait_until(lambda job=job: process_of(job["id"]), deadline_s=60, what=f"{job['id']} to run")  # type: ignore[misc]
    return jobs


def test_three_jobs_on_three_idle_nodes_land_one_each(stage: Stage) -> None:
    jobs = sleepers(stage.desk, "--workers", "3")
    assert sorted(job["node"] for job in jobs) == ["node-1", "node-2", "node-3"]
    assert [len(node.get("listjobs.json")["running"]) for node in stage.nodes] == [1, 1, 1]


def test_the_next_job_goes_where_least_is_to_be_done(stage: Stage) -> None:
    sleepers(stage.desk, "--on", "node-1:node-3", "--workers", "3")
    jobs = stage.desk.json("schedule", "quick", "-a", f"sleep_s={FOREVER_S}", "--workers", "2")["jobs"]
    assert [job["node"] for job in jobs] == ["node-2", "node-2"]


def test_on_picks_the_nodes(stage: Stage) -> None:
    jobs = stage.desk.json("schedule", "quick", "--on", "node-*:!node-1", "--workers", "4")["jobs"]
    assert sorted(job["node"] for job in jobs) == ["node-2", "node-2", "node-3", "node-3"]
    assert "node-9" in stage.desk.error("schedule", "quick", "--on", "node-9", exit_code=7)


def test_arguments_and_settings_reach_the_spider(stage: Stage) -> None:
    words = ["-a", "note=a=b Zürich 'x' %20 +&", "-s", "RELEASE=by setting", "--priority", "2.5"]
    job = stage.desk.json("schedule", "quick", *words, "--wait")[0]
    assert job["args"] == {"note": "a=b Zürich 'x' %20 +&"}
    assert job["settings"] == {"RELEASE": "by setting"}
    assert job["priority"] == 2.5
    assert stage.desk.items(job["id"]) == [{"release": "by setting", "note": "a=b Zürich 'x' %20 +&"}]


def test_an_id_is_refused_when_it_is_known(stage: Stage) -> None:
    job = stage.desk.json("schedule", "quick", "--id", "nightly-1", "--wait")[0]
    assert job["id"] == "nightly-1"
    assert "nightly-1" in stage.desk.error("schedule", "quick", "--id", "nightly-1", exit_code=6)
    # Also when only a node knows it, since somebody else scheduled it there.
    sent = stage.nodes[1].post(
        "schedule.json", project="market", spider="quick", _version=stage.version, jobid="by-hand"
    )
    assert sent["status"] == "ok"
    # The refusal says how it stands there, so it is let come to its end first.
    wait_until(
        lambda: stage.nodes[1].get("status.json", job="by-hand").get("currstate") == "finished",
        deadline_s=60,
        what="the job to end",
    )
    assert "by-hand is known on node-2 already" in stage.desk.error("schedule", "quick", "--id", "by-hand", exit_code=6)
    assert "cannot be used" in stage.desk.error("schedule", "quick", "--id", "../escape", exit_code=2)
    assert "cannot serve 2" in stage.desk.error("schedule", "quick", "--id", "twice", "--workers", "2", exit_code=2)


@pytest.mark.parametrize("name", ["jobid", "_version", "project", "spider", "priority", "setting", "_job"])
def test_an_argument_that_scrapyd_would_read_itself_is_refused(stage: Stage, name: str) -> None:
    told = stage.desk.error("schedule", "quick", "-a", f"{name}=x", exit_code=2)
    assert f"the spider argument '{name}' would be read by Scrapyd itself" in told


def test_an_argument_that_no_process_could_take_is_refused_and_nothing_sent(stage: Stage) -> None:
    before = stage.desk.json("jobs")
    told = stage.desk.error("schedule", "quick", "-a", f"long={LONGEST_WORD}", exit_code=2)
    assert "the argument 'long' is longer than 100 kB" in told
    assert LONGEST_WORD not in told
    assert "longer than 100 kB" in stage.desk.error("schedule", "quick", "-s", f"LONG={LONGEST_WORD}", exit_code=2)
    assert "not of the form NAME=VALUE" in stage.desk.error("schedule", "quick", "-a", "nonsense", exit_code=2)
    assert stage.desk.json("jobs") == before


def test_an_unknown_spider_is_told_with_the_nearest_word(stage: Stage) -> None:
    told = stage.desk.error("schedule", "quik", exit_code=7)
    assert "there is no spider 'quik'" in told
    assert "did you mean quick?" in told
    assert "project 'nowhere' has no active" in stage.desk.error("schedule", "quick", "-p", "nowhere", exit_code=7)


def test_a_spider_of_two_projects_needs_the_projects_name(stage: Stage, tmp_path: Path) -> None:
    # Releases of its own, so that the other sentences know of one project only.
    desk = Desk.of(stage.nodes, None, tmp_path / "desk")
    desk.json("deploy", str(Market(tmp_path / "stalls", package="stalls").change("of the stalls")), "--on", "node-2")
    desk.json("deploy", str(Market(tmp_path / "bazaar", package="bazaar").change("of the bazaar")), "--on", "node-3")
    told = desk.error("schedule", "quick", exit_code=2)
    assert "several projects have a spider 'quick': bazaar, stalls" in told
    assert "-p" in told
    # Each is held by one node, so its jobs go there though the others are idle as well.
    jobs = desk.json("schedule", "quick", "-p", "bazaar", "--workers", "2", "--wait")
    assert [job["node"] for job in jobs] == ["node-3", "node-3"]
    assert {item["release"] for job in jobs for item in desk.items(job["id"])} == {"of the bazaar"}
    assert desk.marks("quick", "-p", "stalls") == {"of the stalls"}
    for project in ("stalls", "bazaar"):
        for node in stage.nodes:
            node.post("delproject.json", project=project)


def test_the_version_is_pinned_even_when_a_node_holds_one_that_sorts_later(stage: Stage) -> None:
    for node in stage.nodes:
        sent = node.post(
            "addversion.json", files={"egg": market_egg("later")}, project="market", version="99999999-later"
        )
        assert sent["status"] == "ok"
    try:
        assert stage.desk.marks("quick", "--workers", "3") == {"first"}
        # Asked for by name it runs, though nobody released it.
        assert stage.desk.marks("quick", "-p", "market", "--version", "99999999-later") == {"later"}
        assert "needs the project" in stage.desk.error("schedule", "quick", "--version", "99999999-later", exit_code=2)
        assert "no node holds" in stage.desk.error(
            "schedule", "quick", "-p", "market", "--version", "no-such", exit_code=7
        )
    finally:
        for node in stage.nodes:
            node.post("delversion.json", project="market", version="99999999-later")


def test_waiting_for_a_spider_that_is_killed_ends_with_eight(stage: Stage) -> None:
    words = ("schedule", "quick", "--id", "to-be-killed", "-a", f"sleep_s={FOREVER_S}", "--wait", "--output", "json")
    with stage.desk.begin(*words) as waiting:
        wait_until(lambda: process_of("to-be-killed"), deadline_s=60, what="the spider to run")
        wait_until(lambda: "asleep" in log_of(stage, "to-be-killed"), deadline_s=60, what="the spider to begin")
        kill_spider("to-be-killed")
        ended = stage.desk.read(waiting.wait(), 8)
    job = ended.json()[0]
    assert job["state"] == "failed"
    assert job["finish_reason"] == "ended without closing the spider"
    assert "1 of 1 job(s) did not finish well: to-be-killed failed" in ended.err
    told = stage.desk.job("to-be-killed")
    assert told.items() >= job.items()
    assert any("asleep" in line for line in told["log"])


def test_a_spider_that_raises_has_finished_with_errors(stage: Stage) -> None:
    job = stage.desk.json("schedule", "raising", "--wait")[0]
    assert (job["state"], job["finish_reason"], job["errors"], job["pages"]) == ("finished", "finished", 2, 2)


def test_ctrl_c_ends_the_waiting_and_not_the_job(stage: Stage, story_redis: RedisServer, tmp_path: Path) -> None:
    words = ("schedule", "quick", "--id", "goes-on", "-a", f"sleep_s={FOREVER_S}", "--wait", "--output", "json")
    first = stage.nodes[0]
    with FaultProxy(first.url) as proxy:
        entry = NodeEntry("node-1", "127.0.0.1", proxy.port, first.credentials)
        watched = Desk.of([entry], story_redis.url, tmp_path, secrets=stage.desk.secrets)
        with watched.begin(*words) as waiting:
            wait_until(lambda: process_of("goes-on"), deadline_s=60, what="the spider to run")
            looks = proxy.calls.total()
            wait_until(lambda: proxy.calls.total() > looks, deadline_s=60, what="the waiting to begin")
            waiting.interrupt()
            ended = stage.desk.read(waiting.wait(), 130)
    assert "the jobs go on; crawlctl cancel ID stops one: goes-on" in ended.err
    assert ended.json() == {"error": {"kind": "interrupted", "message": "interrupted", "hint": None}}
    assert process_of("goes-on")


def log_of(stage: Stage, job_id: str) -> str:
    """Return the log of a job, from wherever it is."""
    logs = [node.folder / "logs" / "market" / "quick" / f"{job_id}.log" for node in stage.nodes]
    return "".join(path.read_text() for path in logs if path.exists())
