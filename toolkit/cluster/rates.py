"""How fast jobs go: what was done a second between two looks. Pure; who looks, and when, is for others to say."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from toolkit.model.jobs import Job
from toolkit.model.names import JobId

WINDOW_S = 30.0
"""A rate is that of about the last so many seconds: nodes tell how far their jobs are every few seconds only."""

MIN_SPAN_S = 4.0
"""Two looks that are nearer to each other give no rate."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What is done a second."""

    pages: float = 0.0
    items: float = 0.0
    errors: float = 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What one attempt of a job had done when it was looked at; `at_s` is any clock that only goes forward."""

    at_s: float
    pages: int = 0
    items: int = 0
    errors: int = 0
    began: tuple[int | None, datetime | None] = (None, None)
    """Which attempt it was: another one counts from nothing."""


def reading_of(job: Job, *, at_s: float) -> Reading:
    """Return what a job has done by now; what is not known counts as nothing."""
    return Reading(at_s, job.pages or 0, job.items or 0, job.errors or 0, (job.attempt, job.started_at))


def is_anew(older: Reading, newer: Reading) -> bool:
    """Tell whether counting has begun anew in between: with another attempt, or because a count fell."""
    is_less = newer.pages < older.pages or newer.items < older.items or newer.errors < older.errors
    return is_less or newer.began != older.began


def rates_between(older: Reading, newer: Reading) -> Rates | None:
    """Return what was done a second between two looks of one counting; `None` when they are too near."""
    span_s = newer.at_s - older.at_s
    if span_s < MIN_SPAN_S or is_anew(older, newer):
        return None
    done = (newer.pages - older.pages, newer.items - older.items, newer.errors - older.errors)
    return Rates(*(count / span_s for count in done))


def told_rates(job: Job) -> Rates:
    """Return what a job says itself of its speed, for the time until it was looked at twice."""
    return Rates(pages=(job.pages_per_minute or 0.0) / 60)


def total(rates: Iterable[Rates]) -> Rates:
    """Add up."""
    pages = items = errors = 0.0
    for each in rates:
        pages += each.pages
        items += each.items
        errors += each.errors
    return Rates(pages, items, errors)


class Meter:
    """Remembers the looks at active jobs of the last half minute, and tells how fast each goes."""

    def __init__(self) -> None:
        self._readings: dict[JobId, deque[Reading]] = {}
        self._rates: dict[JobId, Rates] = {}

    @property
    def rates(self) -> Mapping[JobId, Rates]:
        """The rates of the jobs that are active, as they were last looked at."""
        return self._rates

    def look(self, job: Job, *, at_s: float) -> None:
        """Take in how far a job is now; one that is not active any more is forgotten."""
        if not job.state.is_active:
            self.forget(job.id)
            return
        reading = reading_of(job, at_s=at_s)
        known = self._readings.setdefault(job.id, deque())
        if known and is_anew(known[-1], reading):
            known.clear()
        known.append(reading)
        while len(known) > 2 and known[1].at_s <= at_s - WINDOW_S:  # noqa: PLR2004 - two readings make a rate
            known.popleft()
        self._rates[job.id] = rates_between(known[0], reading) or told_rates(job)

    def forget(self, job_id: JobId) -> None:
        """Drop what is known of a job."""
        self._readings.pop(job_id, None)
        self._rates.pop(job_id, None)
