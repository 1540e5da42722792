"""A wave's smoke job: a spider of the new version runs on one node of the wave, and must come to a good end there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from toolkit.cluster.enqueue import enqueue
from toolkit.cluster.everywhere import cancel_everywhere
from toolkit.cluster.jobs import refresh
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.schedule import schedule
from toolkit.model.errors import CrawlctlError, UsageError
from toolkit.model.jobs import MAX_PRIORITY, Job
from toolkit.model.names import JobId, SpiderName
from toolkit.model.orders import Order, new_job_id
from toolkit.model.releases import NodeResult, Release
from toolkit.model.rollouts import Smoke, SmokeCheck
from toolkit.model.snapshot import NodeState
from toolkit.rollout.gate import smoke_failure
from toolkit.rollout.lock import operator
from toolkit.rollout.targets import Target
from toolkit.store.interfaces import Store

LOOK_EVERY_S = 0.2
CANCEL_GRACE_S = 5.0


def check_spider(spider: str, spiders: Sequence[SpiderName]) -> SpiderName:
    """Return the spider's name.

    Raises:
        UsageError: the release has no such spider.

    """
    if spider not in spiders:
        hint = f"it has {', '.join(sorted(spiders))}" if spiders else None
        raise UsageError(f"the release has no spider {spider!r} to check it with", hint=hint)
    return SpiderName(spider)


def choose_prover(results: Sequence[NodeResult], targets: Sequence[Target]) -> Target | None:
    """Choose the node for the smoke job: one that took the release, a live plug-in one with the most room first. Pure.

    A node that drains takes no job, so it is chosen only where every other one does not have the release.
    """
    by_name = {target.name: target for target in targets}
    proven = [by_name[each.node] for each in results if each.is_proven and each.node in by_name]
    return min(proven, key=_how_busy, default=None)


def run_smoke(
    nodes: Nodes,
    store: Store,
    release: Release,
    check: SmokeCheck,
    target: Target,
    *,
    on_begin: Callable[[Job], None],
    on_look: Callable[[Job], None],
) -> Smoke:
    """Run the check on one node and tell how it ended; a job that takes too long is cancelled, so is one at Ctrl-C.

    `on_begin` hears of the job as soon as there is one.

    Raises:
        StoreUnreachableError: the store went away.

    """
    try:
        job = _started(nodes, store, release, check, target)
    except CrawlctlError as error:
        return Smoke(target.name, new_job_id(), error=f"the job could not be started: {error.message}")
    try:
        on_begin(job)
        job = _ended(nodes, store, job, timeout_s=check.timeout_s, on_look=on_look)
    except KeyboardInterrupt:
        cancel_everywhere(nodes, lambda: store, [job], grace_s=CANCEL_GRACE_S)
        raise
    if not job.state.is_final:
        cancel_everywhere(nodes, lambda: store, [job], grace_s=CANCEL_GRACE_S)
        why = f"the job {job.id} of {check.spider} was {job.state.value} after {check.timeout_s:g} s, and was cancelled"
        return Smoke(target.name, job.id, job.items, job.finish_reason, why)
    return Smoke(target.name, job.id, job.items, job.finish_reason, smoke_failure(job, check))


def cancel_checks(nodes: Nodes, store: Store, jobs: Sequence[JobId]) -> None:
    """Cancel smoke jobs of which only the ids are known; those that ended meanwhile stay as they are."""
    known = list(store.jobs.get_many(jobs).values())
    running = [job for job in refresh(nodes, store.jobs, known, now=store.now()) if not job.state.is_final]
    if running:
        cancel_everywhere(nodes, lambda: store, running, grace_s=CANCEL_GRACE_S)


def _started(nodes: Nodes, store: Store, release: Release, check: SmokeCheck, target: Target) -> Job:
    order = Order(release.project, check.spider, release.version, priority=MAX_PRIORITY, attempts=1)
    if target.record is not None:
        return enqueue(store, [order], on=[target.name], now=store.now(), who=operator())[0]
    (placed,) = schedule(nodes.only([target.name]), store.jobs, order, now=store.now())
    if placed.error is not None:
        raise placed.error
    return placed.job


def _ended(nodes: Nodes, store: Store, job: Job, *, timeout_s: float, on_look: Callable[[Job], None]) -> Job:
    """Return the job once it has ended, or as it is when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        (job,) = refresh(nodes, store.jobs, [job], now=store.now())
        on_look(job)
        if job.state.is_final or time.monotonic() >= deadline:
            return job
        time.sleep(LOOK_EVERY_S)


def _how_busy(target: Target) -> tuple[int, float]:
    record = target.record
    if record is None:
        return (1, 0.0)
    is_taker = record.state in {NodeState.LIVE, NodeState.STALE} and record.report.unfit is None
    load = record.report.running / max(1, record.report.slots)
    return (0 if is_taker else 2, load)
