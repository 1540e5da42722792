"""What pages are made of: lines and columns, marked lines of a log, events as rows, numbers of a form, words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from toolkit.model.errors import UsageError
from toolkit.model.events import Event, EventKind
from toolkit.model.samples import ClusterSample, JobSample
from toolkit.web import words
from toolkit.web.drawing import MAX_POINTS, cluster_columns, job_columns, line_of, per_minute, thinned
from toolkit.web.event_rows import row_of
from toolkit.web.fields import decimal, whole
from toolkit.web.log_view import LogView, marked
from toolkit.web.pages_jobs import Search, states_of

AT = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def test_a_line_goes_from_side_to_side_and_nothing_is_drawn_of_a_single_value() -> None:
    line = line_of([0, 5, 10])
    assert line.points == "0.0,38.0 120.0,20.0 240.0,2.0"
    assert line.area == f"0,40 {line.points} 240,40"
    assert line_of([7]).points == ""
    assert line_of([0, None, 0]).points.count("38.0") == 3


def test_of_many_values_each_peak_is_kept() -> None:
    values = [0.0] * 1000
    values[421] = 9.0
    kept = thinned(values)
    assert len(kept) == MAX_POINTS
    assert max(kept) == 9.0


def test_a_rate_is_unknown_at_the_begin_and_where_a_count_began_anew() -> None:
    assert per_minute([(0, 0), (60, 30), (120, 5), (180, None), (240, 9)]) == [None, 30.0, None, None, None]
    assert per_minute([]) == []


def test_samples_are_columns_of_the_same_length() -> None:
    cluster = cluster_columns([ClusterSample(AT, pending=3, errors_per_s=0.1), ClusterSample(AT)])
    job = job_columns([JobSample(AT, pages=1, memory_mb=80.5), JobSample(AT + timedelta(minutes=1), pages=61)])
    assert {len(column) for column in (*cluster.values(), *job.values())} == {2}
    assert cluster["errors_per_min"] == [6.0, 0.0]
    assert job["pages_per_min"] == [None, 60.0]
    assert job["memory"] == [80.5, None]


def test_each_line_of_a_log_has_its_level_or_that_of_the_line_before() -> None:
    content = (
        b"half a line\n2026-11-21 10:00:00 [scrapy.core.engine] INFO: Spider opened\n"
        b"2026-11-21 10:00:01 [scrapy.core.scraper] ERROR: broken\nTraceback\n  <b>\xff\n"
        b"2026-11-21 10:00:02 [x] DEBUG: fine"
    )
    lines = marked(content, mark="w")
    assert [mark for mark, _ in lines] == ["w", "i", "e", "e", "e", "d"]
    assert len(LogView(lines).at_least("warning")) == 4


def test_an_event_is_a_row_with_a_sign_and_leads_to_its_page() -> None:
    lost = row_of(Event(EventKind.NODE_LOST, "a/b", {}, AT, "1-0"))
    assert (lost.tone, lost.link) == ("bad", "/nodes/a%2Fb")
    assert row_of(Event(EventKind.RELEASE_DEPLOYED, "shop v1", {})).link == "/releases/shop"
    assert row_of(Event(EventKind.QUEUE_WEDGED, "queue", {})).link is None


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "²", "x", "9" * 400])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        whole(text, "concurrency")


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "x", "1e99"])
def test_what_is_no_number_that_can_be_kept_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        decimal(text, "the delay")


def test_an_empty_field_is_no_wish() -> None:
    assert (whole(" ", "it"), decimal("", "it")) == (None, None)
    assert (whole(" 8 ", "it"), decimal("0", "it")) == (8, 0.0)


def test_a_search_stands_in_its_address_and_page_one_does_not() -> None:
    asked = Search(q="a b", state="failed", page=3)
    assert asked.path(page=1) == "/jobs?q=a+b&state=failed"
    assert asked.path(page=4).endswith("page=4")
    assert len(states_of("active")) == 3
    assert states_of("nonsense") == frozenset()


def test_numbers_and_spans_are_short() -> None:
    assert [words.number(value) for value in (None, 0, 12_345, 0.256, 12.34, 250.4)] == [
        *("\N{EN DASH}", "0", "12\N{NARROW NO-BREAK SPACE}345", "0.26", "12.3", "250"),
    ]
    assert [words.about(seconds) for seconds in (-1, 90, 150, 7200, 200_000)] == ["0s", "90s", "2m", "2h", "2d"]
    assert [words.size(count) for count in (None, 10, 2048, 5e9)] == ["\N{EN DASH}", "10 B", "2.0 kB", "4.7 GB"]


def test_what_others_wrote_is_text_and_no_markup() -> None:
    assert words.state("<b>") == '<span class="state held"><span aria-hidden="true">●</span> &lt;b&gt;</span>'
