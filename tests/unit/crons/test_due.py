"""When a cron is due, and what becomes of due times that nobody was there to fire."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from toolkit.crons.due import LATE_AFTER_S, MAX_LATE, Verdict, dues, jitter_s, judged, next_due
from toolkit.model.crons import After, Cron, Due, Late
from toolkit.model.names import SpiderName

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOURLY = Cron("hourly", SpiderName("books"), at="@hourly")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def judge(cron: Cron, *, first: datetime = NOON, late: timedelta = timedelta()) -> Verdict:
    return judged(cron, Due(first, first), now=first + late)


def test_a_cron_is_due_between_its_start_and_its_end() -> None:
    cron = replace(HOURLY, starts_at=NOON + DAY, ends_at=NOON + DAY + HOUR)
    assert [due.at for due in dues(cron, after=NOON)] == [NOON + DAY, NOON + DAY + HOUR]
    assert next_due(cron, after=NOON + 2 * DAY) is None


def test_a_cron_that_is_paused_or_follows_another_is_not_due_by_time() -> None:
    assert next_due(replace(HOURLY, is_paused=True), after=NOON) is None
    assert next_due(Cron("chain", SpiderName("books"), after=After(SpiderName("prices"))), after=NOON) is None


def test_jitter_puts_a_firing_off_by_chance_but_always_by_the_same() -> None:
    cron = replace(HOURLY, jitter_s=600.0)
    found = list(islice(dues(cron, after=NOON), 50))
    assert found == list(islice(dues(cron, after=NOON), 50))
    put_off = {(due.fires_at - due.at).total_seconds() for due in found}
    assert len(put_off) > 40
    assert all(0 <= each < 600 for each in put_off)
    assert jitter_s(cron, NOON) != jitter_s(replace(cron, name="other"), NOON)


@pytest.mark.parametrize("late", list(Late))
def test_a_firing_in_time_happens_and_is_due_next_as_the_expression_says(late: Late) -> None:
    verdict = judge(replace(HOURLY, late=late), late=timedelta(seconds=LATE_AFTER_S))
    assert verdict == Verdict(NOON, Due(NOON + HOUR, NOON + HOUR))


def test_after_an_absence_one_firing_stands_for_all() -> None:
    verdict = judge(HOURLY, late=5 * HOUR + MINUTE)
    assert (verdict.at, verdict.is_skipped) == (NOON + 5 * HOUR, False)
    assert verdict.next == Due(NOON + 6 * HOUR, NOON + 6 * HOUR)
    assert verdict.reason == "5 due time(s) before it had passed unseen"


def test_after_an_absence_late_firings_are_skipped_up_to_one_that_is_in_time() -> None:
    cron = replace(HOURLY, late=Late.SKIP)
    skipped = judge(cron, late=5 * HOUR + 2 * MINUTE)
    assert skipped.is_skipped
    assert skipped.next == Due(NOON + 6 * HOUR, NOON + 6 * HOUR)
    fired = judge(cron, late=5 * HOUR + timedelta(seconds=30))
    assert (fired.at, fired.is_skipped) == (NOON + 5 * HOUR, False)


def test_after_an_absence_all_fire_one_after_the_other() -> None:
    cron, at, fired = replace(HOURLY, late=Late.ALL), NOON, []
    now = NOON + 3 * HOUR + MINUTE
    while at <= now:
        verdict = judged(cron, Due(at, at), now=now)
        assert verdict.next is not None
        fired.append(verdict.at)
        at = verdict.next.at
    assert fired == [NOON, NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR]


def test_no_more_than_so_many_fire_late() -> None:
    cron, at = replace(HOURLY, at="* * * * *", late=Late.ALL), NOON
    fired: list[Verdict] = []
    skipped: list[Verdict] = []
    now = NOON + 2 * DAY
    while at <= now:
        verdict = judged(cron, Due(at, at), now=now)
        assert verdict.next is not None
        (skipped if verdict.is_skipped else fired).append(verdict)
        at = verdict.next.at
    assert [each.reason for each in skipped] == [
        f"it and more than 1000 due times after it are too many to fire late: the newest {MAX_LATE} are"
    ]
    assert [verdict.at for verdict in fired] == [now - each * MINUTE for each in reversed(range(MAX_LATE))]


@pytest.mark.parametrize("late", list(Late))
def test_years_of_absence_are_judged_at_once(late: Late) -> None:
    verdict = judged(replace(HOURLY, at="* * * * *", late=late), Due(NOON, NOON), now=NOON + 1000 * DAY)
    assert verdict.next is not None
    assert verdict.is_skipped == (late is Late.ALL)


def test_with_jitter_what_was_put_off_is_not_missed() -> None:
    cron = replace(HOURLY, jitter_s=1800.0)
    first, second = islice(dues(cron, after=NOON), 2)
    verdict = judged(cron, first, now=first.fires_at)
    assert (verdict.at, verdict.next, verdict.reason) == (first.at, second, None)


def test_due_times_are_an_hour_apart() -> None:
    assert {b.at - a.at for a, b in pairwise(islice(dues(HOURLY, after=NOON), 10))} == {HOUR}
