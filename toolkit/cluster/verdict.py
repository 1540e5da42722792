"""What is to be made of one job: its record, what its node says of it, and what its log tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from toolkit.cluster.joblog import LogFacts
from toolkit.cluster.scrapyd import ListedJob
from toolkit.model.jobs import FAILURE_REASONS, Job, JobState
from toolkit.model.names import JobId
from toolkit.model.outcomes import Outcomes

CANCEL_REASONS = frozenset({"shutdown", "cancelled"})
ENDED_UNCLOSED = "ended without closing the spider"
GONE = "its node knows nothing of it any more"
SENDING = timedelta(seconds=30)


def merge(records: Mapping[JobId, Job], listed: Outcomes[tuple[ListedJob, ...]]) -> dict[JobId, Job]:
    """Lay what the nodes say over what was recorded. Pure.

    A job that its node has forgotten, though the node answers, is `lost` until its log says otherwise; a final state
    stays; arguments, version and settings come from the record, since Scrapyd does not tell them of a running job. A
    job of the shared queue is as its record says, whatever a node lists.
    """
    rows = _rows(listed)
    answering = {outcome.node for outcome in listed if outcome.ok}
    merged: dict[JobId, Job] = {}
    for job_id in rows.keys() | records.keys():
        record, row = records.get(job_id), rows.get(job_id)
        if record is None and row is not None:
            merged[job_id] = row
        elif record is not None and record.is_queued:
            merged[job_id] = record
        elif record is not None and (record.state.is_final or row is not None):
            merged[job_id] = record if record.state.is_final or row is None else _laid_over(record, row)
        elif record is not None:
            is_gone = record.node in answering
            merged[job_id] = replace(record, state=JobState.LOST, finish_reason=GONE) if is_gone else record
    return merged


def judge(job: Job, facts: LogFacts | None) -> Job:
    """Say how a job ended, from its log and whether it was cancelled. Pure.

    Stock Scrapyd calls every ended process `finished`, tells no exit code, and a cancelled spider exits with 0. A job
    that its node has forgotten stays lost, cancelled or not, unless its log tells its end: its process may still run.
    """
    if job.state not in {JobState.FINISHED, JobState.LOST}:
        return job
    reason = facts.finish_reason if facts else None
    if reason is not None:
        if reason in CANCEL_REASONS or job.cancel_requested_at is not None:
            state = JobState.CANCELLED
        else:
            state = JobState.FAILED if reason in FAILURE_REASONS else JobState.FINISHED
        return replace(job, state=state, finish_reason=reason)
    if job.state is JobState.LOST:
        return job
    if job.cancel_requested_at is not None:
        return replace(job, state=JobState.CANCELLED, finish_reason="killed")
    if facts is not None and facts.breaks_off:
        return replace(job, state=JobState.FAILED, finish_reason=ENDED_UNCLOSED)
    return job


def is_being_sent(record: Job, job: Job, *, now: datetime) -> bool:
    """Tell whether a job looks lost only because it was recorded a moment ago and is still on its way. Pure."""
    has_left_nothing = job.state is JobState.LOST and job.pages is None and job.started_at is None
    is_young = record.scheduled_at is not None and now - record.scheduled_at < SENDING
    return has_left_nothing and record.state is JobState.PENDING and is_young


def _rows(listed: Outcomes[tuple[ListedJob, ...]]) -> dict[JobId, Job]:
    """Give each id its row; where others have given one id to several jobs, the one that is alive."""
    every = [row.job for outcome in listed for row in outcome.value or ()]
    return {
        job.id: job for job in sorted(every, key=lambda job: (not job.state.is_final, job.state is JobState.RUNNING))
    }


def _laid_over(record: Job, row: Job) -> Job:
    return replace(record, state=row.state, node=row.node)
