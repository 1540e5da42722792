"""Deploy: one egg to many nodes at once, each read back, then one write that makes it active; or everything undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from toolkit.cluster.fanout import fan_out
from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import ConflictError
from toolkit.model.names import ProjectName, VersionName
from toolkit.model.outcomes import Outcomes
from toolkit.model.releases import LATER, DeployResult, NodeResult
from toolkit.model.snapshot import NodeState
from toolkit.rollout.lacking import asks_s, refuse_lacking, refuse_without_environments
from toolkit.rollout.lock import holding_lock
from toolkit.rollout.plugged import is_held_already
from toolkit.rollout.push import DONE, FETCHED, Cargo, OnStep
from toolkit.rollout.shipment import InterruptedPushError, Shipment, release_of
from toolkit.rollout.targets import Target, patience_s, stock_node, targets_of
from toolkit.rollout.unfinished import clear_the_way
from toolkit.rollout.version import make_version
from toolkit.store.interfaces import Store


class InterruptedDeployError(KeyboardInterrupt):
    """Ctrl-C came during a deploy; what it had brought was taken back, as `result` tells."""

    def __init__(self, result: DeployResult) -> None:
        super().__init__()
        self.result = result


def choose_version(store: Store, project: ProjectName, digest: str, *, wanted: VersionName | None) -> VersionName:
    """Name the version for these bytes: the one asked for, the one they have already, or a new one.

    Raises:
        ConflictError: the version asked for is known with other bytes.

    """
    if wanted is None:
        known = store.releases.with_digest(project, digest)
        return known.version if known else make_version(digest, store.now())
    refuse_other_content(store, project, wanted, digest)
    return wanted


def plan(nodes: Nodes, store: Store, cargo: Cargo, *, is_whole: bool = False) -> Outcomes[str]:
    """Say what a deploy would do on each node: `hold`, `upload`, or `later` on a lost one. Nothing is changed.

    Stock nodes are asked by HTTP; of the others the registry tells, and they themselves what of its needs they lack.
    """
    cargo = replace(cargo, proven=store.releases.holders(cargo.project, cargo.version))

    def step(target: Target) -> str:
        if target.record is not None:
            if target.record.state is NodeState.LOST:
                return LATER
            if is_held_already(target.record, cargo):
                return "hold"
            refuse_lacking(target.name, store, cargo)
            return "upload"
        refuse_without_environments(target.name, cargo)
        node = stock_node(target)
        return "hold" if cargo.version in node.versions(cargo.project) and node.name in cargo.proven else "upload"

    targets = targets_of(nodes, store, is_whole=is_whole)
    return fan_out(targets, step, deadline_s=lambda target: patience_s(target, calls=1, waits_s=1.0 + asks_s(cargo)))


def deploy(
    nodes: Nodes,
    store: Store,
    cargo: Cargo,
    *,
    revision: str | None = None,
    keep_going: bool = False,
    steal: bool = False,
    is_whole: bool = False,
    on_step: OnStep,
    on_done: Callable[[NodeResult], None],
) -> DeployResult:
    """Bring the cargo to every node, prove it there, and make it active; else undo it and leave the former active.

    With `keep_going` it is made active on the nodes that took it, if any did. Deploying what is active and held
    everywhere changes nothing. Where there are plug-in nodes the egg is put into the store first, so that those fetch
    it by themselves that HTTP does not reach; lost ones do so later, and are no failure as long as any node holds it.
    With `is_whole` the nodes are the whole inventory, and registered nodes that it does not list are waited for too.

    Raises:
        RefusedError: the egg is too large for the store; nothing was sent.
        LockHeldError: another rollout of the project is under way.
        RefusedError: a rollout in waves is held or was left, and `steal` was not asked for.
        ConflictError: the lock was stolen, or the version released with other content, meanwhile; nothing was made
            active.
        InterruptedDeployError: Ctrl-C; undone.

    """
    with holding_lock(store.releases, cargo.project, why=f"deploy {cargo.version}", steal=steal) as held:
        refuse_other_content(store, cargo.project, cargo.version, cargo.digest)
        clear_the_way(store, cargo.project, held.lock, steal=steal, doing=f"the deploy of {cargo.version}")
        former = store.releases.active(cargo.project)
        cargo = replace(cargo, proven=store.releases.holders(cargo.project, cargo.version))
        release = release_of(store, cargo, revision=revision)
        shipment = Shipment(store, cargo, release, held, targets_of(nodes, store, is_whole=is_whole))
        shipment.offer()
        try:
            pushed = shipment.push(shipment.targets, on_step, on_done)
        except InterruptedPushError as interrupted:
            raise InterruptedDeployError(shipment.give_up(interrupted.pushed)) from None
        proven = [each for each in pushed if each.result.is_proven]
        if not proven or (not keep_going and not all(each.result.ok for each in pushed)):
            return shipment.give_up(pushed)
        was_active = former is not None and former.version == cargo.version
        if was_active and not any(each.result.step in {DONE, FETCHED} for each in proven):
            shipment.countersign()
            shipment.end_offer()
            return shipment.result(pushed, is_active=True, is_changed=False)
        shipment.activate([each.result for each in pushed])
        shipment.end_offer()
        return shipment.result(pushed, is_active=True, is_changed=True)


def refuse_other_content(store: Store, project: ProjectName, version: VersionName, digest: str) -> None:
    """Make sure that this version means these bytes.

    Raises:
        ConflictError: it is released with others.

    """
    known = store.releases.get(project, version)
    if known is not None and known.digest != digest:
        raise ConflictError(
            f"{project} {version} is released already with other content (digest {known.digest[:12]})",
            hint="leave --version out, or choose another",
        )
