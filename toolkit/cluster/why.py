"""Why a job waits, where it runs, or how it ended: pure decisions on what was just read, and the thin reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from toolkit.cluster.files import read_log
from toolkit.cluster.job_log import JobLogs
from toolkit.cluster.membership import plug_in_error, registered
from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.queue import Cap, Line, unfit
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import Store
from toolkit.store.interfaces_queue import JobQueue

LOG_LINES = 20
LOG_PATIENCE_S = 5.0
LONG_S = 120
"""From here on a span is told in hours, minutes and seconds."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Whether one node could take a pending job now; `reason` says why not, or what goes before."""

    node: NodeName
    could: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What was read about a pending job: its place, the nodes, and the caps that are used up, in words."""

    position: int | None
    nodes: Sequence[NodeRecord]
    full_caps: Sequence[str] = ()
    full_caps_on: Mapping[NodeName, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One job and why it is as it is: `summary` in a sentence, then what stands behind it.

    `position` counts the jobs before a pending one, `nodes` holds a verdict each for it; `log` are the last lines of a
    job that failed or was lost, and `log_error` says why they could not be read.
    """

    job: Job
    summary: str
    details: tuple[str, ...] = ()
    position: int | None = None
    nodes: tuple[NodeVerdict, ...] = ()
    log: tuple[str, ...] = ()
    log_error: str | None = None


def why(store: Store, job: Job, nodes: Nodes | None = None) -> Explanation:
    """Explain a job that was just looked up; `nodes` are those whose logs may be read."""
    now = store.now()
    if job.state is JobState.PENDING and job.is_queued and store.shared is not None:
        return explain_pending(job, _read_waiting(store.shared.queue, job, registered(store)), now=now)
    if not job.state.is_final:
        own = [record for record in registered(store) if record.name == job.node] if job.is_queued else []
        return explain_active(job, own[0] if own else None, now=now)
    has_log = job.state in {JobState.FAILED, JobState.LOST}
    log, error = log_end(nodes, job, lambda: store) if has_log else ((), None)
    return explain_ended(job, log=log, log_error=error)


def explain_pending(job: Job, waiting: Waiting, *, now: datetime) -> Explanation:
    """Say why a queued job waits, node by node. Pure."""
    verdicts = [judge_node(job, record, waiting.full_caps_on.get(record.name)) for record in waiting.nodes]
    could = {verdict.node for verdict in verdicts if verdict.could}
    rooms = {
        record.name: record.report.running / record.report.slots for record in waiting.nodes if record.name in could
    }
    freest = min(rooms, key=lambda name: (rooms[name], name)) if rooms else None
    verdicts = [
        NodeVerdict(each.node, could=True, reason=f"leaves it to {freest} first, which has more room")
        if each.could and freest is not None and rooms[each.node] > rooms[freest]
        else each
        for each in verdicts
    ]
    return Explanation(
        job,
        _why_pending(job, waiting, len(could), now=now),
        details=_history(job),
        position=waiting.position,
        nodes=tuple(sorted(verdicts, key=lambda verdict: (not verdict.could, verdict.node))),
    )


def judge_node(job: Job, record: NodeRecord, full_cap: str | None = None) -> NodeVerdict:
    """Say whether this node could take the job now; what lasts longest is told first. Pure."""
    return NodeVerdict(record.name, could=(reason := _refusal(job, record, full_cap)) is None, reason=reason)


def explain_active(job: Job, record: NodeRecord | None = None, *, now: datetime) -> Explanation:
    """Say where a job is and since when. Pure; `record` is its node's, where that is a plug-in node."""
    where = f"on {job.node}" if job.node else "on a node that is not known"
    since = f", since {_moment(job.started_at)}" if job.started_at else ""
    summary = f"it is {job.state.value} {where}{since}"
    if job.state is JobState.PENDING:
        summary = f"it waits in the own queue of {job.node}, a stock node, for a free slot there"
    elif job.state is JobState.PAUSED:
        summary = f"it is paused {where}: crawlctl jobs resume {job.id} lets it go on"
    details = list(_history(job))
    if job.cancel_requested_at is not None:
        details.append(f"it was asked to end {_span(job.cancel_requested_at, now)} ago")
    if record is not None and record.state in {NodeState.STALE, NodeState.LOST}:
        details.append(
            f"{record.name} is {record.state.value}: its last sign of life is {record.age_s:.0f} s old, and after "
            f"{record.report.lease_s:g} s the job is taken from it"
        )
    return Explanation(job, summary, tuple(details))


def explain_ended(job: Job, *, log: Sequence[str] = (), log_error: str | None = None) -> Explanation:
    """Say how a job ended. Pure."""
    cause = job.reason or job.finish_reason
    ended = f" at {_moment(job.ended_at)}" if job.ended_at else ""
    where = f" on {job.node}" if job.node else ""
    told = (
        ("exit code", job.exit_code),
        ("signal", job.signal),
        ("finish reason", job.finish_reason if job.finish_reason != cause else None),
        ("errors logged", job.errors or None),
    )
    details = [f"{name} {value}" for name, value in told if value is not None]
    return Explanation(
        job,
        f"it {_ENDED[job.state]}{where}{ended}{f': {cause}' if cause else ''}",
        (*details, *_history(job)),
        log=tuple(log),
        log_error=log_error,
    )


def log_end(
    nodes: Nodes | None, job: Job, open_store: Callable[[], Store], *, lines: int = LOG_LINES
) -> tuple[tuple[str, ...], str | None]:
    """Return the last lines of the job's log, and why there are none if so.

    Its node is asked whichever way leads there; where none does, what it has shipped is read.
    """
    if nodes is None or job.node is None:
        return (), f"its node {job.node or '(none)'} is not in the inventory"
    try:
        there = JobLogs(nodes, open_store, patience_s=LOG_PATIENCE_S).files(job)
        content = b"".join(read_log(there, job, last_lines=lines))
    except CrawlctlError as error:
        return (), error.message
    return tuple(content.decode("utf-8", "replace").splitlines()), None


_ENDED = {
    JobState.FINISHED: "finished",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
    JobState.LOST: "was lost",
}


def _refusal(job: Job, record: NodeRecord, full_cap: str | None) -> str | None:
    report = record.report
    if record.state in {NodeState.LOST, NodeState.STALE}:
        return f"is {record.state.value}: its last sign of life is {record.age_s:.0f} s old"
    if refusal := unfit(_line(job), node=record.name, versions=report.versions):
        why_behind = report.behind.get(f"{job.project} {job.version}")
        return f"{refusal}: {why_behind}" if why_behind else refusal
    if record.is_draining:
        return f"takes no new job: drained by {record.drained_by or 'somebody'}"
    if wrong := plug_in_error(record):
        return wrong
    if report.running >= report.slots:
        return f"has no free slot: {report.running} of {report.slots} are taken"
    return full_cap


def _why_pending(job: Job, waiting: Waiting, could: int, *, now: datetime) -> str:
    if job.is_held:
        return f"it is held: crawlctl jobs release {job.id} lets it go"
    if job.due_at is not None and job.due_at > now:
        return f"it is due at {_moment(job.due_at)}, in {_span(now, job.due_at)}"
    if waiting.full_caps:
        return f"it waits for {' and '.join(waiting.full_caps)}"
    if not waiting.nodes:
        return "it waits for a node: no plug-in node is registered"
    ahead = f"; {waiting.position} job(s) go before it" if waiting.position else ""
    if could:
        return f"{could} node(s) could take it now{ahead}"
    return f"it waits: none of the {len(waiting.nodes)} node(s) can take it now{ahead}"


def _history(job: Job) -> tuple[str, ...]:
    """Tell of attempts only where there was more than one."""
    if not job.attempt or (job.attempt == 1 and job.state is not JobState.PENDING):
        return ()
    begun = f"it was begun {job.attempt} time(s) of {job.attempts or '?'}"
    return (f"{begun}; {job.reason}" if job.reason and job.state is JobState.PENDING else begun,)


def _line(job: Job) -> Line:
    on = None if job.on is None else frozenset(job.on)
    return Line(job.project, VersionName(job.version or ""), job.spider, on=on)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _span(begin: datetime, end: datetime) -> str:
    seconds = max(0, round((end - begin).total_seconds()))
    return f"{seconds} s" if seconds < LONG_S else str(timedelta(seconds=seconds))


def _read_waiting(queue: JobQueue, job: Job, records: Sequence[NodeRecord]) -> Waiting:
    caps = [cap for cap in queue.caps() if cap.project == job.project and cap.spider in {None, job.spider}]
    full = [
        _used_up(cap, "in the cluster", cap.cluster)
        for cap in caps
        if cap.cluster is not None and queue.busy(cap.project, cap.spider) >= cap.cluster
    ]
    full_on = {
        record.name: _used_up(cap, "here", cap.per_node)
        for cap in caps
        if cap.per_node is not None
        for record in records
        if queue.busy(cap.project, cap.spider, record.name) >= cap.per_node
    }
    return Waiting(queue.position(job.id), records, full, full_on)


def _used_up(cap: Cap, where: str, most: int | None) -> str:
    what = f"spider {cap.spider}" if cap.spider else f"project {cap.project}"
    return f"the cap of {what}: {most} job(s) at once {where}"
