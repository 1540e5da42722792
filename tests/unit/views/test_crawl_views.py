"""How crawls are shown: what is told of them, what is left out, and that nothing in them commands the terminal."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from toolkit.cluster.crawls import CrawlReport, CrawlState, Obeyed
from toolkit.cluster.entries import Peeked
from toolkit.model.crawls import (
    Controls,
    CrawlKeys,
    CrawlPlan,
    CrawlView,
    DomainLimit,
    EntryId,
    EntryView,
    ItemsKind,
    Leased,
    SeenKind,
    Shelf,
    WorkerView,
)
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import CrawlId, JobId, NodeName, ProjectName, SpiderName, WorkerName
from toolkit.views.crawls import (
    MAX_DOMAINS,
    STYLES,
    controls_view,
    counted_view,
    crawl_view,
    crawls_view,
    entries_view,
    limits_view,
    obeyed_view,
)
from toolkit.views.view import View

NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
BOOKS = CrawlId("books")
KEYS = CrawlKeys("books:requests", "books:dupefilter", "books:start_urls", "books:items")
PLAN = CrawlPlan(BOOKS, "books", "shop", KEYS)
WORKER = WorkerView(WorkerName("job-1~7:node-1:life"), 4, NOW - timedelta(seconds=3), 27.0, pages=1234)
VIEW = CrawlView(PLAN, NOW, pending=1_234_567, in_flight=4, seen=5_000, workers=(WORKER,), pages_per_minute=61.46)
NASTY = "\x1b[2J[red]bold[/red]\x9b"


def drawn(view: View, *, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, no_color=True)
    console.print(view.table())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert json.dumps(view.data)
    return str(text)


def test_every_state_has_a_style() -> None:
    assert set(STYLES) == set(CrawlState)


def test_a_list_tells_counts_that_can_be_read() -> None:
    told = drawn(crawls_view([VIEW]))
    for words in ("books", "running", "1,234,567", "61"):
        assert words in told
    assert "DEAD" not in told
    assert "SUSPECT" in drawn(crawls_view([replace(VIEW, suspects=2)]))


def test_a_list_keeps_what_matters_on_a_narrow_terminal() -> None:
    told = drawn(crawls_view([replace(VIEW, dead=3, blocked=1)]), width=60)
    for words in ("books", "running", "1,234,567"):
        assert words in told
    assert max(map(len, told.splitlines())) <= 60


def test_a_crawl_tells_its_workers_by_their_jobs_and_nodes() -> None:
    job = Job(JobId("job-1"), ProjectName("shop"), SpiderName("books"), JobState.RUNNING, node=NodeName("node-7"))
    told = drawn(crawl_view(CrawlReport(VIEW, {job.id: job})))
    for words in ("job-1", "node-7", "27s", "3s", "1,234"):
        assert words in told
    stranger = replace(WORKER, name=WorkerName("laptop:4711"), lease_left_s=-2.0, is_starting=True)
    told = drawn(crawl_view(CrawlReport(replace(VIEW, workers=(stranger,)))))
    for words in ("laptop:4711", "lapsed", "runs start()"):
        assert words in told
    assert "NODE" not in told


def test_an_entry_that_a_worker_has_had_in_hand_for_long_is_told_with_its_job() -> None:
    entry = EntryView(Leased(EntryId(bytes(8)), b"https://example.com/", is_seed=True), Shelf.IN_FLIGHT, NOW)
    held = replace(entry, worker=WORKER.name, taken_at=NOW - timedelta(minutes=7))
    told = drawn(crawl_view(CrawlReport(replace(VIEW, workers=(replace(WORKER, oldest=held),)))))
    assert "7m00s" in told
    assert "https://example.com/" not in told
    long = replace(WORKER, oldest=replace(held, taken_at=NOW - timedelta(hours=3)))
    told = drawn(crawl_view(CrawlReport(replace(VIEW, workers=(long,)))))
    assert "https://example.com/, by job-1 for 3h00m" in told


def test_each_shelf_with_entries_names_the_command_that_shows_them() -> None:
    told = drawn(crawl_view(CrawlReport(replace(VIEW, dead=3, blocked=2, suspects=1))))
    for shelf in ("dead", "blocked", "suspect"):
        assert f"crawlctl crawls peek books --{shelf}" in told
    assert "peek" not in drawn(crawl_view(CrawlReport(VIEW)))


def test_the_loss_that_a_bloom_filter_brings_is_told_and_of_others_there_is_none() -> None:
    bloom = replace(VIEW, plan=replace(PLAN, seen=SeenKind.BLOOM), expected_loss=0.01234)
    assert "0.0123 URL(s) wrongly taken for seen" in drawn(crawl_view(CrawlReport(bloom)))
    assert "wrongly" not in drawn(crawl_view(CrawlReport(VIEW)))


def test_items_are_told_where_they_wait_and_if_none_go_through_redis() -> None:
    waiting = replace(VIEW, items=12, items_waiting=7)
    assert "12; 7 wait in the stream books:items" in drawn(crawl_view(CrawlReport(waiting)))
    alone = replace(VIEW, plan=replace(PLAN, items=ItemsKind.NONE))
    assert "the project delivers them by itself" in drawn(crawl_view(CrawlReport(alone)))


def test_domains_are_told_with_their_budgets_and_the_most_of_many() -> None:
    many = {f"{number}.example": number for number in range(30)}
    limits = (DomainLimit("*", concurrency=8), DomainLimit("quiet.example", per_second=0.5))
    told = drawn(crawl_view(CrawlReport(replace(VIEW, domains=many, limits=limits))))
    for words in ("29.example", "* (each other)", "quiet.example", f"30 domains; the first {MAX_DOMAINS} are shown"):
        assert words in told
    assert "1.example\n" not in told


def test_what_was_counted_in_a_sample_alone_is_not_told_as_if_it_were_all() -> None:
    sampled = drawn(crawl_view(CrawlReport(replace(VIEW, pending=15_300, suspects=0, domains={"a.example": 1_000}))))
    assert "PENDING tells of 1,000 entries, a sample of the 15,300 that wait" in sampled
    whole = drawn(crawl_view(CrawlReport(replace(VIEW, pending=1_002, suspects=2, domains={"a.example": 1_000}))))
    assert "a sample" not in whole


def test_why_a_crawl_is_unusable_is_told() -> None:
    told = drawn(crawl_view(CrawlReport(replace(VIEW, needs_migration="entries of scrapy-redis"))))
    assert "unusable" in told
    assert "entries of scrapy-redis" in told


def test_wishes_budgets_and_counts_are_told() -> None:
    wished = Controls(is_paused=True, concurrency=4, delay_s=0.5, blocks=("ads.example",))
    told = drawn(controls_view(BOOKS, wished))
    for words in ("paused", "4", "0.5 s", "ads.example"):
        assert words in told
    assert "2 of 3 have heard of it" in drawn(obeyed_view(Obeyed(BOOKS, wished, 3, 2, 7, is_settled=False)))
    assert "going on" in drawn(obeyed_view(Obeyed(BOOKS, Controls(), 3, 2, 7, is_settled=True)))
    assert "2.5" in drawn(limits_view([DomainLimit("a.example", per_second=2.5)]))
    assert "1,000 seeded" in drawn(counted_view(BOOKS, "seeded", 1000))
    assert "cleared" in drawn(counted_view(BOOKS, "cleared"))


@pytest.mark.parametrize("width", [40, 200])
def test_what_a_crawl_found_is_shown_and_commands_nothing(width: int) -> None:
    entry = EntryView(Leased(EntryId(bytes(8)), b"", deaths=2), Shelf.DEAD, NOW, why=NASTY)
    plain = Peeked(entry, url=f"https://a.example/{NASTY}", method="POST", callback=NASTY)
    view = replace(VIEW, domains={NASTY: 1}, controls=Controls(blocks=(NASTY,)), needs_migration=NASTY)
    for told in (drawn(entries_view([plain]), width=width), drawn(crawl_view(CrawlReport(view)), width=width)):
        assert "\x1b" not in told
        assert "\x9b" not in told
    told = drawn(entries_view([plain]), width=200)
    assert "POST https://a.example/" in told
    assert "[red]bold[/red]" in told
    assert "0000000000000000" in told
