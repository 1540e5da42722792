"""The jobs of the cluster: what was recorded, what the nodes say now, and what the logs tell, made into one list.

Of a job of the shared queue the record is the whole truth: no node is asked about it, and nothing here writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from toolkit.cluster.joblog import TAIL_BYTES, LogFacts, read_log, to_utc
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ListedJob, ScrapydNode
from toolkit.cluster.verdict import GONE, is_being_sent, judge, merge
from toolkit.model.errors import NodeError, NotFoundError, StoreUnreachableError, UsageError
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.outcomes import Outcomes
from toolkit.store.interfaces import JobStore

DEFAULT_LIMIT = 50


@dataclass(frozen=True, slots=True)
class JobList:
    """The jobs asked for, newest first, and the nodes that could not be asked; `note` says what else it may lack."""

    jobs: tuple[Job, ...]
    unseen: Mapping[NodeName, str]
    note: StoreUnreachableError | None = None


def list_jobs(
    nodes: Nodes,
    records: JobStore,
    wanted: JobFilter,
    *,
    now: datetime,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
) -> JobList:
    """Return the newest jobs that pass the filter, without the first `offset`, up to date with nodes and logs.

    What a node that does not answer runs is shown as it was last known: each new state is written back to the records.
    The nodes given are asked; plug-in nodes need not be among them.
    """
    end = offset + limit
    if not len(nodes):
        return JobList(tuple(records.recent(wanted, limit=limit, offset=offset)), {})
    # The records are read before the nodes: a job that is scheduled in between would else look as if it were lost.
    known = {job.id: job for job in records.unfinished()}
    # A state is judged after the update, so the records are asked without it and the filter is put on at the end.
    known |= {job.id: job for job in records.recent(replace(wanted, states=frozenset()), limit=end)}
    if wanted.states:
        known |= {job.id: job for job in records.recent(wanted, limit=end)}
    listed = nodes.ask(ScrapydNode.jobs)
    known |= _records_of(records, listed, known)
    merged = merge(known, listed)
    times = _local_times(listed)
    candidates = sorted(merged.values(), key=lambda job: _age_key(job, times.get(job.id)), reverse=True)
    candidates = [job for job in candidates if _may_pass(job, wanted)]
    fresh = _up_to_date(nodes, records, candidates[: max(end, DEFAULT_LIMIT)], known, listed, now=now)
    shown = [job for job in fresh if wanted.admits(job)][offset:end]
    return JobList(tuple(shown), {o.node: str(o.error) for o in listed.failed})


def _may_pass(job: Job, wanted: JobFilter) -> bool:
    """Tell whether a job could pass once its log is read; what the record knows for good is not waited for."""
    is_settled = job.is_queued or (job.state.is_final and not _needs_log(job))
    return (wanted if is_settled else replace(wanted, states=frozenset())).admits(job)


def find_job(nodes: Nodes, records: JobStore, prefix: str, *, now: datetime) -> Job:
    """Return the one job whose id is, or begins with, the text; up to date.

    A job that is recorded under just this id is asked for on its own node alone, one of the shared queue on none.

    Raises:
        NotFoundError: neither the records nor any reachable node know such a job.
        UsageError: several ids begin so; they are named.

    """
    exact = records.get(JobId(prefix))
    if exact is not None and exact.is_queued:
        return exact
    found = {exact.id: exact} if exact else {job.id: job for job in records.matching(prefix)}
    asked = nodes.only([exact.node]) if exact and exact.node and exact.node in nodes else nodes
    listed = asked.ask(ScrapydNode.jobs)
    if exact is None:
        rows = [row for outcome in listed for row in outcome.value or () if row.job.id.startswith(prefix)]
        found = {row.job.id: row.job for row in rows} | found
    if not found:
        away = [f"{outcome.node} could not be asked" for outcome in listed.failed]
        raise NotFoundError(
            f"no job's id begins with {prefix!r}" + (f", as far as is known: {', '.join(away)}" if away else ""),
            hint="crawlctl jobs list shows the ids",
        )
    if len(found) > 1:
        some = ", ".join(sorted(found)[:5])
        raise UsageError(f"{len(found)} jobs' ids begin with {prefix!r}: {some}", hint="type more of the id")
    job = merge(found, listed)[next(iter(found))]
    return _up_to_date(nodes, records, [job], found, listed, now=now)[0]


def refresh(nodes: Nodes, records: JobStore, jobs: Sequence[Job], *, now: datetime) -> list[Job]:
    """Bring known jobs up to date: the queue's from their records, the others with their own nodes and logs."""
    read = records.get_many([job.id for job in jobs if job.is_queued])
    jobs = [read.get(job.id, job) for job in jobs]
    alive = nodes.only({job.node for job in jobs if job.node and not (job.is_queued or job.state.is_final)})
    listed = alive.ask(ScrapydNode.jobs)
    known = {job.id: job for job in jobs}
    merged = merge(known, listed)
    return _up_to_date(nodes, records, [merged[job.id] for job in jobs], known, listed, now=now)


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
    done = nodes.only(to_read).ask(
        lambda node: {job.id: _facts(node, job) for job in to_read[node.name]}, calls=2 * most
    )
    facts = {job_id: found for outcome in done for job_id, found in (outcome.value or {}).items()}
    return [_told(job, facts[job.id], (times or {}).get(job.id)) if job.id in facts else job for job in jobs]


def _up_to_date(
    nodes: Nodes,
    records: JobStore,
    jobs: Sequence[Job],
    known: Mapping[JobId, Job],
    listed: Outcomes[tuple[ListedJob, ...]],
    *,
    now: datetime,
) -> list[Job]:
    """Add what the logs tell, and write back each new state; somebody else's job has no record and gets none.

    Counts of a running job are not worth a write: they are read anew while its node answers.
    """
    moved = [job.id for job in jobs if job.state is not known.get(job.id, job).state]
    # Read anew, and after the nodes: only the record tells that somebody cancelled a job meanwhile.
    latest = records.get_many(moved) if moved else {}
    jobs = [_as_recorded(job, latest.get(job.id)) for job in jobs]
    told = update_from_logs(nodes, jobs, times=_local_times(listed))
    fresh = [
        record if (record := known.get(job.id)) is not None and is_being_sent(record, job, now=now) else job
        for job in told
    ]
    changed = [job for job in fresh if known.get(job.id, job) != job]
    records.update([job for job in changed if job.state.is_final or job.state is not known[job.id].state])
    return fresh


def _as_recorded(job: Job, record: Job | None) -> Job:
    if record is None:
        return job
    return record if record.state.is_final else replace(job, cancel_requested_at=record.cancel_requested_at)


def _facts(node: ScrapydNode, job: Job) -> LogFacts | None:
    """Read a log's end, and its begin where the end alone may be all the spider's own words."""
    try:
        head = node.log(job, most=TAIL_BYTES)
        if head is None:
            return None
        tail = node.log(job, begin=head.size - TAIL_BYTES, most=TAIL_BYTES) if head.size > TAIL_BYTES else None
    except NodeError:
        return None
    begin = read_log(head.content.decode("utf-8", "replace"), written_at=head.written_at)
    if tail is None:
        return begin
    # It begins in the middle of a line.
    text = tail.content.decode("utf-8", "replace").partition("\n")[2]
    end = read_log(text, written_at=tail.written_at)
    return replace(end, breaks_off=end.finish_reason is None and (begin.breaks_off or end.breaks_off))


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
    if job.is_queued:
        return False
    if job.state in {JobState.FINISHED, JobState.LOST}:
        return job.finish_reason is None or job.finish_reason == GONE
    return job.state is JobState.RUNNING


def _records_of(
    records: JobStore, listed: Outcomes[tuple[ListedJob, ...]], known: Mapping[JobId, Job]
) -> dict[JobId, Job]:
    """Fetch the records of listed jobs that are older than those already known."""
    rows = (row for outcome in listed for row in outcome.value or ())
    return dict(records.get_many([row.job.id for row in rows if row.job.id not in known]))


def _local_times(listed: Outcomes[tuple[ListedJob, ...]]) -> dict[JobId, tuple[str | None, str | None]]:
    return {row.job.id: (row.local_start, row.local_end) for outcome in listed for row in outcome.value or ()}


def _age_key(job: Job, local: tuple[str | None, str | None] | None) -> tuple[datetime, str]:
    """Sort by the first known moment; a job of somebody else's is placed by its node's own clock."""
    at = job.scheduled_at or job.started_at or job.ended_at
    if at is None and local is not None and local[0] is not None:
        at = datetime.fromisoformat(local[0]).replace(tzinfo=UTC)
    return (at or _LONG_AGO, job.id)


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
