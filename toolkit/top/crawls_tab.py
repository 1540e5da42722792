"""The table of crawls: their workers, what waits, and how fast they go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from toolkit.cluster.crawls import CrawlState, live_workers, state_of
from toolkit.model.crawls import CrawlView
from toolkit.top.columns import Cell, Column, Sorting
from toolkit.top.seen import Seen, Tab
from toolkit.top.sparklines import count_text
from toolkit.views.crawls import STYLES
from toolkit.views.jobs import age_text

_RANK = {state: place for place, state in enumerate(CrawlState)}


def _rows(seen: Seen) -> Sequence[CrawlView]:
    return seen.crawls or ()


def _state(row: CrawlView, _now: datetime) -> Cell:
    state = state_of(row)
    return Cell(state.value, STYLES[state])


def _trouble(row: CrawlView, _now: datetime) -> Cell | str:
    told = (
        (row.needs_migration, "cannot be worked on"),
        (row.dead, f"{row.dead:,} dead"),
        (row.suspects, f"{row.suspects:,} suspect"),
        (row.blocked, f"{row.blocked:,} blocked"),
    )
    text = ", ".join(word for count, word in told if count)
    return Cell(text, "yellow") if text else ""


COLUMNS: tuple[Column[CrawlView], ...] = (
    Column("CRAWL", 14, lambda row, _: row.plan.crawl, lambda row: row.plan.crawl, most=28),
    Column("SPIDER", 10, lambda row, _: row.plan.spider, lambda row: row.plan.spider, most=20, spare=5),
    Column("STATE", 8, _state, lambda row: (_RANK[state_of(row)], row.plan.crawl)),
    Column(
        "WORKERS",
        8,
        lambda row, _: str(len(live_workers(row))),
        lambda row: len(live_workers(row)),
        is_right=True,
        falls=True,
    ),
    Column("PENDING", 9, lambda row, _: count_text(row.pending), lambda row: row.pending, is_right=True, falls=True),
    Column("FLIGHT", 7, lambda row, _: count_text(row.in_flight), lambda row: row.in_flight, is_right=True, falls=True),
    Column("PAGES", 8, lambda row, _: count_text(row.pages), lambda row: row.pages, is_right=True, falls=True),
    Column(
        "PAGES/MIN",
        10,
        lambda row, _: None if row.pages_per_minute is None else f"{row.pages_per_minute:,.0f}",
        lambda row: row.pages_per_minute,
        is_right=True,
        falls=True,
    ),
    Column("SEEN", 8, lambda row, _: count_text(row.seen), lambda row: row.seen, is_right=True, falls=True, spare=4),
    Column("OLDEST", 7, lambda row, _: age_text(row.oldest_at, now=row.now), lambda row: row.oldest_at, spare=3),
    Column("TROUBLE", 10, _trouble, lambda row: row.dead + row.suspects + row.blocked, most=60, falls=True, spare=2),
)


def _texts(row: CrawlView) -> Sequence[object]:
    return (row.plan.crawl, row.plan.spider, row.plan.project, state_of(row).value)


TAB: Tab[CrawlView] = Tab(
    name="crawls",
    columns=COLUMNS,
    sorting=Sorting("STATE"),
    rows=_rows,
    key=lambda row: row.plan.crawl,
    texts=_texts,
    empty="no crawl shares a frontier here: crawlctl docs frontier",
    empty_without_queue="crawls are shared through a Redis, and the inventory names none",
)
