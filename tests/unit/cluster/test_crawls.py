"""What a crawl is doing, how far a pause has come, and what may be asked of a crawl at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.cluster.crawl_jobs import crawl_settings, default_joined, refuse_to_join, what_is_joined
from toolkit.cluster.crawls import (
    CrawlState,
    block_pattern,
    blocks_to_lift,
    domain_limit,
    domain_name,
    judge_pause,
    live_workers,
    refuse_to_clear,
    start_hint,
    state_of,
)
from toolkit.cluster.entries import entry_ids, read_entry
from toolkit.model.crawls import (
    Controls,
    CrawlKeys,
    CrawlPlan,
    CrawlView,
    EntryId,
    EntryView,
    Leased,
    Shelf,
    WorkerView,
)
from toolkit.model.errors import NotFoundError, RefusedError, UsageError
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import (
    CrawlId,
    JobId,
    ProjectName,
    SpiderName,
    Token,
    VersionName,
    WorkerName,
    job_of,
    shown_arguments,
    worker_of,
)
from toolkit.model.orders import Order
from toolkit.store.wire_requests import Wire, write_request

NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
BOOKS = CrawlId("books")
PLAN = CrawlPlan(BOOKS, "books", "shop", CrawlKeys("r", "d", "s", "i"))
VIEW = CrawlView(PLAN, NOW)
LATER = replace(VIEW, now=NOW + timedelta(seconds=5))


def a_worker(name: str = "w1", *, in_flight: int = 0, heard_s: float | None = None, left_s: float = 20.0) -> WorkerView:
    """Return a worker whose last commit was so long after `NOW`."""
    at = None if heard_s is None else NOW + timedelta(seconds=heard_s)
    return WorkerView(WorkerName(name), in_flight, at, left_s)


def an_entry(body: bytes, *, is_seed: bool = False) -> EntryView:
    return EntryView(Leased(EntryId(bytes(8)), body, is_seed=is_seed), Shelf.PENDING, NOW)


@pytest.mark.parametrize(
    ("view", "state"),
    [
        (VIEW, CrawlState.OVER),
        (replace(VIEW, pending=1), CrawlState.WAITING),
        (replace(VIEW, in_flight=1), CrawlState.WAITING),
        (replace(VIEW, seeds=1), CrawlState.WAITING),
        (replace(VIEW, workers=(a_worker(),)), CrawlState.RUNNING),
        (replace(VIEW, pending=1, workers=(a_worker(left_s=-0.1),)), CrawlState.WAITING),
        (replace(VIEW, workers=(a_worker(),), controls=Controls(is_paused=True)), CrawlState.PAUSED),
        (replace(VIEW, pending=1, needs_migration="entries of scrapy-redis"), CrawlState.UNUSABLE),
    ],
)
def test_the_state_of_a_crawl_is_one_word(view: CrawlView, state: CrawlState) -> None:
    assert state_of(view) is state


def test_a_crawl_that_waits_for_workers_says_how_to_start_one() -> None:
    plan = replace(PLAN, crawl=CrawlId("autumn"))
    assert start_hint(replace(VIEW, plan=plan, seeds=1)) == "crawlctl schedule books --crawl autumn"
    with_arguments = replace(plan, arguments="-a category=lamps")
    told = start_hint(replace(VIEW, plan=with_arguments, seeds=1))
    assert told == "crawlctl schedule books -a category=lamps --crawl autumn"
    are_cut = replace(plan, arguments=shown_arguments({"urls": "x" * 200}))
    assert start_hint(replace(VIEW, plan=are_cut, seeds=1)) == "crawlctl schedule books -a … --crawl autumn"
    assert start_hint(VIEW) is None


def test_a_worker_whose_lease_has_lapsed_does_not_live() -> None:
    alive, lapsed = a_worker("a"), a_worker("b", left_s=-1)
    assert live_workers(replace(VIEW, workers=(alive, lapsed))) == (alive,)


@pytest.mark.parametrize(
    ("workers", "is_settled"),
    [
        ((), True),
        ((a_worker(heard_s=-1),), True),
        ((a_worker(in_flight=3, heard_s=-1),), False),
        ((a_worker(in_flight=3),), False),
        ((a_worker(in_flight=3, heard_s=1),), True),
        ((a_worker("a", in_flight=3, heard_s=1), a_worker("b", in_flight=1, heard_s=0)), False),
        ((a_worker(in_flight=3, heard_s=-9, left_s=-1),), True),
    ],
)
def test_a_pause_is_settled_when_whoever_holds_anything_has_heard_of_it(
    workers: tuple[WorkerView, ...], *, is_settled: bool
) -> None:
    view = replace(LATER, workers=workers)
    assert judge_pause(view, asked=VIEW, is_paused=True).is_settled is is_settled


@pytest.mark.parametrize(
    ("workers", "is_settled"),
    [
        ((), True),
        ((a_worker(heard_s=-1),), False),
        ((a_worker("a", heard_s=1), a_worker("b", heard_s=-1)), True),
    ],
)
def test_a_resume_is_settled_when_a_worker_has_heard_of_it(
    workers: tuple[WorkerView, ...], *, is_settled: bool
) -> None:
    found = judge_pause(replace(LATER, workers=workers), asked=VIEW, is_paused=False)
    assert found.is_settled is is_settled
    assert found.workers == len(workers)


def test_a_crawl_is_not_cleared_under_its_workers_unless_it_is_forced() -> None:
    busy = replace(VIEW, workers=(a_worker(),))
    with pytest.raises(RefusedError, match=r"1 worker\(s\) work on books"):
        refuse_to_clear(busy, force=False)
    refuse_to_clear(busy, force=True)
    refuse_to_clear(replace(VIEW, workers=(a_worker(left_s=-1),)), force=False)


@pytest.mark.parametrize(
    ("typed", "domain"),
    [
        ("Example.COM", "example.com"),
        (" a.example. ", "a.example"),
        ("*", "*"),
        ("localhost:8000", "localhost"),
        ("[::1]:8000", "[::1]"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_a_domain_is_written_as_requests_write_it(typed: str, domain: str) -> None:
    assert domain_name(typed) == domain


@pytest.mark.parametrize("typed", ["", "https://a.example", "a.example/x", "*.example", "a b", "a@b", "ü" * 80])
def test_what_is_no_domain_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="is no domain"):
        domain_name(typed)


@given(st.text(max_size=30))
def test_any_word_is_a_domain_or_a_usage_error(text: str) -> None:
    try:
        name = domain_name(text)
    except UsageError:
        return
    assert name.isascii()
    assert domain_name(name) == name


@pytest.mark.parametrize("per_second", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_that_cannot_be_kept_is_refused(per_second: float) -> None:
    with pytest.raises(UsageError, match="give more than 0"):
        domain_limit("a.example", per_second=per_second, concurrency=None)


@pytest.mark.parametrize(
    ("typed", "pattern"),
    [
        ("Ads.Example", "ads.example"),
        ("*.Ads.Example", "*.ads.example"),
        ("*/Calendar/*", "*/Calendar/*"),
        ("https://a.example/x?y=1", "https://a.example/x?y=1"),
    ],
)
def test_a_block_is_a_domain_or_a_pattern(typed: str, pattern: str) -> None:
    assert block_pattern(typed) == pattern


@pytest.mark.parametrize("typed", ["*", "**", "* *", "*://*/*", "", "/calendar/"])
def test_a_block_of_everything_or_of_nothing_is_refused(typed: str) -> None:
    with pytest.raises(UsageError):
        block_pattern(typed)


def test_only_a_block_that_is_there_is_lifted() -> None:
    view = replace(VIEW, controls=Controls(blocks=("ads.example", "*/calendar/*")))
    assert blocks_to_lift(view, ["ads.example"]) == ("ads.example",)
    with pytest.raises(NotFoundError, match=r"no block 'ad.example': did you mean 'ads.example'\?"):
        blocks_to_lift(view, ["ads.example", "ad.example"])


def test_where_no_block_is_named_all_are_meant() -> None:
    view = replace(VIEW, controls=Controls(blocks=("ads.example", "*/calendar/*")))
    assert blocks_to_lift(view, []) == ("ads.example", "*/calendar/*")
    assert blocks_to_lift(VIEW, []) == ()


@pytest.mark.parametrize("wire", Wire)
def test_an_entry_tells_what_its_request_is(wire: Wire) -> None:
    fields = {"url": "https://a.example/", "method": "POST", "callback": "parse", "priority": -3, "meta": {"depth": 4}}
    told = read_entry(an_entry(write_request(fields, wire)))
    assert (told.url, told.method, told.callback) == ("https://a.example/", "POST", "parse")
    assert (told.priority, told.depth, told.problem) == (-3, 4, None)


def test_a_seed_is_told_as_it_was_pushed() -> None:
    told = read_entry(an_entry(b"https://a.example/\xff", is_seed=True))
    assert (told.url, told.method, told.problem) == ("https://a.example/�", None, None)


@given(st.binary(max_size=60))
def test_whatever_an_entry_holds_it_can_be_looked_at(body: bytes) -> None:
    told = read_entry(an_entry(body))
    assert (told.url is None) is (told.problem is not None)


def test_ids_of_entries_are_those_that_are_shown() -> None:
    assert entry_ids(["0000000000000000", "0006484f2a9b1c00"]) == [bytes(8), bytes.fromhex("0006484f2a9b1c00")]
    for text in ("", "00", "xyz", "0006484f2a9b1c0000"):
        with pytest.raises(UsageError, match="is no entry's id"):
            entry_ids([text])


def test_jobs_that_share_a_crawl_have_its_name_and_a_name_for_this_run_of_it() -> None:
    one, other = (crawl_settings({"LOG_LEVEL": "INFO"}, BOOKS, workers=3) for _ in range(2))
    assert one["FRONTIER_CRAWL"] == "books"
    assert one["LOG_LEVEL"] == "INFO"
    assert one["FRONTIER_RUN"] != other["FRONTIER_RUN"]
    assert set(crawl_settings({}, None, workers=2)) == {"FRONTIER_RUN"}
    assert set(crawl_settings({"FRONTIER_CRAWL": "a"}, None, workers=1)) == {"FRONTIER_CRAWL", "FRONTIER_RUN"}
    assert crawl_settings({"FRONTIER_RUN": "mine"}, None, workers=2) == {"FRONTIER_RUN": "mine"}


def test_one_job_that_names_no_crawl_keeps_the_settings_that_it_was_given() -> None:
    assert crawl_settings({"LOG_LEVEL": "INFO"}, None, workers=1) == {"LOG_LEVEL": "INFO"}


@pytest.mark.parametrize("settings", [{"FRONTIER_CRAWL": "a b"}, {"FRONTIER_CRAWL": "books"}])
def test_a_crawl_is_named_once_and_well(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        crawl_settings(settings, BOOKS, workers=1)


def test_a_spider_does_not_join_what_it_cannot_work_on() -> None:
    refuse_to_join(VIEW, "books")
    with pytest.raises(RefusedError, match="one of the spider books, not of prices"):
        refuse_to_join(VIEW, "prices")
    with pytest.raises(RefusedError, match="cannot be worked on: pickled entries"):
        refuse_to_join(replace(VIEW, needs_migration="pickled entries"), "books")


def test_what_workers_will_find_is_told() -> None:
    assert what_is_joined(BOOKS, None, workers=3) == "3 worker(s) for the crawl books"
    busy = replace(VIEW, pending=1200, workers=(a_worker(),), controls=Controls(is_paused=True))
    told = what_is_joined(BOOKS, busy, workers=1)
    assert told == (
        "1 worker(s) for the crawl books, beside 1 that work on it already; 1,200 entries wait; "
        "it is paused: crawlctl crawls resume books lets it go on"
    )


def test_jobs_that_name_no_crawl_hear_which_one_may_be_theirs() -> None:
    plain = Order(ProjectName("shop"), SpiderName("books"), VersionName("v1"))
    lamps = replace(plain, args={"category": "lamps"})
    assert default_joined(plain, BOOKS, None) is None
    assert default_joined(replace(plain, count=2), BOOKS, None) == "its crawl is books, if the spider uses the frontier"
    assert default_joined(lamps, CrawlId("books:1"), None) == "its crawl is books:1, if the spider uses the frontier"
    assert default_joined(plain, BOOKS, VIEW) == "1 worker(s) for the crawl books"
    for plan in (replace(PLAN, spider="prices"), replace(PLAN, project="news")):
        told = default_joined(plain, BOOKS, replace(VIEW, plan=plan)) or ""
        assert f"belongs to the spider {plan.spider} of {plan.project}, and will refuse this one" in told


def test_a_worker_inside_a_node_is_named_after_its_job_and_claim() -> None:
    worker = worker_of(JobId("job-1"), Token("7:node-1:life"))
    assert worker == "job-1~7:node-1:life"
    assert job_of(worker) == "job-1"
    assert job_of(WorkerName("host:4711")) == "host:4711"


def test_to_a_crawl_belong_its_jobs_and_those_of_the_spider_of_its_name() -> None:
    plain = Job(JobId("a"), ProjectName("shop"), SpiderName("books"), JobState.RUNNING)
    named = replace(plain, settings={"FRONTIER_CRAWL": "autumn"})
    assert (plain.crawl, named.crawl) == (None, "autumn")
    assert [JobFilter(crawl="books").admits(job) for job in (plain, named)] == [True, False]
    assert [JobFilter(crawl="autumn").admits(job) for job in (plain, named)] == [False, True]
    assert JobFilter().admits(named)
