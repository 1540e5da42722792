"""Expressions in time zones: each local time once, also when the clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.crons.timetable import NICKNAMES, Timetable, check_expression, instant_of, zone_of
from toolkit.model.errors import UsageError

BERLIN = "Europe/Berlin"


def due_on(expression: str, zone: str, day: str, *, days: int = 1) -> list[str]:
    """Return the due times of a local day, as its clocks show them, with their offset."""
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    end = begin + timedelta(days=days)
    found: list[datetime] = []
    for at in Timetable(expression, zone).all_after(begin - timedelta(seconds=1)):
        if at >= end:
            return [f"{each.astimezone(ZoneInfo(zone)):%H:%M%z}"[:8] for each in found]
        found.append(at)
    return []


def test_an_expression_is_due_at_the_times_it_names() -> None:
    assert due_on("30 3,15 * * *", "UTC", "2026-11-21") == ["03:30+00", "15:30+00"]
    assert due_on("0 9 * * 1-5", "UTC", "2026-11-21", days=3) == ["09:00+00"]
    assert Timetable("0 0 L 2 *").after(datetime(2027, 1, 1, tzinfo=UTC)) == datetime(2027, 2, 28, tzinfo=UTC)


@pytest.mark.parametrize("nickname", sorted(NICKNAMES))
def test_nicknames_are_known_in_any_case(nickname: str) -> None:
    assert check_expression(nickname.upper())
    assert Timetable(nickname).after(datetime(2026, 11, 21, tzinfo=UTC)) is not None


def test_a_time_that_the_clocks_skip_falls_once_to_the_end_of_the_gap() -> None:
    assert due_on("30 2 * * *", BERLIN, "2026-03-29") == ["03:00+02"]
    # cronsim itself would leave the day out.
    assert due_on("*/15 2 * * *", BERLIN, "2026-03-29") == ["03:00+02"]
    assert due_on("0 */2 * * *", BERLIN, "2026-03-29")[:3] == ["00:00+01", "03:00+02", "04:00+02"]
    assert due_on("15 2 * * *", "Australia/Lord_Howe", "2026-10-04") == ["02:30+11"]
    # A whole day was left out when Samoa crossed the date line.
    assert due_on("0 12 30 12 *", "Pacific/Apia", "2011-12-29", days=3) == ["00:00+14"]


def test_a_time_that_the_clocks_repeat_is_due_the_first_time() -> None:
    assert due_on("30 2 * * *", BERLIN, "2026-10-25") == ["02:30+02"]
    assert due_on("*/30 2 * * *", BERLIN, "2026-10-25") == ["02:00+02", "02:30+02"]
    assert due_on("0 */2 * * *", BERLIN, "2026-10-25")[:3] == ["00:00+02", "02:00+02", "04:00+01"]


def test_asked_within_the_repeated_hour_it_gives_no_time_that_is_past() -> None:
    second_time = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=ZoneInfo(BERLIN))
    found = Timetable("30 2 * * *", BERLIN).after(second_time)
    assert found == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("expression", ["30 * * * *", "30 0-23 * * *", "30 */1 * * *"])
def test_an_expression_for_every_hour_follows_the_time_that_passes(expression: str) -> None:
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-21", 24)):
        begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(BERLIN)).astimezone(UTC)
        found = list(islice(Timetable(expression, BERLIN).all_after(begin), hours))
        assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(hours=1)}
        assert len(due_on(expression, BERLIN, day)) == hours


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("* * * * * *", "know no seconds"),
        ("61 * * * *", "minute is wrong"),
        ("* * * *", "has not five fields"),
        ("", "has not five fields"),
        ("@reboot", "there is no expression '@reboot'"),
        ("0 0 30 2 *", "day-of-month is wrong"),
        ("0 0 * * L", "day-of-week is wrong"),
        ("1," * 200, "too long"),
        ("a b c d e", "is wrong"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(expression: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_expression(expression)


@pytest.mark.parametrize("name", ["Europe/Berlinn", "", "../etc/passwd", "Europe", "/etc/localtime", "\0"])
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        zone_of(name)


@given(st.text(alphabet="0123456789*/,-LW#@ aSUNMON", max_size=20))
@settings(max_examples=300, deadline=None)
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        check_expression(text)
    except UsageError:
        return
    assert Timetable(text)


MOMENTS = st.integers(min_value=1_420_000_000, max_value=1_800_000_000).map(lambda s: datetime.fromtimestamp(s, UTC))
FIELDS = st.tuples(
    st.sampled_from(["0", "30", "*/20", "59", "*"]), st.sampled_from(["*", "2", "*/3", "1-3", "0", "23"])
)
ZONES = st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Tehran"])


@given(FIELDS, ZONES, MOMENTS)
@settings(max_examples=150, deadline=None)
def test_due_times_rise_and_are_the_same_wherever_one_begins_to_ask(
    fields: tuple[str, str], zone: str, begin: datetime
) -> None:
    timetable = Timetable(f"{fields[0]} {fields[1]} * * *", zone)
    found = list(islice(timetable.all_after(begin), 30))
    assert all(later > earlier for earlier, later in pairwise([begin, *found]))
    assert [timetable.after(each) for each in found[:-1]] == found[1:]
    assert [timetable.after(each - timedelta(seconds=1)) for each in found] == found


def test_a_skipped_time_is_the_very_moment_of_the_change() -> None:
    gap = instant_of(datetime.fromisoformat("2026-03-29T02:59:59"), ZoneInfo(BERLIN))
    assert gap == datetime(2026, 3, 29, 1, tzinfo=UTC)
