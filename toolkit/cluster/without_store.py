"""What can still be seen and done while the shared store is away: every node is asked by HTTP, and is believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.cluster.cancel import FORCED_GRACE_S, Cancelled, cancel_on
from toolkit.cluster.jobs import JobList
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ListedJob, ScrapydNode
from toolkit.cluster.verdict import merge
from toolkit.model.errors import CrawlctlError, NotFoundError, NothingReachableError, StoreUnreachableError, UsageError
from toolkit.model.jobs import Job, JobFilter
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcomes


def note(away: StoreUnreachableError) -> StoreUnreachableError:
    """Say what an answer lacks that came without the store; what helps is what helped the store."""
    text = f"the shared store cannot be asked, so this is what the nodes themselves say now: {away.message}"
    return StoreUnreachableError(text, hint=away.hint)


def list_jobs(nodes: Nodes, wanted: JobFilter, *, limit: int, offset: int, away: StoreUnreachableError) -> JobList:
    """Return the jobs that the nodes list, newest first by their own clocks.

    Raises:
        StoreUnreachableError: no node answers either.

    """
    listed = _listed(nodes, away)
    jobs = [job for job in _by_age(listed) if wanted.admits(job)]
    unseen = {outcome.node: str(outcome.error) for outcome in listed.failed}
    return JobList(tuple(jobs[offset : offset + limit]), unseen, note(away))


def find_job(nodes: Nodes, prefix: str, *, away: StoreUnreachableError) -> Job:
    """Return the one job that the nodes list under the id, or an id that begins so.

    Raises:
        StoreUnreachableError: no node answers either.
        NotFoundError: no node that answers lists such a job.
        UsageError: several ids begin so; they are named.

    """
    found = [job for job in _by_age(_listed(nodes, away)) if job.id.startswith(prefix)]
    exact = [job for job in found if job.id == prefix] or found
    if not exact:
        raise NotFoundError(f"no node lists a job whose id begins with {prefix!r}", hint=note(away).message)
    if len(exact) > 1:
        some = ", ".join(sorted(job.id for job in exact)[:5])
        raise UsageError(f"{len(exact)} jobs' ids begin with {prefix!r}: {some}", hint="type more of the id")
    return exact[0]


def cancel(nodes: Nodes, jobs: Sequence[Job], *, grace_s: float, now: datetime) -> list[Cancelled]:
    """Cancel jobs on their nodes by HTTP, and tell of each whether its node has seen the process end.

    The wish is recorded nowhere: a job that its node gave to another meanwhile is not followed there.
    """
    by_node: dict[NodeName, list[Job]] = {}
    for job in jobs:
        if job.node is not None and job.node in nodes and not job.state.is_final:
            by_node.setdefault(job.node, []).append(replace(job, cancel_requested_at=now))
    most = max((len(group) for group in by_node.values()), default=0)
    asked = nodes.only(by_node).ask(
        lambda node: cancel_on(node, by_node[node.name], grace_s=grace_s),
        calls=6 * most,
        waits_s=grace_s + 2 * FORCED_GRACE_S,
    )
    done = {each.job.id: each for outcome in asked for each in outcome.value or ()}
    failed = {job.id: outcome.error for outcome in asked.failed for job in by_node[outcome.node]}
    return [done.get(job.id) or _untouched(job, failed.get(job.id)) for job in jobs]


def _untouched(job: Job, error: CrawlctlError | None) -> Cancelled:
    """Say of a job that no node was asked about why that is so."""
    if job.state.is_final and error is None:
        return Cancelled(job, job.state, job.state)
    where = f"its node {job.node} is not in the inventory" if job.node else "it has no node yet"
    why = NothingReachableError(f"{job.id} cannot be cancelled while the shared store is away: {where}")
    return Cancelled(job, job.state, job.state, error or why)


def _listed(nodes: Nodes, away: StoreUnreachableError) -> Outcomes[tuple[ListedJob, ...]]:
    listed = nodes.ask(ScrapydNode.jobs)
    if len(listed.failed) == len(listed):
        raise away
    return listed


def _by_age(listed: Outcomes[tuple[ListedJob, ...]]) -> list[Job]:
    """Return each listed job once, pending ones first, then the newest by their nodes' own clocks."""
    starts = {row.job.id: row.local_start for outcome in listed for row in outcome.value or ()}
    jobs = merge({}, listed).values()
    return sorted(jobs, key=lambda job: (starts[job.id] is None, starts[job.id] or "", job.id), reverse=True)
