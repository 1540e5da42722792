"""Cancel: ask, insist, force, and say `cancelled` only when the node has seen the process end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from toolkit.cluster.jobs import update_from_logs
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import CrawlctlError, NodeError, NodesFailedError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName
from toolkit.store.interfaces import JobStore

# Scrapy closes in order at the first SIGINT, at once at the second; SIGKILL asks nobody.
GRACEFUL, FORCED, KILLED = "INT", "INT", "KILL"
FORCED_GRACE_S = 5.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Cancelled:
    """One job's cancellation: its state before and after. With an `error` it is not proven to be gone."""

    job: Job
    before: JobState
    after: JobState
    error: CrawlctlError | None = None


def cancel(
    nodes: Nodes,
    records: JobStore,
    jobs: Sequence[Job],
    *,
    grace_s: float,
    now: datetime,
) -> list[Cancelled]:
    """Cancel jobs on all their nodes at once and return what became of each.

    A waiting job is taken out of its node's queue. A running one gets SIGINT, after `grace_s` seconds another, then
    SIGKILL. The wish is recorded before the first signal, since a cancelled spider exits with 0 like a finished one.
    A job that has ended already is left as it is; a lost one is reported, since its process may still be there.
    """
    lost = [_not_proven(job, job.node if job.node in nodes else None) for job in jobs if job.state is JobState.LOST]
    ended = [Cancelled(job, job.state, job.state) for job in jobs if job.state.is_final]
    wanted = [replace(job, cancel_requested_at=now) for job in jobs if not job.state.is_final]
    records.update(wanted)
    by_node: dict[NodeName | None, list[Job]] = {}
    for job in wanted:
        by_node.setdefault(job.node, []).append(job)
    homeless = [_not_proven(job, None) for name, group in by_node.items() if name not in nodes for job in group]

    def on_node(node: ScrapydNode) -> list[Cancelled]:
        return cancel_on(node, by_node[node.name], grace_s=grace_s)

    # A signal and a look for each job, and in each of the three waits one look at all of them may be under way.
    most = max((len(group) for group in by_node.values()), default=0)
    found = nodes.only(name for name in by_node if name is not None).ask(
        on_node, calls=6 * most, waits_s=grace_s + 2 * FORCED_GRACE_S
    )
    done = [each for outcome in found for each in outcome.value or ()]
    failed = [
        Cancelled(job, job.state, job.state, outcome.error) for outcome in found.failed for job in by_node[outcome.node]
    ]
    fresh = {job.id: job for job in update_from_logs(nodes, [each.job for each in done if each.error is None])}
    done = [replace(each, job=fresh.get(each.job.id, each.job)) for each in done]
    records.update(list(fresh.values()))
    everything = {each.job.id: each for each in [*ended, *lost, *homeless, *done, *failed]}
    return [everything[job.id] for job in jobs]


def cancel_on(node: ScrapydNode, jobs: Sequence[Job], *, grace_s: float) -> list[Cancelled]:
    """Cancel one node's jobs side by side: every job has had its signal before the first one is waited for."""
    before: dict[str, JobState | None] = {}
    errors: dict[str, NodeError] = {}
    for job in jobs:
        try:
            before[job.id] = node.signal(job, GRACEFUL)
        except NodeError as error:
            errors[job.id] = error
    waiting = [job for job in jobs if before.get(job.id) is JobState.RUNNING]
    for signal, patience_s in ((None, grace_s), (FORCED, FORCED_GRACE_S), (KILLED, FORCED_GRACE_S)):
        if signal is not None:
            for job in waiting:
                _insist(node, job, signal, errors)
        waiting = _still_there(node, waiting, patience_s)
    alive = {job.id for job in waiting}
    return [_result(node, job, before.get(job.id), errors.get(job.id), is_alive=job.id in alive) for job in jobs]


def _insist(node: ScrapydNode, job: Job, signal: str, errors: dict[str, NodeError]) -> None:
    try:
        node.signal(job, signal)
    except NodeError as error:
        errors[job.id] = error


def _still_there(node: ScrapydNode, jobs: Sequence[Job], patience_s: float) -> list[Job]:
    """Wait until the node has seen the jobs' processes end; return those that are still there after the time."""
    deadline = time.monotonic() + patience_s
    left = list(jobs)
    while left:
        left = [job for job in left if _is_running(node, job)]
        if not left or time.monotonic() >= deadline:
            break
        time.sleep(POLL_S)
    return left


def _is_running(node: ScrapydNode, job: Job) -> bool:
    try:
        return node.state_of(job.id) is not JobState.FINISHED
    except NodeError:
        return True  # not proven to be gone


def _result(
    node: ScrapydNode, job: Job, before: JobState | None, error: NodeError | None, *, is_alive: bool
) -> Cancelled:
    if is_alive:
        why = error or NodesFailedError(f"{job.id} still runs on {node.name}, after SIGKILL")
        return Cancelled(job, JobState.RUNNING, JobState.RUNNING, why)
    if before is None and error is not None:
        return Cancelled(job, job.state, job.state, error)
    if before is None:
        return _settled(node, job)
    # A process that ran leaves a log, from which its end is read like that of any other ended job.
    gone = replace(job, state=JobState.FINISHED if before is JobState.RUNNING else JobState.CANCELLED)
    return Cancelled(gone, before, JobState.CANCELLED)


def _settled(node: ScrapydNode, job: Job) -> Cancelled:
    """Tell apart a job that ended by itself meanwhile from one that its node has forgotten."""
    try:
        state = node.state_of(job.id)
    except NodeError as error:
        return Cancelled(job, job.state, job.state, error)
    if state is JobState.FINISHED:
        ended = replace(job, state=state, cancel_requested_at=None)
        return Cancelled(ended, state, state)
    return _not_proven(job, node.name)


def _not_proven(job: Job, name: NodeName | None) -> Cancelled:
    where = f"{name} knows nothing of it" if name else f"its node {job.node or '(none)'} is not in the inventory"
    why = NodesFailedError(
        f"{job.id} cannot be proven to be gone: {where}",
        hint="a Scrapyd that was restarted forgets its spiders; look for the process on the host",
    )
    return Cancelled(job, job.state, job.state, why)
