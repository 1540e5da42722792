"""A day of a cluster as its events tell it: live to who follows, and afterwards to who asks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.cli import RunningCrawlctl
from support.desk import Desk
from support.market import Market
from support.plugin_node import PluginNode, away, running_plugin_nodes
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-events")

INTERRUPTED = 130
SOON_S = 60.0


class Stage(NamedTuple):
    desk: Desk
    nodes: list[PluginNode]
    redis: RedisServer


@pytest.fixture
def stage(tmp_path: Path, story_redis: RedisServer) -> Iterator[Stage]:
    """Give two plug-in nodes that hold nothing yet."""
    story_redis.flush()
    with running_plugin_nodes(2, redis_url=story_redis.url, folder=tmp_path, lease_s=3.0) as nodes:
        secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
        yield Stage(Desk.of(nodes, story_redis.url, tmp_path / "desk", secrets=secrets), nodes, story_redis)


def told_by(following: RunningCrawlctl) -> list[dict[str, Any]]:
    """Return the events that a command has shown so far."""
    *whole, _ = following.out.split("\n")
    return [json.loads(line) for line in whole]


def wait_told(following: RunningCrawlctl, *changes: str) -> None:
    """Wait until each change, written as kind and subject, is shown."""
    wait_until(
        lambda: set(changes) <= {f"{event['kind']} {event['subject']}" for event in told_by(following)},
        deadline_s=SOON_S,
        what=f"the news of {', '.join(changes)}",
    )


def backs(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what nodes were before they were back."""
    return [event["about"]["was"] for event in events if event["kind"] == "node.back"]


def test_who_follows_hears_of_all_that_changes_once_and_who_asks_later_too(stage: Stage, tmp_path: Path) -> None:
    desk, redis = stage.desk, stage.redis
    with desk.begin("events", "-f", "--output", "jsonl") as following:
        wait_told(following, "node.back node-1", "node.back node-2")
        version = desk.json("deploy", str(Market(tmp_path / "market")))["version"]
        desk.start_sleeper("--id", "moves", "--on", "node-1")
        desk.start_sleeper("--id", "once", "--attempts", "1", "--on", "node-1")
        wait_told(following, f"release.deployed market {version}", "job.started moves", "job.started once")

        stage.nodes[0].kill()
        wait_told(following, "node.lost node-1", "job.requeued moves", "job.lost once")
        with away(redis):
            wait_until(lambda: "waiting for Redis" in following.err, deadline_s=SOON_S, what="the wait for Redis")
        stage.nodes[0].start()
        desk.json("schedule", "quick", "--id", "daily", "--on", "node-2")
        desk.json("cancel", "moves")
        wait_told(following, "job.finished daily", "job.cancelled moves")
        wait_until(lambda: "lost" in backs(told_by(following)), deadline_s=SOON_S, what="the news that node-1 is back")

        live = told_by(following)
        following.interrupt()
        assert desk.read(following.wait(), INTERRUPTED).out
    assert backs(live).count("new") == len(stage.nodes)
    assert len({event["key"] for event in live}) == len(live)
    later = desk.json("events", "-n", "1000")
    assert later[-len(live) :][::-1] == live
    jobs = desk.json("events", "--subject", "once", "--kind", "job.*")
    assert [event["kind"] for event in jobs] == ["job.lost", "job.started"]
    assert "lost at attempt" in jobs[0]["about"]["reason"] or "node-1 was lost" in jobs[0]["about"]["reason"]
    assert "no sign of life" in desk.run("events", "--kind", "node.lost", "--since", "1h").out
    assert desk.error("events", "--kind", "jobs.lost", exit_code=2).startswith("usage: ")
