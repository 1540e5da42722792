"""A node dies, Redis goes away, and what an operator sees of it: jobs go on elsewhere, and everything is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from support.desk import Desk, process_of
from support.market import Market
from support.plugin_node import PluginNode, away, full, running_plugin_nodes
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-queue-failures")
LEASE_S = 3.0


class Stage(NamedTuple):
    desk: Desk
    nodes: list[PluginNode]
    redis: RedisServer

    def node_of(self, job_id: str) -> str | None:
        """Return the node that has a job now."""
        node: str | None = self.desk.job(job_id)["node"]
        return node

    def beats_ms(self) -> list[float]:
        """Return when each node gave its last heartbeat, by Redis' clock."""
        with closing(redis.Redis.from_url(self.redis.url)) as client:
            beats: Any = client.zrange("crawlctl:{main}:nodes:beats", 0, -1, withscores=True)
        return [float(at_ms) for _, at_ms in beats]

    def kinds(self, *, exit_code: int = 0) -> list[str]:
        """Return what needs attention."""
        return [each["kind"] for each in self.desk.json("status", exit_code=exit_code)["attention"]]


@pytest.fixture
def stage(tmp_path: Path, story_redis: RedisServer, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Two plug-in nodes with one release; a test may name their lease in seconds."""
    story_redis.flush()
    lease_s = getattr(request, "param", LEASE_S)
    with running_plugin_nodes(2, redis_url=story_redis.url, folder=tmp_path, lease_s=lease_s) as nodes:
        secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
        desk = Desk.of(nodes, story_redis.url, tmp_path / "desk", secrets=secrets)
        desk.json("deploy", str(Market(tmp_path / "market")))
        yield Stage(desk, nodes, story_redis)


def test_the_job_of_a_node_that_dies_goes_on_elsewhere(stage: Stage) -> None:
    job = stage.desk.start_sleeper("--id", "moves", "--on", "node-1")
    stage.desk.start_sleeper("--id", "once", "--attempts", "1", "--on", "node-1")
    stage.desk.run("jobs", "list", "--state", "running")
    stage.nodes[0].kill()
    wait_until(lambda: stage.desk.job("once")["state"] == "lost", deadline_s=60, what="the job to be lost")
    assert "node-1 was lost" in stage.desk.job("once")["reason"]
    # Only node-1 may take it, so it waits until it may go elsewhere. Their leases need not end in the same moment.
    wait_until(lambda: stage.desk.job(job["id"])["state"] == "pending", deadline_s=60, what="the other job to wait")
    wait_until(
        lambda: {"lost", "jobs_lost", "waiting"} <= set(stage.kinds(exit_code=4)), deadline_s=60, what="all to be told"
    )
    stage.desk.run("jobs", "move", job["id"], "--on", "all")
    wait_until(lambda: stage.node_of(job["id"]) == "node-2", deadline_s=60, what="the other node to take it")
    assert stage.desk.job(job["id"])["attempt"] == 2
    stage.desk.run("jobs", "retry", "once")
    assert "is lost" in str(stage.desk.json("why", "once")["nodes"])
    stage.desk.json("nodes", "forget", "node-1")
    assert [row["kind"] for row in stage.desk.json("nodes")] == ["stock", "node"]
    stage.desk.cancel_all()


@pytest.mark.parametrize("stage", [60.0], indirect=True)
def test_spiders_outlive_a_restart_and_are_found_again(stage: Stage) -> None:
    stage.desk.start_sleeper("--id", "stays", "--on", "node-1")
    before = stage.desk.job("stays")
    stage.nodes[0].stop(spiders=False)
    stage.nodes[0].start()
    wait_until(
        lambda: stage.desk.json("nodes", "show", "node-1")["running"] == 1,
        deadline_s=60,
        what="the spider to be adopted",
    )
    after = stage.desk.job("stays")
    assert (after["state"], after["token"], after["pid"]) == ("running", before["token"], before["pid"])
    (row,) = stage.desk.json("cancel", "stays", "--grace", "5")["jobs"]
    assert (row["after"], row["error"]) == ("cancelled", None)


def test_a_node_that_was_away_installs_what_was_deployed_meanwhile(stage: Stage, tmp_path: Path) -> None:
    stage.nodes[0].kill()
    wait_until(
        lambda: stage.desk.json("nodes", "show", "node-1")["state"] == "lost", deadline_s=60, what="node-1 to be lost"
    )
    changed = str(Market(tmp_path / "changed").change("second"))
    would = {row["name"]: row["step"] for row in stage.desk.json("deploy", changed, "--dry-run")["nodes"]}
    assert would == {"node-1": "later", "node-2": "upload"}
    deployed = stage.desk.run("deploy", changed, "--output", "json")
    assert {row["name"]: row["step"] for row in deployed.json()["nodes"]} == {"node-1": "later", "node-2": "done"}
    assert "1 lost node(s) install it when they are back" in deployed.err
    assert stage.desk.marks("quick", "--workers", "2") == {"second"}
    stage.nodes[0].start()
    version = deployed.json()["version"]
    wait_until(
        lambda: version in stage.desk.json("nodes", "show", "node-1")["versions"].get("market", []),
        deadline_s=60,
        what="node-1 to hold the release",
    )
    assert stage.desk.marks("quick", "--on", "node-1") == {"second"}
    assert stage.kinds() == []


def test_while_redis_is_away_spiders_go_on_and_every_command_says_what_is_missing(stage: Stage) -> None:
    stage.desk.start_sleeper("--id", "goes-on")
    with away(stage.redis):
        assert stage.kinds(exit_code=5)[0] == "store"
        for words in (("jobs",), ("schedule", "quick"), ("nodes",), ("jobs", "hold", "goes-on"), ("why", "goes-on")):
            told = stage.desk.error(*words, exit_code=5)
            assert told.startswith("store_unreachable: ")
        assert process_of("goes-on")
        alone = stage.desk.json("status", exit_code=5)
        assert (alone["jobs"]["running"], [row["kind"] for row in alone["nodes"]]) == (1, ["node", "node"])
    wait_until(lambda: stage.desk.job("goes-on")["state"] == "running", deadline_s=60, what="the job to be seen again")
    assert stage.desk.job("goes-on")["attempt"] == 1
    stage.desk.cancel_all()


def test_while_redis_is_full_spiders_go_on_and_every_change_is_refused_aloud(stage: Stage) -> None:
    stage.desk.start_sleeper("--id", "goes-on")
    stage.desk.start_sleeper("--id", "unwanted")
    stage.desk.run("cron", "add", "nightly", "quick", "--at", "@daily")
    with full(stage.redis):
        assert stage.kinds()[0] == "redis"
        for words in (
            ("schedule", "quick"),
            ("cron", "run", "nightly"),
            ("cron", "add", "hourly", "quick", "--at", "@hourly"),
            ("nodes", "drain", "node-1"),
        ):
            assert "its memory is full" in stage.desk.error(*words, exit_code=5)
        # A heartbeat takes no more memory than the one before it: the nodes live on, and hear of what is cancelled.
        (row,) = stage.desk.json("cancel", "unwanted", "--grace", "5")["jobs"]
        assert (row["after"], row["error"]) == ("cancelled", None)
        later_ms = max(stage.beats_ms()) + 2 * LEASE_S * 1000
        wait_until(lambda: min(stage.beats_ms()) > later_ms, deadline_s=60, what="heartbeats for longer than a lease")
        assert {row["state"] for row in stage.desk.json("nodes")} == {"live"}
        assert stage.kinds() == ["redis"]
        assert process_of("goes-on")
    wait_until(lambda: stage.kinds() == [], deadline_s=60, what="the memory to be enough again")
    job = stage.desk.job("goes-on")
    assert (job["state"], job["attempt"]) == ("running", 1)
    assert stage.desk.json("cron", "history", "nightly") == []
    stage.desk.run("cron", "remove", "nightly", "--yes")
    assert stage.desk.marks("quick", "--workers", "2")
    stage.desk.cancel_all()


def test_a_wait_outlasts_a_redis_that_is_away_for_a_while(stage: Stage) -> None:
    until = stage.desk.folder / "redis-was-away"
    with stage.desk.begin("schedule", "quick", "--id", "long", "-a", f"until={until}", "--wait") as following:
        wait_until(lambda: process_of("long"), deadline_s=60, what="the spider to run")
        with away(stage.redis):
            wait_until(lambda: "waiting for it" in following.err, deadline_s=60, what="the absence to be told")
        until.touch()
        told = stage.desk.read(following.wait(), 0)
    assert told.err.count("waiting for it") == 1
    assert "finished" in told.out


def test_a_drain_that_is_waited_for_outlasts_redis_and_says_what_stays_when_it_is_interrupted(stage: Stage) -> None:
    stage.desk.start_sleeper("--id", "goes-on", "--on", "node-1")
    with stage.desk.begin("nodes", "drain", "node-1", "--wait") as draining:
        wait_until(
            lambda: stage.desk.json("nodes", "show", "node-1")["draining"], deadline_s=60, what="the node to be drained"
        )
        with away(stage.redis):
            wait_until(lambda: "waiting for it" in draining.err, deadline_s=60, what="the absence to be told")
        draining.interrupt()
        told = stage.desk.read(draining.wait(), 130).err
    assert "drained all the same: node-1; crawlctl nodes resume node-1 undoes it" in told
    assert stage.desk.json("nodes", "show", "node-1")["draining"] is True
    stage.desk.run("nodes", "resume", "node-1")
    stage.desk.cancel_all()


def test_an_operator_whom_redis_refuses_counts_each_job_once(stage: Stage, tmp_path: Path) -> None:
    stage.desk.start_sleeper("--id", "goes-on", "--on", "node-1")
    stage.desk.run("schedule", "quick", "--id", "held", "--delay", "1h")
    known = stage.desk.json("status")
    wrong = stage.redis.url.replace(str(stage.redis.password), "not-the-password")
    stranger = Desk.of(stage.nodes, wrong, tmp_path / "stranger", secrets=())
    seen = stranger.json("status", exit_code=5)
    assert seen["jobs"] == known["jobs"]
    assert [(row["name"], row["kind"], row["running"]) for row in seen["nodes"]] == [
        ("node-1", "node", 1),
        ("node-2", "node", 0),
    ]
    assert [(row["pending"], row["finished"]) for row in seen["nodes"]] == [(None, None), (None, None)]
    told = stranger.run("jobs", exit_code=5).err
    assert "it refuses the password" in told
    assert "crawlctl up" not in told
    stage.desk.cancel_all()
