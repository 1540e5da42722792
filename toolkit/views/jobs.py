"""How jobs are shown: lists, one job, what was scheduled, what was cancelled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from toolkit.cluster.cancel import Cancelled
from toolkit.cluster.schedule import Placed
from toolkit.model.jobs import Job, JobState
from toolkit.views.contract import job_row, scheduled_row
from toolkit.views.view import FittedTable, Styled, View, plain_table

MIN_ID_CHARS = 7
JOBS_SPARE = ("PROJECT", "AGE", "ERRORS", "TOOK", "REASON")
STYLES = {
    JobState.PENDING: "yellow",
    JobState.RUNNING: "cyan",
    JobState.FINISHED: "green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "magenta",
    JobState.LOST: "bold red",
}
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def jobs_view(jobs: Sequence[Job], *, now: datetime) -> View:
    """Show a list of jobs."""
    return View([job_row(job) for job in jobs], lambda: jobs_table(jobs, now=now))


def jobs_table(jobs: Sequence[Job], *, now: datetime) -> FittedTable:
    """Lay out one row a job, its id as short as it can be typed."""
    chars = unique_length([job.id for job in jobs])
    rows = [
        (
            job.id[:chars],
            job.project,
            job.spider,
            Styled(job.state.value, STYLES[job.state]),
            job.node,
            age_text(job.scheduled_at or job.started_at, now=now),
            duration_text(job, now=now),
            job.pages,
            job.items,
            Styled(str(job.errors), "red") if job.errors else job.errors,
            job.finish_reason,
        )
        for job in jobs
    ]
    columns = ("JOB", "PROJECT", "SPIDER", "STATE", "NODE", "AGE", "TOOK", "PAGES", "ITEMS", "ERRORS", "REASON")
    return plain_table(*columns, rows=rows, right=("AGE", "TOOK", "PAGES", "ITEMS", "ERRORS"), spare=JOBS_SPARE)


def job_view(job: Job) -> View:
    """Show all that is known of one job."""
    row = job_row(job)
    shown = [
        (name, Styled(job.state.value, STYLES[job.state]) if name == "state" else _flat(row[name])) for name in row
    ]
    return View(row, lambda: plain_table("JOB", "", rows=shown))


def scheduled_view(placed: Sequence[Placed]) -> View:
    """Show where each job went."""
    data = {"jobs": [scheduled_row(each.job) for each in placed]}
    rows = [
        (
            each.job.id,
            each.job.project,
            each.job.spider,
            each.job.version,
            each.job.node,
            Styled(str(each.error), "red") if each.error else Styled(each.job.state.value, STYLES[each.job.state]),
        )
        for each in placed
    ]
    return View(
        data,
        lambda: plain_table(
            "JOB", "PROJECT", "SPIDER", "VERSION", "NODE", "STATE", rows=rows, spare=("PROJECT", "VERSION")
        ),
    )


def cancelled_view(cancelled: Sequence[Cancelled]) -> View:
    """Show what became of each job that was to be cancelled."""
    data = {
        "jobs": [
            {
                "id": each.job.id,
                "before": each.before.value,
                "after": each.after.value,
                "error": str(each.error) if each.error else None,
            }
            for each in cancelled
        ]
    }
    rows = [
        (
            each.job.id,
            each.job.spider,
            each.job.node,
            each.before.value,
            Styled(each.after.value, STYLES[each.after]),
            Styled(str(each.error), "red") if each.error else None,
        )
        for each in cancelled
    ]
    return View(data, lambda: plain_table("JOB", "SPIDER", "NODE", "BEFORE", "AFTER", "WHY", rows=rows))


def unique_length(ids: Iterable[str]) -> int:
    """Return how many characters tell these ids apart, at least seven."""
    ordered = sorted(set(ids))
    longest = MIN_ID_CHARS
    for one, other in pairwise(ordered):
        same = next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
        )
        longest = max(longest, same + 1)
    return longest


def age_text(at: datetime | None, *, now: datetime) -> str | None:
    """Show how long ago something was: `12s`, `5m`, `3h`, `2d`."""
    return None if at is None else span_text((now - at).total_seconds())


def duration_text(job: Job, *, now: datetime) -> str | None:
    """Show how long the job has run, or ran."""
    if job.started_at is None:
        return None
    end = job.ended_at or (now if job.state is JobState.RUNNING else None)
    return None if end is None else span_text((end - job.started_at).total_seconds())


def span_text(seconds: float) -> str:
    """Show a span in its largest unit and the next."""
    whole = max(0, int(seconds))
    if whole < _MINUTE_S:
        return f"{whole}s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S}m{whole % _MINUTE_S:02d}s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S}h{whole % _HOUR_S // _MINUTE_S:02d}m"
    return str(timedelta(seconds=whole)).split(",")[0].replace(" days", "d").replace(" day", "d")


def utc_now() -> datetime:
    """Return this machine's time; only ages on screen depend on it."""
    return datetime.now(UTC)


def _flat(value: object) -> object:
    if isinstance(value, dict):
        return "\n".join(f"{key}={item}" for key, item in value.items()) or None
    return value
