"""Judges jobs that hold a slot and do not get on. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from toolkit.doctor.judged import WARNING, Judged, found
from toolkit.model.jobs import Job, JobState

STARTING_LONG = timedelta(minutes=10)
RUNNING_LONG = timedelta(hours=1)
MAX_TOLD = 50


def judge_jobs(jobs: Sequence[Job], *, now: datetime) -> list[Judged]:
    """Say which active jobs do not get on: they start for minutes, or have fetched nothing for long."""
    judged = [each for job in jobs for each in _judge(job, now)]
    if len(judged) > MAX_TOLD:
        more = len(judged) - MAX_TOLD
        judged = judged[:MAX_TOLD]
        judged.append(
            found(
                "jobs-stuck", WARNING, f"{more} more jobs do not get on", command="crawlctl jobs list --state running"
            )
        )
    return judged


def _judge(job: Job, now: datetime) -> Iterator[Judged]:
    since = job.started_at or job.scheduled_at
    if since is None or not job.state.is_active:
        return
    age = now - since
    if job.cancel_requested_at is not None and now - job.cancel_requested_at > STARTING_LONG:
        minutes = (now - job.cancel_requested_at).total_seconds() / 60
        text = f"job {job.id} on {job.node} was to end {minutes:.0f} min ago, and its process is still there"
        yield found("jobs-stuck", WARNING, text, command=f"crawlctl cancel {job.id} --grace 10")
    elif job.state is JobState.STARTING and job.started_at is not None and age > STARTING_LONG:
        text = f"job {job.id} on {job.node} has been starting for {age.total_seconds() / 60:.0f} min"
        yield found("jobs-stuck", WARNING, text, command=f"crawlctl logs {job.id}")
    elif job.state is JobState.RUNNING and age > RUNNING_LONG and _is_idle(job):
        hours = age.total_seconds() / 3600
        text = f"job {job.id} on {job.node} has run for {hours:.1f} h and fetches nothing"
        yield found("jobs-stuck", WARNING, text, command=f"crawlctl logs {job.id} -n 50")


def _is_idle(job: Job) -> bool:
    """Tell whether it fetches nothing now; what does not report its pages is not judged."""
    return job.pages is not None and (job.pages == 0 or job.pages_per_minute == 0)
