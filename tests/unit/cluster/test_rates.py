"""How fast jobs go, told from looks at them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.stores import a_job

from toolkit.cluster.rates import MIN_SPAN_S, WINDOW_S, Meter, Rates, Reading, rates_between, total
from toolkit.model.jobs import Job, JobState

BEGAN = datetime(2026, 11, 21, 12, tzinfo=UTC)


def running(pages: int | None, *, attempt: int = 1, per_minute: float | None = None) -> Job:
    job = a_job("a1", state=JobState.RUNNING)
    return replace(job, pages=pages, items=pages, attempt=attempt, started_at=BEGAN, pages_per_minute=per_minute)


def test_a_rate_is_what_was_done_over_the_time_it_took() -> None:
    assert rates_between(Reading(10.0, pages=5, items=1), Reading(20.0, pages=105, items=6)) == Rates(10.0, 0.5, 0.0)


@pytest.mark.parametrize(
    "newer",
    [
        Reading(10.0 + MIN_SPAN_S - 1, pages=9),
        Reading(30.0, pages=4),
        Reading(30.0, pages=9, began=(2, BEGAN)),
        Reading(30.0, pages=9, began=(None, BEGAN + timedelta(seconds=1))),
    ],
    ids=["too near", "fewer than before", "another attempt", "begun anew"],
)
def test_looks_that_cannot_be_compared_give_no_rate(newer: Reading) -> None:
    assert rates_between(Reading(10.0, pages=5), newer) is None


def test_until_it_was_looked_at_twice_a_job_is_as_fast_as_it_says() -> None:
    meter = Meter()
    meter.look(running(7, per_minute=90.0), at_s=0.0)
    assert meter.rates["a1"] == Rates(pages=1.5)  # type: ignore[index]


def test_a_rate_is_that_of_the_last_looks_however_long_the_job_runs() -> None:
    meter = Meter()
    for second in range(0, 600, 2):
        meter.look(running(second * 10), at_s=float(second))
    for second in range(600, 600 + round(WINDOW_S) + 4, 2):
        meter.look(running(6_000), at_s=float(second))
    assert [round(rate.pages, 1) for rate in meter.rates.values()] == [0.0]


def test_another_attempt_counts_from_its_own_begin() -> None:
    meter = Meter()
    meter.look(running(1_000), at_s=0.0)
    meter.look(running(0, attempt=2), at_s=10.0)
    meter.look(running(50, attempt=2), at_s=20.0)
    assert [rate.pages for rate in meter.rates.values()] == [5.0]


def test_a_job_that_has_ended_has_no_rate() -> None:
    meter = Meter()
    meter.look(running(1), at_s=0.0)
    meter.look(replace(running(1), state=JobState.FINISHED), at_s=10.0)
    assert meter.rates == {}
    assert total(meter.rates.values()) == Rates()
