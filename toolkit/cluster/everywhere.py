"""The jobs of a cluster that may mix plug-in and stock nodes: found, listed, cancelled, waited for; also without Redis.

What the queue knows is read from the store alone; stock nodes are asked by HTTP. While the store is away all nodes are
asked by HTTP, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit.cluster import without_store
from toolkit.cluster.cancel import Cancelled, cancel
from toolkit.cluster.cancel_queued import cancel_queued
from toolkit.cluster.jobs import DEFAULT_LIMIT, JobList, find_job, list_jobs
from toolkit.cluster.membership import registered, split
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.waiting import OnAway, wait_for
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import Job, JobFilter
from toolkit.store.interfaces import Store

OpenStore = Callable[[], Store]


@dataclass(frozen=True, slots=True)
class Found:
    """The one job that was meant; `note` says that the store is away, so that this is one node's word only."""

    job: Job
    note: StoreUnreachableError | None = None


def list_everywhere(
    nodes: Nodes, open_store: OpenStore, wanted: JobFilter, *, limit: int = DEFAULT_LIMIT, offset: int = 0
) -> JobList:
    """Return the newest jobs that pass the filter, without the first `offset`.

    With the store away it is what the nodes themselves list now, and the list's `note` says so.
    """
    try:
        store = open_store()
        _, stock = split(nodes, registered(store))
        return list_jobs(stock, store.jobs, wanted, now=store.now(), limit=limit, offset=offset)
    except StoreUnreachableError as away:
        return without_store.list_jobs(nodes, wanted, limit=limit, offset=offset, away=away)


def find_everywhere(nodes: Nodes, open_store: OpenStore, prefix: str) -> Found:
    """Return the one job whose id is, or begins with, the text; up to date.

    Raises:
        NotFoundError: neither the records nor any node that answers know such a job.
        UsageError: several ids begin so; they are named.

    """
    try:
        store = open_store()
        # A job that was sent to a node before it had the plug-in is asked for there, so no node is left out by name.
        known = store.jobs.matching(prefix, limit=2)
        _, stock = split(nodes, registered(store) if all(job.is_queued for job in known) else ())
        return Found(find_job(stock, store.jobs, prefix, now=store.now()))
    except StoreUnreachableError as away:
        return Found(without_store.find_job(nodes, prefix, away=away), without_store.note(away))


def cancel_everywhere(
    nodes: Nodes,
    open_store: OpenStore,
    jobs: Sequence[Job],
    *,
    grace_s: float,
    on_unkept: Callable[[], object] = lambda: None,
) -> list[Cancelled]:
    """Cancel jobs wherever they are and return what became of each, in their order.

    Queued ones are cancelled through the store, those of stock nodes by HTTP. While the store is away all of it is
    done by HTTP, where the node of a job can be reached, and is as true: a node must have seen the process end.
    `on_unkept` is called if the store has the cancels but no replica of it does yet.
    """
    try:
        store = open_store()
        shared = store.shared
        queued = [job for job in jobs if job.is_queued] if shared is not None else []
        done = (
            cancel_queued(shared, store.jobs, queued, grace_s=grace_s, on_unkept=on_unkept)
            if shared is not None
            else []
        )
        direct = [job for job in jobs if not (job.is_queued and shared is not None)]
        done += cancel(nodes, store.jobs, direct, grace_s=grace_s, now=store.now()) if direct else []
    except StoreUnreachableError:
        return without_store.cancel(nodes, jobs, grace_s=grace_s, now=datetime.now(UTC))
    by_id = {each.job.id: each for each in done}
    return [by_id[job.id] for job in jobs]


def wait_everywhere(
    nodes: Nodes,
    store: Store,
    jobs: Sequence[Job],
    *,
    on_change: Callable[[Sequence[Job]], None],
    on_away: OnAway | None = None,
) -> list[Job]:
    """Return the jobs once all of them have ended; `on_change` hears of every look at them, `on_away` of a store away.

    Raises:
        StoreUnreachableError: the store stayed away for ten minutes, or is away and there is no `on_away`.

    """
    return wait_for(nodes, store.jobs, jobs, clock=store.now, on_change=on_change, on_away=on_away)
