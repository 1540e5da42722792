"""Rollback: make an earlier release active again, one write, after the nodes have shown that they still hold it."""

from __future__ import annotations

from toolkit.cluster.nodes import Nodes, require_any
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import NotFoundError, RefusedError
from toolkit.model.names import ProjectName, VersionName
from toolkit.model.outcomes import Outcomes
from toolkit.model.releases import DeployResult, NodeResult, Release, Rollout
from toolkit.rollout.lock import holding_lock, operator
from toolkit.rollout.push import HELD
from toolkit.store.interfaces import ReleaseStore, Store

KIND = "rollback"


def rollback(
    nodes: Nodes, store: Store, project: ProjectName, *, to: VersionName | None, steal: bool = False
) -> DeployResult:
    """Make `to`, or the release that was active before the present one, active again.

    Nodes that do not answer are told in the result, and nothing waits for them: a rollback is for a bad day.

    Raises:
        NotFoundError: there is no such release, or none before the present one.
        RefusedError: a node that answers does not hold it, or not with its spiders.
        NothingReachableError: no node answers.
        LockHeldError: a rollout of the project is under way.

    """
    with holding_lock(store.releases, project, why=f"rollback to {to or 'the release before'}", steal=steal) as held:
        release = _target(store.releases, project, to)
        found = nodes.ask(lambda node: _holds(node, release), calls=2)
        require_any(found, f"rolling {project} back")
        if lacking := [name for name, holds in found.values.items() if not holds]:
            raise RefusedError(
                f"{', '.join(lacking)} no longer hold(s) {project} {release.version}",
                hint="deploy that source again: crawlctl deploy --version NAME",
            )
        results = _results(found, len(release.spiders))
        active = store.releases.active(project)
        is_changed = active is None or active.version != release.version
        if is_changed:
            proven = {result.node for result in results if result.ok}
            holders = sorted(proven | store.releases.holders(project, release.version))
            entry = Rollout(project, release.version, KIND, store.now(), operator(), True, results)  # noqa: FBT003 - field
            store.releases.activate(entry, held.lock, held_by=holders)
    return DeployResult(
        project, release.version, release.digest, is_active=True, is_changed=is_changed, results=results
    )


def _target(releases: ReleaseStore, project: ProjectName, to: VersionName | None) -> Release:
    hint = "crawlctl releases shows them"
    if to is None:
        active = releases.active(project)
        earlier = (entry.version for entry in releases.history(project) if entry.activated)
        to = next((version for version in earlier if active and version != active.version), None)
        if to is None:
            raise NotFoundError(f"{project} has no release before the present one", hint=hint)
    release = releases.get(project, to)
    if release is None:
        raise NotFoundError(f"{project} has no release {to}", hint=hint)
    return release


def _holds(node: ScrapydNode, release: Release) -> bool:
    if release.version not in node.versions(release.project):
        return False
    return set(node.spiders(release.project, release.version)) == set(release.spiders)


def _results(found: Outcomes[bool], spiders: int) -> tuple[NodeResult, ...]:
    return tuple(
        NodeResult(
            node=outcome.node,
            ok=outcome.ok,
            step=HELD if outcome.ok else "look",
            seconds=round(outcome.seconds, 3),
            spiders=spiders if outcome.ok else None,
            error=None if outcome.ok else str(outcome.error),
        )
        for outcome in found
    )
