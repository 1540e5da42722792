"""Spans and moments of time as people write them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from toolkit.cli.durations import ago, moment, moment_text, seconds
from toolkit.model.errors import UsageError

NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0s", 0), ("90s", 90), ("15m", 900), ("2h", 7200), ("1h30m", 5400), ("7d", 604_800), ("1w2d3h4m5s", 788_645)],
)
def test_spans_are_read_as_seconds(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "5", "m", "1.5h", "-1h", "1 h", "1h ", "1y", "٣s", "1H", "9" * 5000 + "s"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="is no span of time") as caught:
        seconds(text)
    assert "1h30m" in (caught.value.hint or "")


def test_ago_is_so_long_before_now() -> None:
    assert ago("1h", now=NOW) == NOW - timedelta(hours=1)
    assert ago(None, now=NOW) is None


@pytest.mark.parametrize("text", ["999999999w", "999999d"])
def test_a_span_longer_than_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="longer than the calendar"):
        ago(text, now=NOW)


@pytest.fixture
def in_zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_zurich")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("21:30", "2026-11-21T20:30:00+00:00"),
        ("8:05", "2026-11-21T07:05:00+00:00"),
        ("07:00", "2026-11-22T06:00:00+00:00"),
        ("21:30:15", "2026-11-21T20:30:15+00:00"),
        ("2027-07-01T12:00", "2027-07-01T10:00:00+00:00"),
        ("2027-07-01T12:00:00Z", "2027-07-01T12:00:00+00:00"),
        ("2027-07-01 12:00+05:45", "2027-07-01T06:15:00+00:00"),
        ("2027-07-01", "2027-06-30T22:00:00+00:00"),
    ],
)
def test_moments_are_read_in_the_local_zone_unless_they_name_one(text: str, expected: str) -> None:
    assert moment(text, now=NOW).astimezone(UTC).isoformat() == expected


@pytest.mark.usefixtures("in_zurich")
def test_a_time_of_day_is_the_next_one_across_a_change_of_the_clock() -> None:
    eve = datetime(2027, 3, 27, 22, 0, tzinfo=UTC)
    assert moment_text(moment("03:30", now=eve)) == "2027-03-28 03:30:00 CEST"
    assert moment_text(moment("23:30", now=eve)) == "2027-03-27 23:30:00 CET"


@pytest.mark.parametrize("text", ["", "noon", "25:00", "12:60", "12", "2027-13-01", "99999-01-01", "-1:00"])
def test_what_is_no_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="is no moment in time") as caught:
        moment(text, now=NOW)
    assert "21:30" in (caught.value.hint or "")
