"""How jobs are shown: lists, one job, what was scheduled, what was cancelled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from toolkit.cluster.cancel import Cancelled
from toolkit.cluster.schedule import Placed
from toolkit.model.jobs import Job, JobState
from toolkit.model.queue import Cap
from toolkit.views.contract import cap_row, job_object, job_row, scheduled_row
from toolkit.views.harmless import visible
from toolkit.views.view import FittedTable, Styled, View, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

MIN_ID_CHARS = 7
MAX_SCHEDULED = 50
MAX_REASON_CHARS = 80
MAX_ON = 3
MAX_REASON_CHARS = 80
# What most jobs have nothing to tell of.
EXACT = ("PRIORITY", "TRY", "EXIT")
JOBS_SPARE = (*EXACT, "PROJECT", "AGE", "ERRORS", "TOOK", "REASON")
STYLES = {
    JobState.PENDING: "yellow",
    JobState.STARTING: "cyan",
    JobState.RUNNING: "cyan",
    JobState.PAUSED: "blue",
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
            f"{job.priority:g}" if job.priority else None,
            _attempt_text(job),
            job.signal if job.signal is not None else job.exit_code,
            _shortened(reason_text(job, now=now)),
        )
        for job in jobs
    ]
    columns = ("JOB", "PROJECT", "SPIDER", "STATE", "NODE", "AGE", "TOOK", "PAGES", "ITEMS", "ERRORS", *EXACT, "REASON")
    right = ("AGE", "TOOK", "PAGES", "ITEMS", "ERRORS", *EXACT)
    return plain_table(*columns, rows=rows, right=right, spare=JOBS_SPARE, optional=EXACT)


def job_view(job: Job, *, log: Sequence[str] | None = None) -> View:
    """Show all that is known of one job, and the last lines of its log if they are given."""
    row = job_object(job, log=log)
    shown = [
        (name, Styled(job.state.value, STYLES[job.state]) if name == "state" else _flat(value))
        for name, value in row.items()
        if value not in (None, False, [], {}) and name != "log"
    ]
    return View(row, lambda: _job_screen(shown, log or ()))


def scheduled_view(placed: Sequence[Placed]) -> View:
    """Show where each job went; beyond 50, people see the first ones and how many there are."""
    data = {"jobs": [scheduled_row(each.job) for each in placed]}
    return View(data, lambda: _scheduled_table(placed))


def caps_view(caps: Sequence[Cap]) -> View:
    """Show how many jobs may be active at once, by project and spider."""
    rows = [(cap.project, cap.spider or "all its spiders together", cap.cluster, cap.per_node) for cap in caps]
    table = ("PROJECT", "SPIDER", "CLUSTER", "PER NODE")
    return View([cap_row(cap) for cap in caps], lambda: plain_table(*table, rows=rows, right=table[2:]))


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
    end = job.ended_at or (now if job.state.is_active else None)
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


def log_end(lines: Sequence[str]) -> RenderableType:
    """Lay out the last lines of a job's log."""
    from rich.console import Group
    from rich.text import Text

    text = Text(visible("\n".join(f"  {line}" for line in lines)))
    return Group(Text("the end of its log", style="bold yellow"), text)


def _shortened(text: str | None) -> str | None:
    """Cut a reason to what a list has room for; `jobs show` has all of it."""
    return text if text is None or len(text) <= MAX_REASON_CHARS else f"{text[: MAX_REASON_CHARS - 1]}…"


def reason_text(job: Job, *, now: datetime) -> str | None:
    """Say how a job came to its state, or what keeps a pending one from being taken."""
    if job.state is JobState.PENDING and job.is_held:
        return "held"
    if job.state is JobState.PENDING and job.due_at is not None and job.due_at > now:
        return f"due in {span_text((job.due_at - now).total_seconds())}"
    if job.state is JobState.PENDING and job.on is not None:
        return f"only for {', '.join(job.on[:MAX_ON])}" + (
            f" and {len(job.on) - MAX_ON} more" if len(job.on) > MAX_ON else ""
        )
    return job.finish_reason if job.state is JobState.FINISHED else job.reason or job.finish_reason


def _scheduled_table(placed: Sequence[Placed]) -> FittedTable:
    rows = [
        (
            each.job.id,
            each.job.project,
            each.job.spider,
            each.job.version,
            each.job.node,
            Styled(str(each.error), "red") if each.error else Styled(each.job.state.value, STYLES[each.job.state]),
        )
        for each in placed[:MAX_SCHEDULED]
    ]
    table = plain_table("JOB", "PROJECT", "SPIDER", "VERSION", "NODE", "STATE", rows=rows, spare=("PROJECT", "VERSION"))
    if len(placed) > MAX_SCHEDULED:
        table.caption = f"{len(placed)} jobs; the first {MAX_SCHEDULED} are shown"
    return table


def _attempt_text(job: Job) -> str | None:
    """Show which attempt it is; the first of a job needs no number."""
    return None if job.attempt is None or job.attempt <= 1 else f"{job.attempt}/{job.attempts or '?'}"


def _job_screen(rows: Sequence[Sequence[object]], log: Sequence[str]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    table = plain_table("JOB", "", rows=rows)
    return Group(table, Text(), log_end(log)) if log else table


def _flat(value: object) -> object:
    if isinstance(value, dict):
        return "\n".join(f"{key}={item}" for key, item in value.items()) or None
    return ", ".join(map(str, value)) if isinstance(value, list) else value
