"""The table of jobs: those that run first, then those that wait, then those that ended, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from toolkit.cluster.rates import Rates
from toolkit.model.jobs import Job, JobState
from toolkit.top.columns import Cell, Column, Sorting
from toolkit.top.seen import Seen, Tab
from toolkit.top.sparklines import count_text, rate_text
from toolkit.views.jobs import STYLES, age_text, duration_text, reason_text

SHOWN_ID = 8
_RANK = {
    state: place
    for place, state in enumerate(
        (
            *(JobState.STARTING, JobState.RUNNING, JobState.PAUSED, JobState.PENDING),
            *(JobState.FAILED, JobState.LOST, JobState.CANCELLED, JobState.FINISHED),
        )
    )
}


class JobRow(NamedTuple):
    """A job, and how fast it goes if it is active; thousands are made at each look."""

    job: Job
    rates: Rates | None = None


def job_rows(seen: Seen) -> Sequence[JobRow]:
    """Return every job that is known."""
    rates = seen.board.rates
    return [JobRow(job, rates.get(job_id)) for job_id, job in seen.board.jobs.items()]


def _age_s(job: Job) -> float | None:
    at = job.ended_at or job.started_at or job.scheduled_at
    return None if at is None else -at.timestamp()


def _scheduled(row: JobRow) -> float | None:
    return None if row.job.scheduled_at is None else -row.job.scheduled_at.timestamp()


def _took_s(job: Job) -> float | None:
    if job.started_at is None:
        return None
    # An active job's end is as good as now: the one that began first has run longest.
    return (job.ended_at.timestamp() if job.ended_at else 1e12) - job.started_at.timestamp()


def _state(row: JobRow, _now: datetime) -> Cell:
    return Cell(row.job.state.value, STYLES[row.job.state])


def _errors(row: JobRow, _now: datetime) -> Cell | str | None:
    errors = row.job.errors
    return Cell(count_text(errors) or "", "red") if errors else count_text(errors)


def _rate(row: JobRow, _now: datetime) -> str | None:
    return None if row.rates is None else rate_text(row.rates.pages)


def _reason(row: JobRow, now: datetime) -> str:
    return reason_text(row.job, now=now) or ""


def _memory(row: JobRow, _now: datetime) -> str | None:
    return None if row.job.memory_mb is None else f"{row.job.memory_mb:.0f}M"


COLUMNS: tuple[Column[JobRow], ...] = (
    Column("JOB", SHOWN_ID, lambda row, _: row.job.id[:SHOWN_ID], lambda row: row.job.id),
    Column("SPIDER", 12, lambda row, _: row.job.spider, lambda row: row.job.spider, most=24),
    Column("PROJECT", 8, lambda row, _: row.job.project, lambda row: row.job.project, most=16, spare=7),
    Column(
        "STATE",
        9,
        _state,
        lambda row: (_RANK[row.job.state], _age_s(row.job) or 0.0),
    ),
    Column("NODE", 9, lambda row, _: row.job.node, lambda row: row.job.node, most=18),
    Column("AGE", 6, lambda row, now: age_text(row.job.scheduled_at, now=now), _scheduled, spare=6, is_right=True),
    Column(
        "TOOK",
        6,
        lambda row, now: duration_text(row.job, now=now),
        lambda row: _took_s(row.job),
        is_right=True,
        falls=True,
    ),
    Column(
        "PAGES/S",
        8,
        _rate,
        lambda row: None if row.rates is None else row.rates.pages,
        is_right=True,
        falls=True,
    ),
    Column("PAGES", 7, lambda row, _: count_text(row.job.pages), lambda row: row.job.pages, is_right=True, falls=True),
    Column(
        "ITEMS",
        7,
        lambda row, _: count_text(row.job.items),
        lambda row: row.job.items,
        is_right=True,
        falls=True,
        spare=3,
    ),
    Column("ERRORS", 7, _errors, lambda row: row.job.errors, is_right=True, falls=True),
    Column("MEM", 5, _memory, lambda row: row.job.memory_mb, is_right=True, falls=True, spare=8),
    Column("WHY", 10, _reason, lambda row: row.job.reason or row.job.finish_reason, most=80, spare=4),
)


def _texts(row: JobRow) -> Sequence[object]:
    job = row.job
    return (job.id, job.spider, job.project, job.state.value, job.node, job.version, job.crawl, job.reason)


TAB: Tab[JobRow] = Tab(
    name="jobs",
    columns=COLUMNS,
    sorting=Sorting("STATE"),
    rows=job_rows,
    key=lambda row: row.job.id,
    texts=_texts,
    empty="no job yet: crawlctl schedule SPIDER starts one",
)
