"""What an operator sees of crawls and does with them, and what is said when it cannot be done.

The workers here are made by the tests, so that each moment can be looked at.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.cli import NodeEntry, run_crawlctl
from support.crawl_desk import CrawlDesk, Worker, a_plan, a_push, crawl_desk
from support.desk import Desk
from support.ports import free_port
from support.queue_desk import QueueDesk, a_report, queue_desk
from support.redis_server import RedisServer
from support.stores import a_lock, a_release, a_rollout
from support.waiting import wait_until

from toolkit.model.crawls import Disposition, Done, Leased, SeenKind
from toolkit.model.names import NodeName, digest_of, shown_arguments, worker_of
from toolkit.store.wire_requests import write_request

pytestmark = pytest.mark.xdist_group("stories-crawl-words")


class Stage(NamedTuple):
    desk: Desk
    crawls: CrawlDesk
    queue: QueueDesk

    def show(self, crawl: str = "books") -> dict[str, Any]:
        """Return what `crawls show` tells."""
        shown: dict[str, Any] = self.desk.json("crawls", "show", crawl)
        return shown


@pytest.fixture
def stage(tmp_path: Path, story_redis: RedisServer) -> Iterator[Stage]:
    """One plug-in node is registered and holds the active release; no job is scheduled, and no crawl is known."""
    story_redis.flush()
    entries = [NodeEntry("node-1", "127.0.0.1", free_port())]
    desk = Desk.of(entries, story_redis.url, tmp_path / "desk", secrets=[str(story_redis.password)])
    with (
        queue_desk(story_redis.url, tmp_path / "store") as queue,
        crawl_desk(story_redis.url, tmp_path / "crawls") as crawls,
    ):
        releases = queue.store.releases
        lock = a_lock(queue.store)
        releases.record(a_release(), lock)
        releases.activate(a_rollout(), lock, held_by=[NodeName("node-1")])
        releases.unlock(lock)
        queue.register(a_report("node-1"))
        yield Stage(desk, crawls, queue)


def push_pages(worker: Worker, *urls: str, priority: int = 0) -> None:
    fields = ({"url": url, "callback": "parse_book", "meta": {"depth": 2}, "priority": priority} for url in urls)
    worker.commit(*(a_push(write_request(each), priority=priority) for each in fields))


def take_and_bury(worker: Worker, why: str) -> Leased:
    entry = worker.take_one()
    worker.commit(done=[Done(entry.entry, Disposition.DEAD, why=why)])
    return entry


def test_where_nothing_is_crawled_the_list_is_empty_and_a_name_is_not_known(stage: Stage) -> None:
    assert stage.desk.json("crawls") == []
    told = stage.desk.error("crawls", "show", "books", exit_code=7)
    assert "no crawl 'books' is known" in told
    stage.crawls.worker()
    assert "did you mean 'books'?" in stage.desk.error("crawls", "pause", "boks", exit_code=7)
    assert "cannot be used" in stage.desk.error("crawls", "show", "a b", exit_code=2)


def test_a_crawl_is_listed_and_shown_with_its_workers_and_their_jobs(stage: Stage) -> None:
    stage.desk.json("schedule", "books", "--id", "job-1")
    (claim,) = [stage.queue.run(a_report("node-1"))]
    worker = stage.crawls.worker(worker_of(claim.job.id, claim.token))
    stage.crawls.worker("by-hand")
    push_pages(worker, *(f"https://shop.example/{number}" for number in range(5)))
    worker.finish(*worker.take(2), items=[b"{}"], want=1)
    (row,) = stage.desk.json("crawls")
    assert (row["id"], row["spider"], row["project"], row["state"]) == ("books", "books", "shop", "running")
    assert (row["pending"], row["in_flight"], row["pages"], row["items"]) == (2, 1, 2, 2)
    assert (row["live_workers"], row["seen"], row["dead"], row["expected_loss"]) == (2, 0, 0, 0)
    shown = stage.show()
    assert {name: shown[name] for name in row if "minute" not in name} == {
        name: value for name, value in row.items() if "minute" not in name
    }
    by_name = {each["name"]: each for each in shown["workers"]}
    assert by_name["by-hand"]["job"] is None
    ours = by_name[worker.name]
    assert (ours["job"], ours["node"], ours["state"]) == ("job-1", "node-1", "running")
    assert (ours["in_flight"], ours["pages"]) == (1, 2)
    assert ours["lease_left_s"] > 500
    assert shown["keys"]["seeds"] == "books:start_urls"
    told = stage.desk.run("crawls", "show", "books").out
    for words in ("job-1", "node-1", "by-hand", "2 wait in the stream books:items", "1, with 2 live worker(s)"):
        assert words in told
    assert "running" in stage.desk.run("crawls").out


def test_what_a_bloom_filter_may_lose_is_told(stage: Stage) -> None:
    stage.crawls.worker(plan=a_plan(seen=SeenKind.BLOOM))
    assert "as expected of a Bloom filter" in stage.desk.run("crawls", "show", "books").out


def test_seeds_are_pushed_from_words_a_file_and_standard_input_and_all_or_none(stage: Stage) -> None:
    words = ("crawls", "seed", "books", "https://a.example/")
    said = stage.desk.run(*words)
    assert "the seeds wait in books:start_urls until one joins it" in said.err
    stage.crawls.worker().leave()
    (stage.desk.folder / "urls.txt").write_text("# the first ones\nhttps://b.example/\n\nhttps://c.example/\n")
    seeded = stage.desk.json("crawls", "seed", "books", "--from", "urls.txt")
    assert seeded == {"crawl": "books", "action": "seeded", "count": 2}
    done = run_crawlctl("crawls", "seed", "books", "--from", "-", cwd=stage.desk.folder, answers="https://d.example/\n")
    assert "crawlctl schedule books --crawl books starts one" in done.expect().err
    assert stage.show()["seeds"] == 4
    assert stage.show()["state"] == "waiting"
    assert "is no seed" in stage.desk.error("crawls", "seed", "books", "https://e.example/", "e example", exit_code=2)
    assert stage.show()["seeds"] == 4
    stage.desk.run("crawls", "seed", "books", "4711", "--as-is")
    assert stage.show()["seeds"] == 5


def test_a_seed_command_without_seeds_says_what_it_wants(stage: Stage) -> None:
    assert "there is nothing to push" in stage.desk.error("crawls", "seed", "books", exit_code=2)
    told = stage.desk.error("crawls", "seed", "books", "--sql", "sqlite:///urls.db", exit_code=2)
    assert "give both" in told


def test_the_database_of_seeds_may_be_named_by_a_file(stage: Stage) -> None:
    folder = stage.desk.folder
    with sqlite3.connect(folder / "urls.db") as database:
        database.execute("CREATE TABLE pages (url TEXT)")
        database.execute("INSERT INTO pages VALUES ('https://a.example/'), ('https://b.example/')")
    (folder / "database").write_text(f"sqlite:///{folder}/urls.db\n")
    query = ("--query", "SELECT url FROM pages")
    seeded = stage.desk.json("crawls", "seed", "books", "--sql-file", "database", *query)
    assert seeded["count"] == 2
    told = stage.desk.error(
        "crawls", "seed", "books", "--sql", "sqlite://", "--sql-file", "database", *query, exit_code=2
    )
    assert "give one" in told
    missing = stage.desk.error("crawls", "seed", "books", "--sql-file", "nowhere", *query, exit_code=3)
    assert "nowhere cannot be read" in missing


def test_a_pause_is_verified_with_every_worker_that_holds_anything(stage: Stage) -> None:
    busy, idle = stage.crawls.workers(2)
    push_pages(busy, "https://shop.example/1", "https://shop.example/2")
    (entry,) = busy.take(1)
    with stage.desk.begin("crawls", "pause", "books", "--output", "json") as pausing:
        wait_until(lambda: stage.crawls.view().controls.is_paused, deadline_s=60, what="the wish to be there")
        assert pausing.is_running
        busy.finish(entry)
        told = stage.desk.read(pausing.wait(), 0).json()
    assert (told["paused"], told["live_workers"], told["in_flight"]) == (True, 2, 0)
    assert busy.controls.is_paused
    assert idle.take() == []
    assert stage.show()["state"] == "paused"
    idle.commit()
    stage.desk.json("crawls", "pause", "books")
    with stage.desk.begin("crawls", "resume", "books") as resuming:
        wait_until(lambda: not stage.crawls.view().controls.is_paused, deadline_s=60, what="the wish to be there")
        wait_until(idle.take, deadline_s=60, what="the crawl to go on")
        wait_until(lambda: idle.commit() and not resuming.is_running, deadline_s=60, what="the command to hear of it")
        stage.desk.read(resuming.wait(), 0)
    assert stage.show()["state"] == "running"


def test_a_pause_that_nobody_hears_is_told_as_such(stage: Stage) -> None:
    worker = stage.crawls.worker()
    push_pages(worker, "https://shop.example/1")
    worker.take_one()
    told = stage.desk.run("crawls", "pause", "books", "--timeout", "1s", exit_code=4)
    assert "1 of 1 worker(s) have not heard of it yet; the wish stays" in told.err
    assert stage.show()["controls"]["paused"] is True


def test_a_crawl_without_workers_is_resumed_at_once_and_it_is_said_that_none_is_there(stage: Stage) -> None:
    stage.crawls.worker().leave()
    stage.desk.run("crawls", "pause", "books")
    assert "no worker of books is there to go on" in stage.desk.run("crawls", "resume", "books").err


def test_concurrency_and_delay_are_tuned_and_put_back(stage: Stage) -> None:
    worker = stage.crawls.worker()
    told = stage.desk.json("crawls", "tune", "books", "--concurrency", "4", "--delay", "0.5")
    assert told == {"crawl": "books", "paused": False, "concurrency": 4, "delay_s": 0.5, "blocks": []}
    worker.commit()
    assert (worker.controls.concurrency, worker.controls.delay_s) == (4, 0.5)
    assert stage.desk.json("crawls", "tune", "books", "--reset", "--delay", "0")["concurrency"] is None
    assert stage.show()["controls"]["delay_s"] == 0
    told = stage.desk.json("crawls", "tune", "books", "--reset")
    assert (told["concurrency"], told["delay_s"]) == (None, None)


@pytest.mark.parametrize("delay", ["inf", "nan", "-1", "90000"])
def test_a_delay_that_is_no_time_or_longer_than_a_day_is_refused(stage: Stage, delay: str) -> None:
    stage.crawls.worker()
    told = stage.desk.run("crawls", "tune", "books", "--delay", delay, exit_code=2)
    assert "--delay" in told.err
    assert "there is nothing to change" in stage.desk.error("crawls", "tune", "books", exit_code=2)


def test_domains_get_budgets_and_lose_them(stage: Stage) -> None:
    stage.crawls.worker()
    stage.desk.run("crawls", "limit", "books", "*", "--concurrency", "8")
    rows = stage.desk.json("crawls", "limit", "books", "Shop.Example", "--per-second", "2.5")
    assert {"domain": "shop.example", "per_second": 2.5, "concurrency": None} in rows
    assert {"domain": "*", "per_second": None, "concurrency": 8} in rows
    assert "shop.example" in stage.desk.run("crawls", "show", "books").out
    assert len(stage.desk.json("crawls", "limit", "books", "shop.example", "--none")) == 1
    for words in ((), ("--none", "--concurrency", "1")):
        assert "give --per-second" in stage.desk.error("crawls", "limit", "books", "shop.example", *words, exit_code=2)
    told = stage.desk.error("crawls", "limit", "books", "https://shop.example/", "--per-second", "1", exit_code=2)
    assert "is no domain" in told
    assert "more than 0" in stage.desk.error("crawls", "limit", "books", "a.example", "--per-second", "0", exit_code=2)


def test_a_blocked_domain_keeps_its_entries_aside_until_it_is_lifted(stage: Stage) -> None:
    worker = stage.crawls.worker()
    push_pages(worker, "https://ads.example/1")
    assert stage.desk.json("crawls", "block", "books", "ads.example", "*/calendar/*")["blocks"] == [
        "ads.example",
        "*/calendar/*",
    ]
    entry = worker.take_one()
    worker.commit(done=[Done(entry.entry, Disposition.BLOCKED)])
    (row,) = stage.desk.json("crawls", "peek", "books", "--blocked")
    assert (row["url"], row["shelf"]) == ("https://ads.example/1", "blocked")
    assert "has no block 'adds.example': did you mean" in stage.desk.error(
        "crawls", "unblock", "books", "adds.example", exit_code=7
    )
    told = stage.desk.json("crawls", "unblock", "books", "ads.example")
    assert told == {"crawl": "books", "action": "unblocked", "count": 1}
    assert stage.show()["controls"]["blocks"] == ["*/calendar/*"]
    assert "blocks everything" in stage.desk.error("crawls", "block", "books", "*", exit_code=2)
    assert "neither a domain nor a pattern" in stage.desk.error("crawls", "block", "books", "/calendar/", exit_code=2)


def test_what_was_blocked_or_dead_when_a_crawl_ended_can_still_be_taken_back(stage: Stage) -> None:
    worker = stage.crawls.worker()
    push_pages(worker, "https://ads.example/1", "https://shop.example/broken")
    stage.desk.run("crawls", "block", "books", "ads.example")
    entry = worker.take_one()
    worker.commit(done=[Done(entry.entry, Disposition.BLOCKED)])
    take_and_bury(worker, "no callback parse_book")
    worker.leave(is_finished=True)
    shown = stage.show()
    assert (shown["state"], shown["blocked"], shown["dead"]) == ("over", 1, 1)
    assert stage.desk.json("crawls", "unblock", "books")["count"] == 1
    assert stage.desk.json("crawls", "requeue", "books")["count"] == 1
    assert (stage.show()["state"], stage.show()["pending"]) == ("waiting", 2)
    assert len(stage.crawls.worker("w2").take(2)) == 2


def test_entries_are_looked_at_where_they_are_and_dead_ones_put_back(stage: Stage) -> None:
    worker = stage.crawls.worker()
    push_pages(worker, "https://shop.example/first", priority=9)
    push_pages(worker, "https://shop.example/second")
    worker.push("no request at all", priority=-1)
    rows = stage.desk.json("crawls", "peek", "books")
    assert [row["url"] for row in rows] == ["https://shop.example/first", "https://shop.example/second", None]
    assert (rows[0]["callback"], rows[0]["priority"], rows[0]["depth"]) == ("parse_book", 9, 2)
    assert "neither msgpack nor JSON" in rows[2]["why"]
    assert len(stage.desk.json("crawls", "peek", "books", "--limit", "1")) == 1
    dead = take_and_bury(worker, "no callback parse_book")
    (row,) = stage.desk.json("crawls", "peek", "books", "--dead")
    assert (row["id"], row["why"], row["shelf"]) == (dead.entry.hex(), "no callback parse_book", "dead")
    assert "crawls peek books --dead" in stage.desk.run("crawls", "show", "books").out
    assert "no callback parse_book" in stage.desk.run("crawls", "peek", "books", "--dead").out
    worker.take_one()
    (row,) = stage.desk.json("crawls", "peek", "books", "--in-flight")
    assert (row["url"], row["worker"]) == ("https://shop.example/second", worker.name)
    assert "one shelf at a time" in stage.desk.error("crawls", "peek", "books", "--dead", "--blocked", exit_code=2)
    told = stage.desk.run("crawls", "requeue", "books", "00" * 8, exit_code=7)
    assert "1 of 1 are not on the dead list" in told.err
    assert "is no entry's id" in stage.desk.error("crawls", "requeue", "books", "xyz", exit_code=2)
    assert stage.desk.json("crawls", "requeue", "books", dead.entry.hex())["count"] == 1
    assert stage.desk.json("crawls", "requeue", "books")["count"] == 0
    assert stage.show()["pending"] == 2


def test_what_an_entry_holds_cannot_command_the_terminal(stage: Stage) -> None:
    worker = stage.crawls.worker()
    push_pages(worker, "https://shop.example/\x1b[2J[red]")
    shown = stage.desk.run("crawls", "peek", "books").out
    assert "\x1b" not in shown
    assert "[red]" in shown


def test_a_crawl_is_cleared_only_on_purpose_and_not_under_its_workers(stage: Stage) -> None:
    worker = stage.crawls.worker()
    push_pages(worker, "https://shop.example/1")
    stage.desk.run("crawls", "seed", "books", "https://shop.example/")
    told = stage.desk.error("crawls", "clear", "books", "--yes", exit_code=6)
    assert "1 worker(s) work on books" in told
    assert "crawlctl cancel --crawl books" in told
    worker.leave()
    told = stage.desk.error("crawls", "clear", "books", exit_code=2)
    assert "Clear books (1 entries, 1 seeds, 0 seen requests)?" in told
    assert stage.show()["pending"] == 1
    cleared = stage.desk.json("crawls", "clear", "books", "--yes")
    assert cleared == {"crawl": "books", "action": "cleared", "count": None}
    assert stage.desk.json("crawls") == []


def test_by_force_a_crawl_is_cleared_under_its_workers(stage: Stage) -> None:
    push_pages(stage.crawls.worker(), "https://shop.example/1")
    stage.desk.run("crawls", "clear", "books", "--force", "--yes")
    assert [row["pending"] for row in stage.desk.json("crawls")] in ([], [0])


def test_jobs_of_a_crawl_are_scheduled_together_listed_and_cancelled(stage: Stage) -> None:
    done = stage.desk.run("schedule", "books", "--workers", "3", "--crawl", "autumn", "--output", "json")
    assert "3 worker(s) for the crawl autumn" in done.err
    jobs = [stage.desk.job(job["id"]) for job in done.json()["jobs"]]
    assert [job["crawl"] for job in jobs] == ["autumn"] * 3
    assert {job["settings"]["FRONTIER_CRAWL"] for job in jobs} == {"autumn"}
    (run,) = {job["settings"]["FRONTIER_RUN"] for job in jobs}
    again = stage.desk.json("schedule", "books", "--crawl", "autumn")["jobs"][0]
    assert stage.desk.job(again["id"])["settings"]["FRONTIER_RUN"] != run
    stage.desk.json("schedule", "books", "--id", "plain")
    assert stage.desk.job("plain")["settings"] == {}
    assert len(stage.desk.json("jobs", "--crawl", "autumn")) == 4
    assert [row["id"] for row in stage.desk.json("jobs", "--crawl", "books")] == ["plain"]
    cancelled = stage.desk.json("cancel", "--crawl", "autumn", "--yes")["jobs"]
    assert [row["after"] for row in cancelled] == ["cancelled"] * 4
    assert stage.desk.job("plain")["state"] == "pending"


def test_jobs_that_could_not_join_a_crawl_are_refused(stage: Stage) -> None:
    stage.crawls.worker(plan=a_plan("autumn", spider="prices"))
    told = stage.desk.error("schedule", "books", "--crawl", "autumn", exit_code=6)
    assert "the crawl autumn is one of the spider prices, not of books" in told
    told = stage.desk.error("schedule", "books", "--crawl", "a", "-s", "FRONTIER_CRAWL=b", exit_code=2)
    assert "give one of them" in told
    assert "cannot be used" in stage.desk.error("schedule", "books", "--crawl", "a/b", exit_code=2)
    assert "cannot be used" in stage.desk.error("schedule", "books", "-s", "FRONTIER_CRAWL=a b", exit_code=2)
    path = stage.desk.folder / "orders.jl"
    path.write_text('{"spider": "books"}\n')
    told = stage.desk.error("schedule", "--from", "orders.jl", "--crawl", "autumn", exit_code=2)
    assert "the lines of the file say" in told


def test_jobs_that_join_a_crawl_hear_what_they_find_there(stage: Stage) -> None:
    worker = stage.crawls.worker()
    push_pages(worker, "https://shop.example/1")
    worker.frontier.renew(worker.name, worker.token, ttl_s=600)
    stage.crawls.crawls.control(stage.crawls.plan.crawl, is_paused=True)
    said = stage.desk.run("schedule", "books", "--crawl", "books").err
    assert "1 worker(s) for the crawl books, beside 1 that work on it already; 1 entries wait; it is paused" in said


def test_schedule_says_which_crawl_the_jobs_join_though_none_was_named(stage: Stage) -> None:
    given = ("-a", "category=lamps", "-a", "limit=9")
    done = stage.desk.run("schedule", "books", *given, "--output", "json")
    (job,) = done.json()["jobs"]
    crawl = job["crawl"]
    assert re.fullmatch("books:[0-9a-f]{8}", crawl)
    assert f"its crawl is {crawl}, if the spider uses the frontier" in done.err
    assert stage.desk.job(job["id"])["crawl"] == crawl
    told = stage.desk.run("schedule", "books", "-a", "limit=9", "-a", "category=lamps", "--workers", "2").err
    assert f"its crawl is {crawl}, if" in told
    assert len(stage.desk.json("jobs", "--crawl", crawl)) == 3
    assert stage.desk.json("jobs", "--crawl", "books") == []

    arguments = {"category": "lamps", "limit": "9"}
    plan = replace(a_plan(crawl), digest=digest_of(arguments), arguments=shown_arguments(arguments))
    push_pages(stage.crawls.worker(plan=plan), "https://shop.example/1")
    told = stage.desk.run("schedule", "books", *given).err
    assert f"1 worker(s) for the crawl {crawl}, beside 1 that work on it already; 1 entries wait" in told
    assert stage.show(crawl)["arguments"] == "-a category=lamps -a limit=9"
    assert "-a category=lamps -a limit=9" in stage.desk.run("crawls", "show", crawl).out
    assert "-a category=lamps -a limit=9" in stage.desk.run("crawls").out


def test_schedule_says_nothing_of_crawls_to_a_job_without_arguments_of_a_spider_that_has_none(stage: Stage) -> None:
    done = stage.desk.run("schedule", "books", "--output", "json")
    assert done.json()["jobs"][0]["crawl"] is None
    assert "crawl" not in done.err
    stage.crawls.worker()
    assert "1 worker(s) for the crawl books, beside 1" in stage.desk.run("schedule", "books").err


def test_schedule_warns_of_a_crawl_that_another_project_has(stage: Stage) -> None:
    stage.crawls.worker(plan=replace(a_plan(), project="news"))
    told = stage.desk.run("schedule", "books").err
    assert "belongs to the spider books of news, and will refuse this one" in told
    assert "--crawl NAME" in told


def test_without_a_redis_there_are_no_crawls_and_it_is_said(tmp_path: Path) -> None:
    desk = Desk.of([NodeEntry("node-1", "127.0.0.1", free_port())], None, tmp_path)
    for words in (("crawls",), ("crawls", "show", "x"), ("crawls", "seed", "x", "http://x/")):
        assert "names no redis" in desk.error(*words, exit_code=3)
