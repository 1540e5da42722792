"""Rollback: make an earlier release active again, one write, after the nodes have shown that they still hold it."""

from __future__ import annotations

from toolkit.cluster.fanout import fan_out
from toolkit.cluster.nodes import Nodes, require_any
from toolkit.model.errors import NotFoundError, NothingReachableError, RefusedError
from toolkit.model.names import ProjectName, VersionName
from toolkit.model.outcomes import Outcomes
from toolkit.model.releases import LATER, ROLLBACK, DeployResult, NodeResult, Release, Rollout
from toolkit.model.snapshot import NodeState
from toolkit.rollout.lock import holding_lock, operator
from toolkit.rollout.push import HELD
from toolkit.rollout.targets import Target, patience_s, stock_node, targets_of
from toolkit.rollout.unfinished import clear_the_way
from toolkit.store.interfaces import ReleaseStore, Store

LACKING = "lacking"
_AWAY = "lost: it installs the release by itself when it is back"


def rollback(
    nodes: Nodes,
    store: Store,
    project: ProjectName,
    *,
    to: VersionName | None,
    steal: bool = False,
    is_whole: bool = False,
    who: str | None = None,
) -> DeployResult:
    """Make `to`, or the release that was active before the present one, active again.

    Nodes that do not answer are told in the result, and nothing waits for them: a rollback is for a bad day. What a
    plug-in node holds is read from its own report; a lost one gets the release when it is back. With `is_whole` the
    nodes are the whole inventory, and registered nodes that it does not list count too. `who` asked for it, where that
    is not the operator of this process.

    Raises:
        NotFoundError: there is no such release, or none before the present one.
        RefusedError: a node that answers does not hold it, or not with its spiders.
        NothingReachableError: no node answers, or gives a sign of life.
        LockHeldError: a rollout of the project is under way; or `RefusedError`, it is held, or was left.

    """
    why, who = f"rollback to {to or 'the release before'}", who or operator()
    with holding_lock(store.releases, project, why=why, steal=steal, who=who) as held:
        clear_the_way(store, project, held.lock, steal=steal, doing="the rollback")
        release = _target(store.releases, project, to)
        targets = targets_of(nodes, store, is_whole=is_whole)
        found = fan_out(
            targets,
            lambda target: _holds(target, release),
            deadline_s=lambda target: patience_s(target, calls=2, waits_s=1.0),
        )
        _require_any(found, f"rolling {project} back")
        if lacking := [name for name, holds in found.values.items() if holds == LACKING]:
            raise RefusedError(
                f"{', '.join(lacking)} no longer hold(s) {project} {release.version}",
                hint="deploy that source again: crawlctl deploy --version NAME",
            )
        results = _results(found, len(release.spiders))
        active = store.releases.active(project)
        is_changed = active is None or active.version != release.version
        if is_changed:
            proven = {result.node for result in results if result.is_proven}
            holders = sorted(proven | store.releases.holders(project, release.version))
            entry = Rollout(project, release.version, ROLLBACK, store.now(), who, True, results)  # noqa: FBT003 - field
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


def _holds(target: Target, release: Release) -> str:
    """Say what a node has to show for a release: `held`, `lacking`, or `later` when it is lost."""
    if target.record is not None:
        if target.record.state is NodeState.LOST:
            return LATER
        return HELD if release.version in target.record.report.versions.get(release.project, ()) else LACKING
    node = stock_node(target)
    if release.version not in node.versions(release.project):
        return LACKING
    return HELD if set(node.spiders(release.project, release.version)) == set(release.spiders) else LACKING


def _require_any(found: Outcomes[str], doing: str) -> None:
    present = Outcomes(tuple(outcome for outcome in found if outcome.value != LATER))
    if not len(present) and len(found):
        raise NothingReachableError(f"{doing}: every node is lost", hint="crawlctl nodes list")
    require_any(present, doing)


def _results(found: Outcomes[str], spiders: int) -> tuple[NodeResult, ...]:
    return tuple(
        NodeResult(
            node=outcome.node,
            ok=outcome.ok,
            step=(outcome.value or HELD) if outcome.ok else "look",
            seconds=round(outcome.seconds, 3),
            spiders=spiders if outcome.value == HELD else None,
            error=_AWAY if outcome.value == LATER else None if outcome.ok else str(outcome.error),
        )
        for outcome in found
    )
