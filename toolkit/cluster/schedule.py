"""Schedule: put jobs onto the least busy nodes, under ids and versions of our own, never twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from toolkit.cluster.nodes import Nodes, require_any
from toolkit.cluster.placement import spread
from toolkit.cluster.scrapyd import NodeLoad, ScrapydNode
from toolkit.model.errors import (
    ConflictError,
    CrawlctlError,
    NodeAnswerError,
    NodeBrokenError,
    NodeError,
    NodeTimeoutError,
)
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName
from toolkit.model.orders import MAX_WORKERS, RESERVED_ARGUMENTS, Order, check_order, new_job_id
from toolkit.store.interfaces import JobStore

__all__ = ["MAX_WORKERS", "RESERVED_ARGUMENTS", "Order", "Placed", "check_order", "new_job_id", "schedule"]


@dataclass(frozen=True, slots=True)
class Placed:
    """One job and the node that took it; with an `error` no node did, or none is known to have."""

    job: Job
    error: CrawlctlError | None = None


def schedule(nodes: Nodes, records: JobStore, order: Order, *, now: datetime) -> list[Placed]:
    """Start the jobs of an order, each on the node that has the least to do; return where each one went.

    Each job is recorded before it is sent. When a node's answer is lost, the node is asked whether it took the job
    before another is tried; when that cannot be told, no other node is tried: a job is rather reported than doubled.

    Raises:
        UsageError: see `check_order`.
        ConflictError: `job_id` is known already.
        NothingReachableError: none of the nodes answers.

    """
    check_order(order)
    outcomes = nodes.ask(ScrapydNode.load)
    require_any(outcomes, f"scheduling {order.spider}")
    loads = outcomes.values
    jobs = [
        Job(
            id=order.job_id or new_job_id(),
            project=order.project,
            spider=order.spider,
            state=JobState.PENDING,
            version=order.version,
            node=node,
            args=dict(order.args),
            settings=dict(order.settings),
            priority=order.priority,
            scheduled_at=now,
        )
        for node in spread(loads, order.count)
    ]
    if order.job_id is not None:
        _refuse_known(nodes, jobs[0])
    records.add(jobs)
    placed = _place_all(nodes, jobs, loads)
    # Most went where it was recorded that they would go; no failing write shall hide that they run.
    records.update([each.job for each, planned in zip(placed, jobs, strict=True) if each.job != planned])
    return placed


def _refuse_known(nodes: Nodes, job: Job) -> None:
    """Scrapyd runs an id twice when it is given twice, so ask the nodes themselves as well as the records."""
    for outcome in nodes.ask(lambda node: node.state_of(job.id)):
        if outcome.value is not None:
            raise ConflictError(f"the job id {job.id} is known on {outcome.node} already ({outcome.value})")


def _place_all(nodes: Nodes, jobs: Sequence[Job], loads: Mapping[NodeName, NodeLoad]) -> list[Placed]:
    by_rest = sorted(loads, key=lambda name: loads[name].pending + loads[name].running)
    by_node: dict[NodeName, list[Job]] = {}
    for job in jobs:
        by_node.setdefault(_node_of(job), []).append(job)
    refusing: dict[NodeName, NodeError] = {}
    done = nodes.only(by_node).ask(
        lambda node: [_place(nodes, job, by_rest, refusing) for job in by_node[node.name]], calls=len(jobs)
    )
    placed = {each.job.id: each for outcome in done for each in outcome.value or ()}
    overdue = {outcome.node: outcome.error for outcome in done if outcome.error}
    return [placed.get(job.id) or Placed(job, overdue[_node_of(job)]) for job in jobs]


def _place(nodes: Nodes, job: Job, by_rest: Sequence[NodeName], refusing: dict[NodeName, NodeError]) -> Placed:
    """Offer the job to its node, then to the others in turn, as long as the last one surely did not take it.

    The jobs of one order differ by nothing but their ids, so a node that is `refusing` one is not offered another.
    """
    for name in [_node_of(job), *(other for other in by_rest if other != job.node)]:
        if name in refusing:
            continue
        offered = replace(job, node=name)
        try:
            nodes[name].start(offered)
        except (NodeTimeoutError, NodeAnswerError, NodeBrokenError) as unclear:
            return Placed(offered, None if _has_it(nodes[name], offered) else unclear)
        except NodeError as refused:
            refusing[name] = refused
        else:
            return Placed(offered)
    last = refusing.get(_node_of(job))
    return Placed(replace(job, state=JobState.FAILED, finish_reason="no node took it"), last)


def _has_it(node: ScrapydNode, job: Job) -> bool:
    try:
        return node.state_of(job.id) is not None
    except NodeError:
        return False


def _node_of(job: Job) -> NodeName:
    if job.node is None:
        raise ValueError(f"job {job.id} was not given a node")
    return job.node
