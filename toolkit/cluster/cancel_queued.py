"""Cancel jobs of the shared queue: ask through the store alone, and believe only what the nodes then record there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from toolkit.cluster.cancel import FORCED_GRACE_S, Cancelled
from toolkit.model.errors import NodesFailedError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.nodes import BEATS_A_LEASE, DEFAULT_LEASE_S, NodeRecord
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import JobStore, Shared

POLL_S = 0.2


def cancel_queued(
    shared: Shared,
    records: JobStore,
    jobs: Sequence[Job],
    *,
    grace_s: float,
    on_unkept: Callable[[], object] = lambda: None,
) -> list[Cancelled]:
    """Cancel queued jobs and return what became of each, in their order. No node is asked by HTTP.

    A pending job is cancelled at once. An active one is ended by its node, which gives it `grace_s` seconds, insists,
    then kills; it is waited for as long as that may take, and a node that is gone until its lease has run out.
    `on_unkept` is called before the wait if no replica of Redis has the cancels yet.
    """
    ids = [job.id for job in jobs]
    before = shared.queue.cancel(ids, grace_s=grace_s, on_unkept=on_unkept) if ids else {}
    waited_for = {job_id for job_id, state in before.items() if state.is_active}
    deadline = time.monotonic() + _patience_s(grace_s, shared.nodes.all() if waited_for else ())
    now = dict(records.get_many(ids))
    while any(_is_alive(now, job_id) for job_id in waited_for) and time.monotonic() < deadline:
        time.sleep(POLL_S)
        now |= records.get_many([job_id for job_id in waited_for if _is_alive(now, job_id)])
    is_proven = all(now[job.id].state is not JobState.LOST for job in jobs if job.id in now)
    is_over = not any(_is_alive(now, job_id) for job_id in waited_for)
    nodes = {} if is_proven and is_over else {record.name: record for record in shared.nodes.all()}
    return [judge_cancel(now.get(job.id, job), before.get(job.id, job.state), nodes) for job in jobs]


def judge_cancel(job: Job, before: JobState, nodes: Mapping[NodeName, NodeRecord]) -> Cancelled:
    """Say what became of a job that was to be cancelled, from its record after the wait. Pure.

    One that ended by itself meanwhile is gone too, and stays what it was. `nodes` explain why one is not proven gone.
    """
    if job.state.is_final and job.state is not JobState.LOST:
        return Cancelled(job, before, job.state)
    return Cancelled(job, before, job.state, _not_proven(job, nodes))


def _not_proven(job: Job, nodes: Mapping[NodeName, NodeRecord]) -> NodesFailedError:
    if job.state is JobState.LOST:
        return NodesFailedError(
            f"{job.id} cannot be proven to be gone: {job.reason or 'it is lost'}",
            hint="its process ends by itself when its node is gone for good; look for it on the host",
        )
    record = None if job.node is None else nodes.get(job.node)
    if record is None:
        where = f"{job.node or 'its node'} is not registered any more"
    elif record.state in {NodeState.LOST, NodeState.STALE}:
        where = f"its node {record.name} is {record.state.value}, its last sign of life {record.age_s:.0f} s old"
    else:
        where = f"it is {job.state.value} on {record.name} after every deadline, which lives"
    return NodesFailedError(
        f"{job.id} is not proven to be gone: {where}",
        hint="the wish is kept: its node ends it as soon as it can; crawlctl jobs show tells when",
    )


def _patience_s(grace_s: float, nodes: Sequence[NodeRecord]) -> float:
    """Bound the wait: the node's own deadlines, one heartbeat to hear of the wish, or a whole lease to be lost."""
    lease_s = max((record.report.lease_s for record in nodes), default=DEFAULT_LEASE_S)
    return grace_s + 2 * FORCED_GRACE_S + lease_s + 2 * lease_s / BEATS_A_LEASE


def _is_alive(now: Mapping[JobId, Job], job_id: JobId) -> bool:
    return job_id in now and not now[job_id].state.is_final
