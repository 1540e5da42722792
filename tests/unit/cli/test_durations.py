"""Spans of time as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from toolkit.cli.durations import ago, seconds
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
