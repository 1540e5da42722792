"""How every back end orders what it lists and rounds the times it compares."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from toolkit.model.jobs import Job
from toolkit.model.releases import Release

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def newest_first(releases: Iterable[Release]) -> tuple[Release, ...]:
    """Return the releases by creation time, the newest first; of equal times the greater version first."""
    return tuple(sorted(releases, key=lambda release: (release.created_at, release.version), reverse=True))


def scheduled_us(job: Job) -> int:
    """Return the job's `scheduled_at` in microseconds since 1970, exact in a double until the year 2255; 0: unknown."""
    return 0 if job.scheduled_at is None else microseconds(job.scheduled_at)


def microseconds(moment: datetime) -> int:
    """Return the microseconds from 1970 to the moment."""
    return (moment - _EPOCH) // _MICROSECOND


def ttl_ms(ttl_s: float) -> int:
    """Return the term in whole milliseconds, at least one."""
    return max(1, round(ttl_s * 1000))
