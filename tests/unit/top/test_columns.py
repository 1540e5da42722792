"""Columns, filters and sparklines: what stands on the screen, decided without one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from support.still_cluster import a_still_job, still_seen

from toolkit.top.columns import Column, Sorting, fitting, in_order, next_sorting, plain, sized
from toolkit.top.filters import Words
from toolkit.top.header import job_counts, tabs_line
from toolkit.top.keys import KEYS, TABS, footer, help_lines
from toolkit.top.lines import folded
from toolkit.top.sparklines import BARS, count_text, meter, rate_text, sparkline

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = tuple[str, int | None]
COLUMNS: tuple[Column[Row], ...] = (
    Column("NAME", 8, lambda row, _: row[0], lambda row: row[0], most=20),
    Column("PAGES", 6, lambda row, _: str(row[1]), lambda row: row[1], falls=True),
    Column("RARE", 6, lambda *_: "", lambda row: row[0], spare=2),
    Column("WHY", 10, lambda *_: "", lambda row: row[0], most=40, spare=1),
)


def titles(width: int) -> list[str]:
    return [column.title for column, _ in fitting(COLUMNS, width)]


def test_a_narrow_screen_leaves_out_what_can_be_spared_most() -> None:
    assert titles(80) == ["NAME", "PAGES", "RARE", "WHY"]
    assert titles(30) == ["NAME", "PAGES", "WHY"]
    assert titles(20) == ["NAME", "PAGES"]
    assert titles(5) == ["NAME", "PAGES"]


@settings(deadline=None)
@given(st.integers(33, 300))
def test_columns_never_take_more_than_there_is_and_grow_no_further_than_they_may(width: int) -> None:
    found = fitting(COLUMNS, width)
    assert sum(taken for _, taken in found) + len(found) - 1 <= width
    assert all(column.width <= taken <= max(column.width, column.most) for column, taken in found)


@pytest.mark.parametrize(("falls", "order"), [(False, ["b", "c", "a"]), (True, ["c", "b", "a"])])
def test_what_is_not_known_comes_last_in_either_order(*, falls: bool, order: list[str]) -> None:
    rows: list[Row] = [("a", None), ("b", 1), ("c", 2)]
    assert [row[0] for row in in_order(rows, COLUMNS, Sorting("PAGES", falls=falls))] == order


def test_sorting_goes_round_the_columns_each_in_its_own_direction() -> None:
    by_pages = next_sorting(COLUMNS, Sorting("NAME"))
    assert by_pages == Sorting("PAGES", falls=True)
    assert next_sorting(COLUMNS, Sorting("NAME"), -1) == Sorting("WHY")
    assert next_sorting(COLUMNS, Sorting("GONE")) == Sorting("PAGES", falls=True)


@settings(deadline=None)
@given(text=st.text(max_size=40), width=st.integers(0, 30), is_right=st.booleans())
def test_a_cell_takes_just_its_places_whatever_stands_in_it(*, text: str, width: int, is_right: bool) -> None:
    shown = sized(plain(text), width, is_right=is_right)
    assert cell_len(shown) == width
    assert "\n" not in shown
    assert "\x1b" not in shown


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(6, 60))
def test_a_long_line_is_folded_and_loses_nothing(text: str, width: int) -> None:
    parts = folded(text, width)
    assert all(sum(cell_len(cell.text) for cell in part) <= width for part in parts)
    whole = "".join(cell.text for cell in parts[0]) + "".join(part[0].text.removeprefix("    ") for part in parts[1:])
    assert whole.replace(" ", "") == "".join(cell.text for cell in folded(text, 10_000)[0]).replace(" ", "")


@pytest.mark.parametrize(
    ("typed", "is_shown"),
    [
        ("", True),
        ("BOOKS", True),
        ("books failed", False),
        ("node-1 books", True),
        ("-failed", True),
        ("-books", False),
    ],
)
def test_a_filter_wants_all_its_words(typed: str, *, is_shown: bool) -> None:
    assert Words.of(typed).admits(["books", "running", "node-1", None]) is is_shown


def test_a_sparkline_ends_at_the_right_and_its_highest_is_full() -> None:
    assert sparkline([0, 5, 10], 5) == f"  {BARS[0]}▅█"
    assert sparkline([1, 2, 3, 4], 2) == "▆█"
    assert sparkline([], 3) == "   "
    assert sparkline([0.0, 0.0], 2) == BARS[0] * 2
    assert sparkline([0.001, 1000.0], 2) == "▂█"


@pytest.mark.parametrize(
    ("rate", "text"), [(0, "0.0"), (9.44, "9.4"), (99.96, "100.0"), (1204.4, "1,204"), (23_400, "23k")]
)
def test_a_rate_is_written_short(rate: float, text: str) -> None:
    assert rate_text(rate) == text


def test_a_count_is_written_in_seven_characters_and_the_unknown_stays_so() -> None:
    assert [count_text(number) for number in (None, 0, 999_999, 12_345_678, 3 * 10**9)] == [
        *(None, "0", "999,999"),
        *("12.3M", "3.0G"),
    ]
    assert (meter(0.5, 4), meter(7.0, 4), meter(-1, 4)) == ("██░░", "████", "░░░░")


@pytest.mark.parametrize("tab", TABS)
def test_the_footer_fits_and_always_says_how_to_get_help_and_out(tab: str) -> None:
    for width in (40, 80, 200):
        told = footer(tab, width)
        assert sum(len(key) + len(word) + 3 for key, word in told) + 1 <= width
        assert told[-2:] == [("?", "help"), ("q", "quit")]


def test_the_help_names_every_key_and_fits_80_columns() -> None:
    lines = help_lines()
    assert all(any(line.startswith(f"  {key.key} ") for line in lines) for key in KEYS)
    assert max(map(len, lines)) <= 100


def test_the_tabs_tell_where_one_is_without_colours() -> None:
    line = tabs_line([("nodes", 3), ("jobs", None)], "jobs", "x", width=40)
    assert "".join(cell.text for cell in line) == " 1 nodes 3 [2 jobs]                    x"


def test_jobs_of_stock_nodes_are_counted_beside_the_queue_s_own() -> None:

    stock = replace(a_still_job(1), line=None)
    seen = still_seen([stock])
    queue = replace(seen.board, counts={"active": 5, "pending": 7, "ended": 9})
    assert job_counts(replace(seen, board=queue)) == (6, 7, 9)
    assert job_counts(replace(seen, board=replace(queue, counts={}))) == (1, 0, 0)
