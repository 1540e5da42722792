"""Logs from the desk of an operator: of many jobs and nodes as one stream, and of a node that is no longer there."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.cli import Finished, RunningCrawlctl, run_crawlctl
from support.desk import Desk
from support.plugin_node import PluginNode, shared_of, shared_store
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS
from support.talkers import CRAWL, a_talk, talking_nodes
from support.waiting import wait_until

from toolkit.model.names import JobId
from toolkit.store.interfaces import Shared, Store

pytestmark = pytest.mark.xdist_group("stories-logs")
SOON_S = 60.0
LATE_S = 60.0
# Their local times are hours apart, and rise and fall by quarters of an hour.
ZONES = {"node-1": "Asia/Kathmandu", "node-2": "America/New_York"}


class Stage(NamedTuple):
    desk: Desk
    nodes: list[PluginNode]
    store: Store
    shared: Shared


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    """Two nodes in two time zones that ship their logs to Redis."""
    folder = tmp_path_factory.mktemp("logs")
    with (
        talking_nodes(story_redis, folder, zones=ZONES, own={"ship_logs": "redis"}, lease_s=6.0) as nodes,
        shared_store(story_redis.url, folder) as store,
    ):
        secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
        desk = Desk.of(nodes, story_redis.url, folder / "desk", secrets=secrets, timeout_s=3)
        yield Stage(desk, nodes, store, shared_of(store))


def wait_for_state(stage: Stage, job_id: str, state: str) -> None:
    def is_so() -> bool:
        job = stage.store.jobs.get(JobId(job_id))
        return job is not None and job.state == state

    wait_until(is_so, deadline_s=SOON_S, what=f"{job_id} to be {state}")


def ended_well(following: RunningCrawlctl) -> list[dict[str, Any]]:
    """Return what was followed; the traceback in it is the spider's."""
    ended = following.wait()
    assert ended.exit_code == 0, str(ended)
    return ended.jsonl()


def log_of(stage: Stage, *words: str) -> Finished:
    """Read logs with a traceback in them, which is the spider's."""
    read = run_crawlctl("logs", *words, cwd=stage.desk.folder, warm=True)
    assert read.exit_code == 0, str(read)
    return read


def said(entries: list[dict[str, Any]], job_id: str) -> list[str]:
    """Return what a job's spider said, in the order in which it is shown."""
    return [entry["text"] for entry in entries if entry["job"] == job_id and entry["logger"] == "talker"]


def times_of(entries: list[dict[str, Any]]) -> list[datetime]:
    """Return when the two jobs of the two time zones said their lines, in the order in which it is shown."""
    return [
        datetime.fromisoformat(entry["at"])
        for entry in entries
        if entry["job"] in {"first", "second"} and "tick" in entry["text"]
    ]


def test_a_whole_crawl_is_followed_as_one_stream_until_all_its_jobs_have_ended(stage: Stage, tmp_path: Path) -> None:
    until = tmp_path / "until"
    first = a_talk("first", on="node-1", ticks=12, pause_s=0.4, until=until)
    stage.shared.queue.add([first, a_talk("second", on="node-2", ticks=8, pause_s=0.4)])
    for job in ("first", "second"):
        wait_for_state(stage, job, "running")
    with stage.desk.begin("logs", "-f", "--crawl", CRAWL, "-n", "1000", "--output", "jsonl") as following:
        wait_until(lambda: "tick 2" in following.out, deadline_s=SOON_S, what="the stream to begin")
        stage.shared.queue.add([a_talk("joins", on="node-2", ticks=2), a_talk("stranger", crawl="other", ticks=1)])
        until.touch()
        entries = ended_well(following)

    assert {(entry["job"], entry["node"]) for entry in entries} == {
        ("first", "node-1"),
        ("second", "node-2"),
        ("joins", "node-2"),
    }
    for job, ticks in (("first", 12), ("second", 8), ("joins", 2)):
        told = said(entries, job)
        assert told[:ticks] == [f"tick {number}" for number in range(ticks)]
        assert told[ticks].startswith("it could not be said\nTraceback (most recent call last):\n")
        assert told[ticks].endswith("ValueError: nobody listens")
        assert any(entry["text"].startswith("Spider closed") for entry in entries if entry["job"] == job)
    # The clocks of the two zones are ten hours apart; what is said at a time stands at its time. What a slow node gave
    # late stands later, but only where a log is followed.
    followed = times_of(entries)
    latest = itertools.accumulate(followed, max)
    assert all(before - at < timedelta(seconds=LATE_S) for before, at in zip(latest, followed, strict=True))
    read = times_of(log_of(stage, "--crawl", CRAWL, "-n", "1000", "--output", "jsonl").jsonl())
    assert read == sorted(followed)
    assert [entry["level"] for entry in entries if "goodbye" in entry["text"]] == ["WARNING"] * 3


def test_what_is_there_is_read_by_level_by_text_and_by_age(stage: Stage) -> None:
    wait_for_state(stage, "stranger", "finished")
    errors = log_of(stage, "--crawl", CRAWL, "--level", "error", "--output", "jsonl").jsonl()
    assert sorted((entry["job"], entry["level"]) for entry in errors) == [
        ("first", "ERROR"),
        ("joins", "ERROR"),
        ("second", "ERROR"),
    ]
    ticks = stage.desk.run("logs", "first", "second", "--grep", "TICK", "-n", "2", "--output", "jsonl").jsonl()
    assert (said(ticks, "first"), said(ticks, "second")) == (["tick 10", "tick 11"], ["tick 6", "tick 7"])
    found = stage.desk.run("logs", "--spider", "talker", "--on", "node-2", "--regex", r"tick [01]$")
    assert sorted(line.partition(" |")[0].strip() for line in found.out.splitlines() if "joins" in line) == [
        "joins/node-2",
        "joins/node-2",
    ]
    assert stage.desk.run("logs", "first", "--since", "1s", "--level", "debug").out == ""


def test_what_a_spider_logs_commands_no_terminal(stage: Stage) -> None:
    shown = log_of(stage, "first", "second", "--level", "warning", "--no-prefix").out
    assert r"\x1b[31mgoodbye\x1b[0m" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("logs",), "say whose logs"),
        (("logs", "first", "--crawl", CRAWL), "name jobs by their ids, or choose"),
        (("logs", "--crawl", CRAWL, "--grep", "a", "--regex", "b"), "give one"),
        (("logs", "--crawl", CRAWL, "--regex", "("), "is no regular expression"),
        (("logs", "--crawl", CRAWL, "--since", "soon"), "no span of time"),
    ],
)
def test_words_that_do_not_fit_together_are_refused(stage: Stage, words: tuple[str, ...], why: str) -> None:
    assert why in stage.desk.error(*words, exit_code=2)


def test_a_log_that_its_node_has_thrown_away_is_read_from_redis(stage: Stage) -> None:
    # jobs_to_keep is 2: the log of the first job of node-1 goes when the next ones start there.
    whole = log_of(stage, "first").out
    log = next(stage.nodes[0].folder.glob("logs/talk/talker/first.log"))
    log.unlink()
    read = log_of(stage, "first")
    assert read.out == whole
    assert "has no log of first any more; read from Redis, shipped by node-1" in read.err
    assert log_of(stage, "first", "-n", "3").out.splitlines() == whole.splitlines()[-3:]


def test_a_job_that_moves_is_followed_to_its_next_node_and_the_log_of_a_node_that_is_gone_stays(
    stage: Stage,
) -> None:
    stage.shared.queue.add([a_talk("moves", on="node-1", ticks=1000, pause_s=0.1)])
    wait_for_state(stage, "moves", "running")
    with (
        stage.desk.begin("logs", "moves", "-f") as one,
        stage.desk.begin("logs", "-f", "--crawl", CRAWL, "--output", "jsonl") as many,
    ):
        for following in (one, many):
            wait_until(lambda each=following: "tick 3" in each.out, deadline_s=SOON_S, what="the stream to begin")  # type: ignore[misc]
        stage.nodes[0].kill()
        shutil.rmtree(stage.nodes[0].folder)
        wait_for_state(stage, "moves", "pending")
        stage.shared.queue.move([JobId("moves")], None)
        wait_until(lambda: "goes on at node-2" in one.err, deadline_s=SOON_S, what="the job to go on")
        for following in (one, many):
            wait_until(lambda each=following: each.out.count("Spider opened") > 1, deadline_s=SOON_S, what="both logs")  # type: ignore[misc]
        stage.shared.queue.cancel([JobId("moves")], grace_s=0)
        assert one.wait().exit_code == 0
        entries = ended_well(many)
    assert {entry["node"] for entry in entries} == {"node-1", "node-2"}

    gone = log_of(stage, "first")
    assert "Spider closed (finished)" in gone.out
    assert "shipped by node-1" in gone.err


def test_nothing_is_left_behind_of_what_was_shipped(stage: Stage) -> None:
    folder = stage.nodes[1].folder / "dbs" / "node" / "logs"
    wait_until(lambda: list(folder.iterdir()) == [], deadline_s=SOON_S, what="notes and links to be gone")
