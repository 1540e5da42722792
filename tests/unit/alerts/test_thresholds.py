"""What thresholds measure, and that they say nothing where nothing is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from toolkit.alerts.thresholds import errors_per_minute, fires, idle_s, usual_items
from toolkit.model.alerts import Rule, RuleKind
from toolkit.model.samples import JobSample

NOW = datetime(2026, 11, 21, 10, 15, tzinfo=UTC)


def samples(*told: tuple[float, int | None, int | None, int | None]) -> list[JobSample]:
    """Return samples of so many seconds ago: pages, items, errors."""
    return [JobSample(NOW - timedelta(seconds=ago), pages, items, errors) for ago, pages, items, errors in told]


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (samples(), None),
        (samples((70, 0, 0, 0), (60, 0, 0, 10), (0, 9, 9, 40)), 30.0),
        (samples((50, 0, 0, 0), (0, 9, 9, 25)), 30.0),
        (samples((20, 0, 0, 0), (0, 9, 9, 25)), None),
        (samples((300, 0, 0, 0), (90, 9, 9, 50)), None),
        (samples((120, 0, 0, 0), (60, 9, 9, None), (0, 9, 9, None)), None),
        # Another attempt begins at nothing.
        (samples((120, 0, 0, 0), (60, 9, 9, 90), (50, 0, 0, 0), (0, 9, 9, 5)), 6.0),
    ],
)
def test_errors_are_counted_over_a_time_of_one_attempt(told: list[JobSample], wanted: float | None) -> None:
    assert errors_per_minute(told, now=NOW, within_s=60) == wanted


def test_errors_are_counted_also_where_the_time_is_shorter_than_from_sample_to_sample() -> None:
    told = samples((25, 0, 0, 0), (16, 0, 0, 5), (6, 9, 9, 10))
    assert errors_per_minute(told, now=NOW, within_s=5) == 30.0


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (samples(), None),
        (samples((300, 0, 0, 0), (200, 5, 1, 0), (100, 5, 1, 9), (5, 5, 1, 50)), 200.0),
        (samples((300, 0, 0, 0), (200, 5, 1, 0), (100, 5, 2, 0), (5, 5, 2, 0)), 100.0),
        (samples((300, 0, 0, 0), (5, None, None, None)), 300.0),
        (samples((300, 0, 0, 0), (100, 5, 1, 0)), None),
        (samples((300, 9, 9, 0), (100, 0, 0, 0), (5, 0, 0, 0)), 100.0),
    ],
)
def test_idleness_begins_with_the_last_page_or_item(told: list[JobSample], wanted: float | None) -> None:
    assert idle_s(told, now=NOW) == wanted


def test_a_usual_wants_some_runs() -> None:
    assert usual_items([10, None, 20]) is None
    assert usual_items([10, 30, None, 20]) == 20


@pytest.mark.parametrize(
    ("rule", "value", "usual", "wanted"),
    [
        (Rule("r", (), RuleKind.ERRORS, threshold=10), 10.0, None, False),
        (Rule("r", (), RuleKind.ERRORS, threshold=10), 10.1, None, True),
        (Rule("r", (), RuleKind.PROGRESS, within_s=60), 61.0, None, True),
        (Rule("r", (), RuleKind.WAITING, within_s=60), 59.0, None, False),
        (Rule("r", (), RuleKind.ITEMS, threshold=0.5), 49.0, 100.0, True),
        (Rule("r", (), RuleKind.ITEMS, threshold=0.5), 50.0, 100.0, False),
        (Rule("r", (), RuleKind.ITEMS, threshold=0.5), 0.0, None, None),
        (Rule("r", (), RuleKind.ERRORS, threshold=10), None, None, None),
    ],
)
def test_a_threshold_is_crossed_and_not_touched(
    rule: Rule,
    value: float | None,
    usual: float | None,
    wanted: bool | None,  # noqa: FBT001
) -> None:
    assert fires(rule, value, usual=usual) is wanted
