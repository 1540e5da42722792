"""The jobs of the cluster: what was recorded, what the nodes say now, and what the logs tell, made into one list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from toolkit.cluster.joblog import TAIL_BYTES, LogFacts, read_log, to_utc
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ListedJob, ScrapydNode
from toolkit.model.errors import NodeError, NotFoundError, UsageError
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.outcomes import Outcomes
from toolkit.store.interfaces import JobStore

DEFAULT_LIMIT = 50
FAILURE_REASONS = frozenset({"memusage_exceeded", "closespider_errorcount"})
CANCEL_REASONS = frozenset({"shutdown", "cancelled"})
ENDED_UNCLOSED = "ended without closing the spider"
GONE = "its node knows nothing of it any more"


@dataclass(frozen=True, slots=True)
class JobList:
    """The jobs asked for, newest first, and the nodes that could not be asked."""

    jobs: tuple[Job, ...]
    unseen: Mapping[NodeName, str]


def list_jobs(nodes: Nodes, records: JobStore, wanted: JobFilter, *, limit: int = DEFAULT_LIMIT) -> JobList:
    """Return the newest jobs that pass the filter, brought up to date with their nodes and logs.

    What a node that does not answer runs is shown as it was last known. Final states are written back to the records.
    """
    listed = nodes.ask(ScrapydNode.jobs)
    known = {job.id: job for job in records.unfinished()}
    # A state is judged after the update, so the records are asked without it and the filter is put on at the end.
    known |= {job.id: job for job in records.recent(replace(wanted, states=frozenset()), limit=limit)}
    known |= _records_of(records, listed, known)
    merged = merge(known, listed)
    times = _local_times(listed)
    candidates = sorted(merged.values(), key=lambda job: _age_key(job, times.get(job.id)), reverse=True)
    candidates = [job for job in candidates if replace(wanted, states=frozenset()).admits(job)]
    fresh = update_from_logs(nodes, candidates[: max(limit, DEFAULT_LIMIT)], times=times)
    _remember(records, known, fresh)
    shown = [job for job in fresh if wanted.admits(job)][:limit]
    return JobList(tuple(shown), {o.node: str(o.error) for o in listed.failed})


def find_job(nodes: Nodes, records: JobStore, prefix: str) -> Job:
    """Return the one job whose id is, or begins with, the text; up to date.

    Raises:
        NotFoundError: neither the records nor any reachable node know such a job.
        UsageError: several ids begin so; they are named.

    """
    exact = records.get(JobId(prefix))
    found = {exact.id: exact} if exact else {job.id: job for job in records.matching(prefix)}
    listed = nodes.ask(ScrapydNode.jobs)
    rows = [row for outcome in listed for row in outcome.value or () if row.job.id.startswith(prefix)]
    if exact is None:
        found = {row.job.id: row.job for row in rows} | found
    if not found:
        raise NotFoundError(f"no job's id begins with {prefix!r}", hint="crawlctl jobs list shows the ids")
    if len(found) > 1:
        some = ", ".join(sorted(found)[:5])
        raise UsageError(f"{len(found)} jobs' ids begin with {prefix!r}: {some}", hint="type more of the id")
    merged = merge(found, listed)
    job = merged[next(iter(found))]
    fresh = update_from_logs(nodes, [job], times=_local_times(listed))
    _remember(records, found, fresh)
    return fresh[0]


def refresh(nodes: Nodes, records: JobStore, jobs: Sequence[Job]) -> list[Job]:
    """Bring known jobs up to date with their nodes and logs; only their own nodes are asked."""
    alive = nodes.only({job.node for job in jobs if job.node and not job.state.is_final})
    listed = alive.ask(ScrapydNode.jobs)
    known = {job.id: job for job in jobs}
    merged = merge(known, listed)
    fresh = update_from_logs(nodes, [merged[job.id] for job in jobs], times=_local_times(listed))
    _remember(records, known, fresh)
    return fresh


def merge(records: Mapping[JobId, Job], listed: Outcomes[tuple[ListedJob, ...]]) -> dict[JobId, Job]:
    """Lay what the nodes say over what was recorded. Pure.

    A job that its node has forgotten, though the node answers, is `lost` until its log says otherwise; a final state
    stays; arguments, version and settings come from the record, since Scrapyd does not tell them of a running job.
    """
    rows = {row.job.id: row.job for outcome in listed for row in outcome.value or ()}
    answering = {outcome.node for outcome in listed if outcome.ok}
    merged: dict[JobId, Job] = {}
    for job_id in rows.keys() | records.keys():
        record, row = records.get(job_id), rows.get(job_id)
        if record is None and row is not None:
            merged[job_id] = row
        elif record is not None and (record.state.is_final or row is not None):
            merged[job_id] = record if record.state.is_final or row is None else _laid_over(record, row)
        elif record is not None:
            is_gone = record.node in answering
            merged[job_id] = replace(record, state=JobState.LOST, finish_reason=GONE) if is_gone else record
    return merged


def judge(job: Job, facts: LogFacts | None) -> Job:
    """Say how a job ended, from its log and whether it was cancelled. Pure.

    Stock Scrapyd calls every ended process `finished`, tells no exit code, and a cancelled spider exits with 0.
    """
    reason = facts.finish_reason if facts else None
    if reason is not None:
        if reason in CANCEL_REASONS or job.cancel_requested_at is not None:
            state = JobState.CANCELLED
        else:
            state = JobState.FAILED if reason in FAILURE_REASONS else JobState.FINISHED
        return replace(job, state=state, finish_reason=reason)
    if job.cancel_requested_at is not None:
        return replace(job, state=JobState.CANCELLED, finish_reason="killed")
    if job.state is JobState.FINISHED and facts is not None and facts.has_progress:
        return replace(job, state=JobState.FAILED, finish_reason=ENDED_UNCLOSED)
    return job


def update_from_logs(
    nodes: Nodes, jobs: Sequence[Job], *, times: Mapping[JobId, tuple[str | None, str | None]] | None = None
) -> list[Job]:
    """Add what the logs tell to jobs that run, or whose end is not recorded yet.

    A log that cannot be read changes nothing.
    """
    to_read: dict[NodeName, list[Job]] = {}
    for job in jobs:
        if job.node in nodes and _needs_log(job):
            to_read.setdefault(NodeName(str(job.node)), []).append(job)
    if not to_read:
        return list(jobs)
    most = max(len(group) for group in to_read.values())
    done = nodes.only(to_read).ask(lambda node: {job.id: _facts(node, job) for job in to_read[node.name]}, calls=most)
    facts = {job_id: found for outcome in done for job_id, found in (outcome.value or {}).items()}
    return [_told(job, facts[job.id], (times or {}).get(job.id)) if job.id in facts else job for job in jobs]


def _facts(node: ScrapydNode, job: Job) -> LogFacts | None:
    try:
        excerpt = node.log_end(job, most=TAIL_BYTES)
    except NodeError:
        return None
    return (
        None if excerpt is None else read_log(excerpt.content.decode("utf-8", "replace"), written_at=excerpt.written_at)
    )


def _told(job: Job, facts: LogFacts | None, times: tuple[str | None, str | None] | None) -> Job:
    if facts is not None:
        local_start, local_end = times or (None, None)
        job = replace(
            job,
            pages=facts.pages if facts.pages is not None else job.pages,
            items=facts.items if facts.items is not None else job.items,
            errors=facts.errors if facts.errors is not None else job.errors,
            started_at=facts.started_at or to_utc(local_start, facts.utc_offset) or job.started_at,
            ended_at=facts.ended_at or to_utc(local_end, facts.utc_offset) or job.ended_at,
        )
    return job if job.state is JobState.RUNNING else judge(job, facts)


def _needs_log(job: Job) -> bool:
    if job.state in {JobState.FINISHED, JobState.LOST}:
        return job.finish_reason is None or job.finish_reason == GONE
    return job.state is JobState.RUNNING


def _laid_over(record: Job, row: Job) -> Job:
    return replace(record, state=row.state, node=row.node)


def _records_of(
    records: JobStore, listed: Outcomes[tuple[ListedJob, ...]], known: Mapping[JobId, Job]
) -> dict[JobId, Job]:
    """Fetch the records of listed jobs that are older than those already known."""
    rows = (row for outcome in listed for row in outcome.value or ())
    return dict(records.get_many([row.job.id for row in rows if row.job.id not in known]))


def _local_times(listed: Outcomes[tuple[ListedJob, ...]]) -> dict[JobId, tuple[str | None, str | None]]:
    return {row.job.id: (row.local_start, row.local_end) for outcome in listed for row in outcome.value or ()}


def _remember(records: JobStore, known: Mapping[JobId, Job], fresh: Iterable[Job]) -> None:
    """Write back what is final now; a job that somebody else scheduled has no record and gets none."""
    records.update([job for job in fresh if job.state.is_final and known.get(job.id, job) != job])


def _age_key(job: Job, local: tuple[str | None, str | None] | None) -> tuple[datetime, str]:
    """Sort by the first known moment; a job of somebody else's is placed by its node's own clock."""
    at = job.scheduled_at or job.started_at or job.ended_at
    if at is None and local is not None and local[0] is not None:
        at = datetime.fromisoformat(local[0]).replace(tzinfo=UTC)
    return (at or _LONG_AGO, job.id)


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
