"""What an operator does with the jobs of the shared queue, and what is said when it cannot be done.

The nodes here are names in the registry: what they would do is done by the tests, so that each moment can be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.cli import NodeEntry, run_crawlctl
from support.desk import Desk
from support.ports import free_port
from support.queue_desk import QueueDesk, a_report, an_ending, queue_desk
from support.redis_server import RedisServer
from support.stores import SHOP, V1, a_lock, a_release, a_rollout
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeReport

pytestmark = pytest.mark.xdist_group("stories-queue-words")


class Stage(NamedTuple):
    desk: Desk
    queue: QueueDesk
    node: NodeReport

    def schedule(self, job_id: str, *words: str) -> dict[str, Any]:
        """Schedule one job of its own and return what `jobs show` tells of it."""
        self.desk.json("schedule", "books", "--id", job_id, "-a", f"note={job_id}", *words)
        return self.desk.job(job_id)


@pytest.fixture
def stage(tmp_path: Path, story_redis: RedisServer) -> Iterator[Stage]:
    """Two plug-in nodes are registered, the first holds the active release; a stock one is in the inventory too."""
    story_redis.flush()
    entries = [NodeEntry(name, "127.0.0.1", free_port()) for name in ("node-1", "node-2", "stock-1")]
    desk = Desk.of(entries, story_redis.url, tmp_path / "desk", secrets=[str(story_redis.password)])
    with queue_desk(story_redis.url, tmp_path / "store") as queue:
        releases = queue.store.releases
        lock = a_lock(queue.store)
        releases.record(a_release(), lock)
        releases.activate(a_rollout(), lock, held_by=[NodeName("node-1")])
        releases.unlock(lock)
        queue.register(a_report("node-2", versions={}))
        yield Stage(desk, queue, queue.register(a_report("node-1")))


def test_a_job_goes_into_the_queue_and_has_no_node_until_one_takes_it(stage: Stage) -> None:
    said = stage.desk.run("schedule", "books", "--id", "one").err
    assert said == ""
    (job,) = stage.desk.json("jobs", exit_code=4)
    assert (job["id"], job["state"], job["node"], job["attempt"]) == ("one", "pending", None, 0)
    claim = stage.queue.run(stage.node)
    told = stage.desk.job("one", exit_code=0)
    assert (told["state"], told["node"], told["attempt"], told["token"]) == ("running", "node-1", 1, claim.token)
    stage.queue.finish(claim)
    told = stage.desk.job("one")
    assert (told["state"], told["exit_code"], told["reason"]) == ("finished", 0, "it finished")


def test_it_is_said_when_no_live_node_is_there(stage: Stage) -> None:
    for node in (stage.node, a_report("node-2")):
        stage.queue.redis.zadd(stage.queue.keys.beats, {node.name: 1})
    said = stage.desk.run("schedule", "books", "--id", "waits").err
    assert "no live node is there to take it now" in said
    said = stage.desk.run("schedule", "books", "--on", "node-1:stock-1").err
    assert "these get no job: stock-1" in said


def test_what_only_the_queue_can_do_is_refused_where_only_stock_nodes_are_picked(stage: Stage) -> None:
    told = stage.desk.error("schedule", "books", "--on", "stock-1", "--unique", "--timeout", "5m", exit_code=2)
    assert "--unique, --timeout need(s) the shared queue" in told


def test_unique_refuses_what_waits_or_runs_already(stage: Stage) -> None:
    words = ("schedule", "books", "-a", "category=lamps", "--unique")
    stage.desk.json(*words)
    assert "a job of books with the same arguments" in stage.desk.error(*words, exit_code=6)
    claim = stage.queue.run(stage.node)
    stage.desk.error(*words, exit_code=6)
    stage.queue.finish(claim)
    told = stage.desk.error(*words, "--workers", "2", exit_code=6)
    assert "two of these jobs of books have the same arguments" in told
    stage.desk.json(*words)


def test_what_is_asked_of_a_job_is_kept_with_it(stage: Stage) -> None:
    job = stage.schedule("all", "--attempts", "5", "--retry-failed", "--timeout", "1h30m", "--priority", "7.5")
    assert (job["attempts"], job["retry_failed"], job["timeout_s"], job["priority"]) == (5, True, 5400, 7.5)
    assert job["on"] is None
    assert job["scheduled_by"]
    assert stage.schedule("some", "--on", "node-2")["on"] == ["node-2"]


def test_a_moment_is_told_with_its_zone_and_kept_in_utc(stage: Stage) -> None:
    year = datetime.now(UTC).year + 2
    words = ("schedule", "books", "--id", "later", "--at", f"{year}-01-01T08:00", "--output", "json")
    said = stage.desk.run(*words, env={"TZ": "Asia/Kathmandu"}).err
    assert f"{year}-01-01 08:00:00 +0545" in said
    assert stage.desk.job("later")["due_at"] == f"{year}-01-01T02:15:00Z"
    stage.desk.json("schedule", "books", "--id", "soon", "--delay", "2h")
    due_at = datetime.fromisoformat(stage.desk.job("soon")["due_at"])
    assert abs(due_at - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=1)
    assert "give one of them" in stage.desk.error("schedule", "books", "--delay", "1h", "--at", "8:00", exit_code=2)
    assert "no moment in time" in stage.desk.error("schedule", "books", "--at", "soon", exit_code=2)
    assert stage.queue.take_all(stage.node) == []
    stage.desk.run("jobs", "release", "later", "soon")
    assert sorted(stage.queue.take_all(stage.node)) == ["later", "soon"]


def test_a_held_job_is_taken_only_when_it_is_released(stage: Stage) -> None:
    stage.schedule("first")
    stage.schedule("second")
    shown = stage.desk.run("jobs", "hold", "first")
    assert "held" in shown.out
    assert stage.desk.job("first")["held"] is True
    assert stage.queue.take_all(stage.node) == ["second"]
    stage.desk.run("jobs", "release", "first")
    assert stage.queue.take_all(stage.node) == ["first"]
    told = stage.desk.run("jobs", "hold", "first", exit_code=6)
    assert "1 of 1 job(s) could not be held: first is starting" in told.err


def test_priority_and_place_can_be_changed_while_a_job_waits(stage: Stage) -> None:
    for job_id in ("a", "b", "c"):
        stage.schedule(job_id)
    stage.desk.run("jobs", "prioritise", "c", "10")
    stage.desk.run("jobs", "prioritise", "a", "--", "-10")
    shown = stage.desk.run("jobs", "move", "b", "--on", "node-2")
    assert "only for node-2" in shown.out
    assert stage.desk.json("why", "b")["nodes"][0]["could"] is False
    assert stage.queue.take_all(stage.node) == ["c", "a"]
    stage.desk.run("jobs", "move", "b", "--on", "all")
    assert stage.queue.take_all(stage.node) == ["b"]
    assert "out of range" in stage.desk.error("schedule", "books", "--priority", "5000", exit_code=2)
    assert "1000" in stage.desk.error("jobs", "prioritise", "b", "5000", exit_code=2)
    assert "say which nodes" in stage.desk.error("jobs", "move", "b", exit_code=2)
    assert "plug-in node" in stage.desk.error("jobs", "move", "b", "--on", "stock-1", exit_code=6)


def test_a_wish_that_nobody_has_heard_yet_is_told_as_such(stage: Stage) -> None:
    stage.schedule("busy")
    assert "only a job that a node has" in stage.desk.error("jobs", "pause", "busy", exit_code=6)
    claim = stage.queue.run(stage.node)
    stage.desk.run("jobs", "tune", "busy", "--concurrency", "4", "--delay", "0.5")
    told = stage.desk.run("jobs", "pause", "busy", exit_code=4)
    assert "busy is running, not paused yet" in told.err
    wish = stage.queue.beat(stage.node, claim).wishes[claim.token]
    assert (wish.is_paused, wish.concurrency, wish.delay_s) == (True, 4, 0.5)
    assert "nothing to change" in stage.desk.error("jobs", "tune", "busy", exit_code=2)


def test_a_job_that_ends_before_it_hears_of_the_pause_is_said_to_have_ended(stage: Stage) -> None:
    stage.schedule("brief")
    claim = stage.queue.run(stage.node)
    with stage.desk.begin("jobs", "pause", "brief") as pausing:
        wait_until(
            lambda: (wish := stage.queue.beat(stage.node, claim).wishes.get(claim.token)) and wish.is_paused,
            deadline_s=60,
            what="the wish to be known",
        )
        stage.queue.finish(claim)
        told = stage.desk.read(pausing.wait(), 6)
    assert "brief is finished by now, and so was not paused" in told.err


def test_a_job_that_failed_is_put_back_and_one_that_waits_is_not(stage: Stage) -> None:
    stage.schedule("broken")
    stage.queue.finish(stage.queue.run(stage.node), an_ending(JobState.FAILED, exit_code=1))
    job = stage.desk.job("broken")
    assert (job["state"], job["exit_code"], job["log"]) == ("failed", 1, None)
    stage.desk.run("jobs", "retry", "broken")
    assert stage.desk.job("broken")["state"] == "pending"
    assert "broken is pending" in stage.desk.run("jobs", "retry", "broken", exit_code=6).err


def test_a_cap_keeps_jobs_waiting_and_why_names_it(stage: Stage) -> None:
    caps = stage.desk.json("jobs", "limit", "shop", "books", "--cluster", "1")
    assert caps == [{"project": "shop", "spider": "books", "cluster": 1, "per_node": None}]
    stage.schedule("one")
    stage.schedule("two")
    assert len(stage.queue.take_all(stage.node)) == 1
    assert "cap" in stage.desk.json("why", "two")["summary"]
    assert stage.desk.json("jobs", "limit", "shop", "books", "--none") == stage.desk.json("jobs", "limits") == []
    assert stage.queue.take_all(stage.node) == ["two"]
    assert "no release of shpo is known" in stage.desk.run("jobs", "limit", "shpo", "--per-node", "1").err
    for words in ((), ("--none", "--cluster", "1")):
        assert "give --cluster" in stage.desk.error("jobs", "limit", "shop", *words, exit_code=2)


def test_why_tells_for_each_node_what_keeps_it(stage: Stage) -> None:
    stage.schedule("waits")
    told = stage.desk.json("why", "waits")
    reasons = {node["name"]: (node["could"], node["reason"]) for node in told["nodes"]}
    assert reasons["node-1"] == (True, None)
    assert reasons["node-2"] == (False, f"does not hold {SHOP} {V1}")
    assert "node-2" in stage.desk.run("why", "waits").out
    assert "no job's id begins with" in stage.desk.error("why", "nowhere", exit_code=7)


def test_a_pending_job_is_cancelled_at_once(stage: Stage) -> None:
    stage.schedule("unwanted")
    (row,) = stage.desk.json("cancel", "unwanted")["jobs"]
    assert (row["before"], row["after"], row["error"]) == ("pending", "cancelled", None)
    for job_id in ("a", "b"):
        stage.schedule(job_id)
    cancelled = stage.desk.json("cancel", "--all", "--yes")["jobs"]
    assert sorted((row["id"], row["after"]) for row in cancelled) == [("a", "cancelled"), ("b", "cancelled")]
    assert stage.queue.take_all(stage.node) == []


def test_a_file_of_orders_is_checked_whole_and_then_scheduled(stage: Stage) -> None:
    path = stage.desk.folder / "orders.jl"
    rows = [{"spider": "books", "args": {"page": number}, "id": f"page-{number}"} for number in range(120)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    shown = stage.desk.run("schedule", "--from", "orders.jl", "--attempts", "1", "--on", "node-1")
    assert "120 jobs; the first 50 are shown" in shown.out
    assert len(stage.desk.json("jobs", "--state", "pending", "--limit", "200", exit_code=4)) == 120
    job = stage.desk.job("page-7")
    assert (job["args"], job["attempts"], job["on"]) == ({"page": "7"}, 1, ["node-1"])
    path.write_text('{"spider": "books"}\n{"spider": "boks"}\nnonsense\n')
    told = stage.desk.error("schedule", "--from", "orders.jl", exit_code=2)
    assert "orders.jl:2:" in told
    assert "orders.jl:3:" in told
    assert "the lines of the file say" in stage.desk.error("schedule", "books", "--from", "orders.jl", exit_code=2)
    assert stage.queue.queue.counts()["pending"] == 120


def test_orders_are_read_from_standard_input_too(stage: Stage) -> None:
    words = ("schedule", "--from", "-", "--output", "json")
    done = run_crawlctl(*words, cwd=stage.desk.folder, answers='{"spider": "books", "id": "typed"}\n').expect()
    assert [job["id"] for job in done.json()["jobs"]] == ["typed"]


def test_pages_of_the_list_follow_each_other(stage: Stage) -> None:
    for job_id in ("a", "b", "c"):
        stage.schedule(job_id)
    pages = [
        [row["id"] for row in stage.desk.json("jobs", "--limit", "2", "--page", str(page), exit_code=4)]
        for page in (1, 2, 3)
    ]
    assert pages == [["c", "b"], ["a"], []]


def test_nodes_are_listed_drained_taken_up_again_and_forgotten(stage: Stage) -> None:
    listed = {row["name"]: row for row in stage.desk.json("nodes")}
    assert [(row["kind"], row["state"]) for row in listed.values()] == [
        ("node", "live"),
        ("node", "live"),
        ("stock", "unreachable"),
    ]
    assert listed["node-1"]["versions"] == {SHOP: [V1]}
    assert listed["stock-1"]["heartbeat_age_s"] is None
    stage.desk.run("nodes", "drain", "node-1")
    assert stage.desk.json("nodes", "show", "node-1")["draining"] is True
    stage.schedule("kept")
    assert stage.queue.take_all(stage.node) == []
    stage.desk.run("nodes", "resume", "node-1")
    assert stage.queue.take_all(stage.node) == ["kept"]
    assert "node-1 still gives signs of life, so it would" in stage.desk.error("nodes", "forget", "node-1", exit_code=6)
    assert "node-1, node-2 still give signs of life, so they would" in stage.desk.error(
        "nodes", "forget", "node-1", "node-2", exit_code=6
    )
    stage.queue.redis.zadd(stage.queue.keys.beats, {"node-2": 1})
    assert stage.desk.json("nodes", "forget", "node-2") == {"nodes": [{"name": "node-2", "action": "forgotten"}]}
    assert "node-2" not in [row["name"] for row in stage.desk.json("nodes") if row["kind"] == "node"]
    assert "node-9" in stage.desk.error("nodes", "show", "node-9", exit_code=7)


def test_a_moment_that_is_past_is_said_to_be(stage: Stage) -> None:
    said = stage.desk.run("schedule", "books", "--id", "past", "--at", "2020-01-01T00:00Z").err
    assert "which is past: now" in said
    assert "past" not in stage.desk.run("schedule", "books", "--id", "due", "--delay", "1h").err


def test_a_drain_that_takes_too_long_ends_with_four(stage: Stage) -> None:
    stage.queue.register(a_report("node-1", running=2))
    told = stage.desk.run("nodes", "drain", "node-1", "--wait", "--timeout", "1s", exit_code=4)
    assert "1 of 1 node(s) are not empty: node-1 still runs 2 job(s)" in told.err


def test_without_a_redis_the_queue_is_missing_and_said_to_be(tmp_path: Path) -> None:
    desk = Desk.of([NodeEntry("node-1", "127.0.0.1", free_port())], None, tmp_path)
    for words in (("jobs", "hold", "x"), ("jobs", "limits"), ("jobs", "retry", "x")):
        assert "names no redis" in desk.error(*words, exit_code=3)
    desk.error("nodes", "drain", "node-1", exit_code=7)


def test_a_cap_that_holds_nothing_back_is_told_and_one_that_is_taken_away_is_not(stage: Stage) -> None:
    assert stage.desk.run("jobs", "limit", SHOP, "books", "--cluster", "2").err == ""
    said = stage.desk.run("jobs", "limit", SHOP, "bokos", "--cluster", "2").err
    assert f"no spider bokos is in the active release of {SHOP}" in said
    assert "did you mean 'books'?" in said
    assert "no release of nothing is known" in stage.desk.run("jobs", "limit", "nothing", "--cluster", "1").err
    assert stage.desk.run("jobs", "limit", "nothing", "--none").err == ""
    assert stage.desk.run("jobs", "limit", SHOP, "bokos", "--none").err == ""


def test_a_job_that_no_node_has_run_has_no_log(stage: Stage) -> None:
    stage.schedule("never")
    stage.desk.run("cancel", "never")
    for words in (("logs", "never"), ("logs", "never", "-f"), ("items", "never"), ("items", "job", "never")):
        told = stage.desk.error(*words, exit_code=7)
        assert "never is cancelled and no node has run it" in told
