"""The items of one job from the desk of an operator: while it runs, followed, after a kill, and where some are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.cli import RunningCrawlctl
from support.desk import Desk, process_of
from support.node_spiders import a_node_job, ended
from support.plugin_node import PluginNode, away, shared_of
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS
from support.spider_cluster import spider_nodes, store_of
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName
from toolkit.store.interfaces import Store

pytestmark = pytest.mark.xdist_group("stories-items-of-a-job")
SOON_S = 60.0
LEASE_S = 15.0
FOUND = 3
ALL = list(range(2 * FOUND))


class Stage(NamedTuple):
    desk: Desk
    nodes: list[PluginNode]
    store: Store
    redis: RedisServer

    def schedule(self, job_id: str, *, until: Path, on: str = "node-1") -> None:
        args = {"found": str(FOUND), "until": str(until)}
        shared_of(self.store).queue.add([a_node_job(job_id, "finds", args=args, on=(NodeName(on),))])

    def file(self, job_id: str) -> Path:
        """Return the items file of a job of the first node."""
        return self.nodes[0].folder / "items" / "shop" / "finds" / f"{job_id}.jl"

    def end(self, job_id: str) -> None:
        """Let a job run to its end."""
        until = self.desk.folder / job_id
        until.touch()
        self.schedule(job_id, until=until)
        assert ended(self.store, job_id, within_s=SOON_S).items == len(ALL)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("items")
    with (
        spider_nodes(2, story_redis, folder, lease_s=LEASE_S) as nodes,
        store_of(nodes, story_redis, folder) as store,
    ):
        secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
        desk = Desk.of(nodes, story_redis.url, folder / "desk", secrets=secrets, timeout_s=3)
        yield Stage(desk, nodes, store, story_redis)


def numbers(rows: list[Any]) -> list[int]:
    return [row["number"] for row in rows]


def wait_for_first(following: RunningCrawlctl) -> None:
    wait_until(lambda: following.out.count("\n") == FOUND, deadline_s=SOON_S, what="the first items to be followed")


def test_the_items_of_a_job_that_runs_are_there_and_outlive_its_kill(stage: Stage) -> None:
    stage.schedule("killed", until=stage.desk.folder / "never")
    wait_until(lambda: stage.desk.job("killed")["items"] == FOUND, deadline_s=SOON_S, what="the items to be counted")
    told = stage.desk.run("items", "killed")
    assert (numbers(told.jsonl()), told.err) == (ALL[:FOUND], "")

    with stage.desk.begin("items", "-f", "killed") as following:
        wait_for_first(following)
        process = process_of("killed")
        assert process is not None
        process.kill()
        followed = stage.desk.read(following.wait(), 0)

    assert ended(stage.store, "killed").state is JobState.FAILED
    assert (numbers(followed.jsonl()), followed.err) == (ALL[:FOUND], "")
    assert numbers(stage.desk.items("killed")) == ALL[:FOUND]


def test_items_are_followed_from_before_the_job_begins_to_its_end(stage: Stage) -> None:
    until = stage.desk.folder / "followed"
    stage.desk.run("nodes", "drain", "node-1")
    stage.schedule("followed", until=until)
    with stage.desk.begin("items", "followed", "-f", "--output", "json") as following:
        wait_until(lambda: "is pending; its items follow" in following.err, deadline_s=SOON_S, what="it to wait")
        stage.desk.run("nodes", "resume", "node-1")
        wait_for_first(following)
        assert stage.desk.job("followed")["state"] == "running"
        until.touch()
        followed = stage.desk.read(following.wait(), 0)
    assert numbers(followed.jsonl()) == ALL
    assert followed.out == stage.desk.run("items", "followed").out == stage.file("followed").read_text()


def test_following_outlasts_a_node_and_a_redis_that_are_away(stage: Stage) -> None:
    until = stage.desk.folder / "outlasts"
    stage.schedule("outlasts", until=until)
    with stage.desk.begin("items", "outlasts", "-f") as following:
        wait_for_first(following)
        stage.nodes[0].kill(spiders=False)
        wait_until(lambda: "is not reached" in following.err, deadline_s=SOON_S, what="the node to be missed")
        with away(stage.redis):
            stage.nodes[0].start()
            until.touch()
            wait_until(lambda: process_of("outlasts") is None, deadline_s=SOON_S, what="the spider to end")
            wait_until(lambda: "the shared store" in following.err, deadline_s=SOON_S, what="Redis to be missed")
        followed = stage.desk.read(following.wait(), 0)
    assert numbers(followed.jsonl()) == ALL


def test_a_job_that_goes_on_elsewhere_is_followed_there(stage: Stage) -> None:
    until = stage.desk.folder / "moves"
    stage.schedule("moves", until=until)
    with stage.desk.begin("items", "moves", "-f") as following:
        wait_for_first(following)
        stage.nodes[0].kill()
        wait_until(lambda: stage.desk.job("moves")["state"] == "pending", deadline_s=SOON_S, what="it to be given back")
        until.touch()
        stage.desk.run("jobs", "move", "moves", "--on", "node-2")
        followed = stage.desk.read(following.wait(), 0)
    stage.nodes[0].start()
    stage.nodes[0].wait_registered(shared_of(stage.store))
    assert "moves goes on at node-2" in followed.err
    assert numbers(followed.jsonl()) == [*ALL[:FOUND], *ALL]
    assert "counted" not in followed.err


@pytest.mark.parametrize("output", ["table", "json"])
def test_ctrl_c_ends_the_following_without_an_error(stage: Stage, output: str) -> None:
    job_id = f"interrupted-{output}"
    until = stage.desk.folder / job_id
    stage.schedule(job_id, until=until)
    with stage.desk.begin("items", job_id, "-f", "--output", output) as following:
        wait_for_first(following)
        following.interrupt()
        ended_by_hand = stage.desk.read(following.wait(), 130)
    assert numbers(ended_by_hand.jsonl()) == ALL[:FOUND]
    assert "error" not in ended_by_hand.err
    assert process_of(job_id)
    until.touch()


def test_fewer_items_than_were_counted_are_told_and_no_half_line_is_printed(stage: Stage) -> None:
    stage.end("fewer")
    file = stage.file("fewer")
    whole = file.read_text()
    assert stage.desk.run("items", "fewer").err == ""

    kept = "".join(whole.splitlines(keepends=True)[:2])
    file.write_text(kept + '{"number": ')
    for words in (("items", "fewer"), ("items", "fewer", "-f")):
        told = stage.desk.run(*words)
        assert told.out == kept
        assert "fewer counted 6 items, but its file on node-1 has 2" in told.err
        assert "the last line of the file is incomplete and was not printed (11 bytes)" in told.err

    file.unlink()
    for words in (("items", "fewer"), ("items", "fewer", "-f")):
        assert "node-1 keeps no items of fewer, though it counted 6" in stage.desk.error(*words, exit_code=7)
