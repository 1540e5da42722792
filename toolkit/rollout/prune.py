"""Prune: take old releases off the nodes, never the active one, never one that runs or waits to run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from toolkit.cluster.membership import registered, split
from toolkit.cluster.nodes import Nodes, require_any
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import NotFoundError, RefusedError
from toolkit.model.jobs import Job
from toolkit.model.names import ProjectName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.outcomes import Outcomes
from toolkit.model.releases import Pruned, Release
from toolkit.rollout.lock import holding_lock
from toolkit.rollout.plugged import end_offers
from toolkit.rollout.unfinished import clear_the_way
from toolkit.store.interfaces import Store


def choose(
    releases: Sequence[Release], *, keep: int, active: VersionName | None, in_use: Collection[VersionName]
) -> tuple[list[VersionName], list[VersionName]]:
    """Split the releases, newest first, into those to remove and those to keep. Pure."""
    removed: list[VersionName] = []
    kept: list[VersionName] = []
    for place, release in enumerate(releases):
        is_needed = place < keep or release.version == active or release.version in in_use
        (kept if is_needed else removed).append(release.version)
    return removed, kept


def prune(
    nodes: Nodes,
    store: Store,
    project: ProjectName,
    *,
    keep: int,
    takes_strays: bool = False,
    is_dry_run: bool = False,
    steal: bool = False,
) -> Pruned:
    """Keep the `keep` newest releases, the active one and those in use; remove the others from nodes and history.

    With `takes_strays`, versions on the nodes that no release knows go too: what a killed deploy left there, and what
    something else brought. A release that some node could not be rid of stays known, so that the next prune takes it
    up again. A plug-in node is asked only where it says that it holds something that is to go; one that the inventory
    does not list keeps that, unused.

    Raises:
        NotFoundError: nothing is known of the project.
        RefusedError: a job of the project runs whose version nobody recorded: it might be any.
        LockHeldError: a rollout of the project is under way; or `RefusedError`, it is held, or was left.

    """
    with holding_lock(store.releases, project, why=f"prune to {keep}", steal=steal) as held:
        clear_the_way(store, project, held.lock, steal=steal, doing="the prune")
        releases = store.releases.releases(project)
        if not releases and not takes_strays:
            raise NotFoundError(f"no release of {project!r} is known", hint="crawlctl releases shows what is")
        active = store.releases.active(project)
        records = registered(store)
        _, stock = split(nodes, records)
        in_use = _versions_in_use(stock, store, project)
        removed, kept = choose(releases, keep=keep, active=active.version if active else None, in_use=in_use)
        known = len(removed)
        if takes_strays:
            there = _strays(stock, project) | _reported(records, project)
            removed += sorted(there - {release.version for release in releases} - in_use)
        if is_dry_run or not removed:
            return Pruned(project, tuple(removed), tuple(kept), ())
        if store.shared is not None:
            end_offers(store.shared.eggs, project)
        holding = {record.name for record in records if _reported([record], project) & set(removed)}
        concerned = nodes.only({*stock.names, *holding})
        done = concerned.ask(lambda node: _remove(node, project, removed), calls=len(removed) + 1)
        if not done.failed:
            for version in removed[:known]:
                store.releases.forget(project, version, held.lock)
            if store.shared is not None:
                store.shared.eggs.drop_unused()
    errors = tuple((outcome.node, str(outcome.error)) for outcome in done.failed)
    return Pruned(project, tuple(removed), tuple(kept), errors)


def _strays(nodes: Nodes, project: ProjectName) -> set[VersionName]:
    found = nodes.ask(lambda node: node.versions(project))
    return {version for versions in found.values.values() for version in versions}


def _reported(records: Sequence[NodeRecord], project: ProjectName) -> set[VersionName]:
    return {version for record in records for version in record.report.versions.get(project, ())}


def _remove(node: ScrapydNode, project: ProjectName, versions: Sequence[VersionName]) -> None:
    there = set(node.versions(project))
    for version in versions:
        if version in there:
            node.remove(project, version)
    if left := set(versions) & set(node.versions(project)):
        raise RefusedError(f"{node.name} still lists {', '.join(sorted(left))} after the removal")


def _versions_in_use(nodes: Nodes, store: Store, project: ProjectName) -> set[VersionName]:
    listed: Outcomes[list[Job]] = nodes.ask(
        lambda node: [row.job for row in node.jobs() if row.job.project == project and not row.job.state.is_final]
    )
    require_any(listed, f"pruning {project}")
    jobs = [job for found in listed.values.values() for job in found]
    records = store.jobs.get_many([job.id for job in jobs])
    versions: set[VersionName] = {
        job.version for job in store.jobs.unfinished() if job.project == project and job.version
    }
    for job in jobs:
        version = job.version or (records[job.id].version if job.id in records else None)
        if version is None:
            raise RefusedError(
                f"{job.id} runs on {job.node}, and nobody recorded with which version of {project}",
                hint="wait until it has ended, or cancel it",
            )
        versions.add(version)
    return versions
