"""Deploy: one egg to many nodes at once, each read back, then one write that makes it active; or everything undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.cluster.fanout import InterruptedFanOutError, fan_out
from toolkit.cluster.membership import registered
from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import ConflictError, CrawlctlError, NodeError, NodesFailedError, NodeUnreachableError
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.releases import LATER, DeployResult, NodeResult, Release, Rollout
from toolkit.model.snapshot import NodeState
from toolkit.rollout.lock import HeldLock, holding_lock, operator
from toolkit.rollout.plugged import FETCH_PATIENCE_S, bring, end_offers, is_held_already
from toolkit.rollout.push import CALLS, DONE, FETCHED, LOOK, UPLOAD, Cargo, OnStep, Pushed, push, withdraw
from toolkit.rollout.targets import Registry, Target, patience_s, stock_node, targets_of
from toolkit.rollout.version import make_version
from toolkit.store.interfaces import Store

KIND = "deploy"
SLACK_S = 5.0
NO_DOOR = "the inventory does not tell how to reach it by HTTP; unused, it stays there"


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
    _refuse_other_content(store, project, wanted, digest)
    return wanted


def plan(nodes: Nodes, store: Store, cargo: Cargo, *, is_whole: bool = False) -> Outcomes[str]:
    """Say what a deploy would do on each node: `hold`, `upload`, or `later` on a lost one. Nothing is changed.

    Only stock nodes are asked; of the others the registry tells.
    """
    cargo = replace(cargo, proven=store.releases.holders(cargo.project, cargo.version))

    def step(target: Target) -> str:
        if target.record is not None:
            if target.record.state is NodeState.LOST:
                return LATER
            return "hold" if is_held_already(target.record, cargo) else "upload"
        node = stock_node(target)
        return "hold" if cargo.version in node.versions(cargo.project) and node.name in cargo.proven else "upload"

    targets = targets_of(nodes, store, is_whole=is_whole)
    return fan_out(targets, step, deadline_s=lambda target: patience_s(target, calls=1, waits_s=1.0))


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
        ConflictError: the lock was stolen, or the version released with other content, meanwhile; nothing was made
            active.
        InterruptedDeployError: Ctrl-C; undone.

    """
    with holding_lock(store.releases, cargo.project, why=f"deploy {cargo.version}", steal=steal) as held:
        _refuse_other_content(store, cargo.project, cargo.version, cargo.digest)
        former = store.releases.active(cargo.project)
        cargo = replace(cargo, proven=store.releases.holders(cargo.project, cargo.version))
        rollout = _Rollout(store, cargo, held, targets_of(nodes, store, is_whole=is_whole), revision=revision)
        rollout.offer()
        try:
            pushed = rollout.push_all(on_step, on_done)
        except InterruptedFanOutError as interrupted:
            pushed = _flat(interrupted.outcomes)
            raise InterruptedDeployError(rollout.give_up(pushed)) from None
        proven = [each for each in pushed if each.result.is_proven]
        if not proven or (not keep_going and not all(each.result.ok for each in pushed)):
            return rollout.give_up(pushed)
        was_active = former is not None and former.version == cargo.version
        if was_active and not any(each.result.step in {DONE, FETCHED} for each in proven):
            rollout.end_offer()
            return rollout.result(pushed, is_active=True, is_changed=False)
        rollout.activate(pushed)
        rollout.end_offer()
        return rollout.result(pushed, is_active=True, is_changed=True)


def _refuse_other_content(store: Store, project: ProjectName, version: VersionName, digest: str) -> None:
    known = store.releases.get(project, version)
    if known is not None and known.digest != digest:
        raise ConflictError(
            f"{project} {version} is released already with other content (digest {known.digest[:12]})",
            hint="leave --version out, or choose another",
        )


class _Rollout:
    """One deploy under its lock."""

    def __init__(
        self, store: Store, cargo: Cargo, held: HeldLock, targets: Sequence[Target], *, revision: str | None
    ) -> None:
        self._store = store
        self._cargo = cargo
        self._held = held
        self._targets = targets
        self._is_offered = False
        self._release = Release(
            project=cargo.project,
            version=cargo.version,
            digest=cargo.digest,
            spiders=cargo.spiders,
            size_bytes=len(cargo.content),
            revision=revision,
            created_at=store.now(),
            created_by=operator(),
        )

    def offer(self) -> None:
        """Put the egg where plug-in nodes find it by themselves, if there are any."""
        if self._store.shared is not None and registered(self._store):
            end_offers(self._store.shared.eggs, self._cargo.project)
            self._store.shared.eggs.offer(self._release, self._cargo.content)
            self._is_offered = True

    def end_offer(self) -> None:
        """Offer it no longer: the nodes keep what is active, and a recorded release keeps its egg."""
        if self._is_offered and self._store.shared is not None:
            self._store.shared.eggs.withdraw(self._cargo.project, self._cargo.version)

    def push_all(self, on_step: OnStep, on_done: Callable[[NodeResult], None]) -> list[Pushed]:
        registry = Registry(self._store)

        def bring_there(target: Target) -> Pushed:
            if target.record is None:
                return push(stock_node(target), self._cargo, on_step=on_step)
            return bring(target, self._cargo, registry, on_step=on_step)

        outcomes = fan_out(
            self._targets,
            bring_there,
            deadline_s=lambda target: patience_s(target, calls=CALLS, waits_s=FETCH_PATIENCE_S + SLACK_S),
            on_done=lambda outcome: on_done(_pushed(outcome).result),
            finish_begun=True,
        )
        return _flat(outcomes)

    def activate(self, pushed: Sequence[Pushed]) -> None:
        releases, cargo = self._store.releases, self._cargo
        releases.record(self._release, self._held.lock)
        proven = {each.result.node for each in pushed if each.result.is_proven}
        earlier = releases.holders(cargo.project, cargo.version)
        entry = self._entry(pushed, self._store.now(), activated=True)
        releases.activate(entry, self._held.lock, held_by=sorted(proven | earlier))

    def give_up(self, pushed: Sequence[Pushed]) -> DeployResult:
        """Take back what this rollout brought; the release that was active stays so."""
        try:
            self._held.check()
        except ConflictError as lost:
            # Whoever has the lock now may be bringing the very same bytes: taking them away would break that rollout.
            raise ConflictError(f"{lost}; what this deploy had brought was left where it is") from lost
        # Before the nodes are told, or they would fetch again what is taken off them.
        self.end_offer()
        told = self._undo(pushed)
        self._store.releases.note(self._entry(told, self._store.now(), activated=False))
        former = self._store.releases.active(self._cargo.project)
        is_active = former is not None and former.version == self._cargo.version
        return self.result(told, is_active=is_active, is_changed=False)

    def _undo(self, pushed: Sequence[Pushed]) -> list[Pushed]:
        ours = {each.result.node for each in pushed if each.is_ours}
        doors = Nodes([each.node for each in self._targets if each.node is not None and each.name in ours])
        undone = doors.ask(lambda node: withdraw(node, self._cargo), calls=CALLS)
        failed: dict[NodeName, CrawlctlError | None] = {outcome.node: outcome.error for outcome in undone.failed}
        failed |= {name: NodesFailedError(NO_DOOR) for name in ours if name not in doors}
        told = [
            _after_undo(each, failed.get(each.result.node)) if each.result.node in ours else each for each in pushed
        ]
        was_anybody_there = any(each.result.step != LATER for each in pushed)
        return [_not_brought(each, is_cause=not was_anybody_there) for each in told]

    def result(self, pushed: Sequence[Pushed], *, is_active: bool, is_changed: bool) -> DeployResult:
        cargo = self._cargo
        results = tuple(each.result for each in pushed)
        errors = tuple(each.error for each in pushed if each.error is not None)
        return DeployResult(cargo.project, cargo.version, cargo.digest, is_active, is_changed, results, errors)

    def _entry(self, pushed: Sequence[Pushed], at: datetime, *, activated: bool) -> Rollout:
        results = tuple(each.result for each in pushed)
        return Rollout(self._cargo.project, self._cargo.version, KIND, at, operator(), activated, results)


def _flat(outcomes: Outcomes[Pushed]) -> list[Pushed]:
    return [_pushed(outcome) for outcome in outcomes]


def _pushed(outcome: Outcome[Pushed]) -> Pushed:
    """Return what the node's attempt found; one that was given up from outside may have left its egg there."""
    if outcome.value is not None:
        return outcome.value
    is_begun = outcome.seconds > 0
    result = NodeResult(
        node=outcome.node,
        ok=False,
        step=UPLOAD if is_begun else LOOK,
        seconds=round(outcome.seconds, 3),
        error=str(outcome.error),
    )
    return Pushed(result, is_begun, outcome.error if isinstance(outcome.error, NodeError) else None)


def _not_brought(pushed: Pushed, *, is_cause: bool) -> Pushed:
    """Tell of a lost node that nothing was left for it; where nobody else was there, that is why the deploy failed."""
    result = pushed.result
    if result.step != LATER:
        return pushed
    why = "lost: nothing was brought there"
    if not is_cause:
        return replace(pushed, result=replace(result, ok=False, step="undone", error=why))
    error = NodeUnreachableError(result.node, LOOK, why)
    return replace(pushed, result=replace(result, ok=False, step=LOOK, error=why), error=error)


def _after_undo(pushed: Pushed, error: CrawlctlError | None) -> Pushed:
    """Tell what the undo did on a node that had taken the egg; the node's own failure stays what it was."""
    if not pushed.result.ok:
        return replace(pushed, is_ours=error is not None)
    step, why = ("undone", "taken back") if error is None else ("undo", f"could not be taken back: {error}")
    result = replace(pushed.result, ok=False, step=step, spiders=None, error=why)
    return Pushed(result, error is not None, pushed.error)
