"""Deploy: one egg to many nodes at once, each read back, then one write that makes it active; or everything undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.cluster.fanout import InterruptedFanOutError
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import ConflictError, CrawlctlError, NodeError
from toolkit.model.names import ProjectName, VersionName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.releases import DeployResult, NodeResult, Release, Rollout
from toolkit.rollout.lock import HeldLock, holding_lock, operator
from toolkit.rollout.push import CALLS, DONE, LOOK, UPLOAD, Cargo, OnStep, Pushed, push, withdraw
from toolkit.rollout.version import make_version
from toolkit.store.interfaces import Store

KIND = "deploy"


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


def plan(nodes: Nodes, store: Store, cargo: Cargo) -> Outcomes[str]:
    """Say what a deploy would do on each node: `hold` or `upload`. Nothing is changed."""
    proven = store.releases.holders(cargo.project, cargo.version)

    def step(node: ScrapydNode) -> str:
        return "hold" if cargo.version in node.versions(cargo.project) and node.name in proven else "upload"

    return nodes.ask(step)


def deploy(
    nodes: Nodes,
    store: Store,
    cargo: Cargo,
    *,
    revision: str | None = None,
    keep_going: bool = False,
    steal: bool = False,
    on_step: OnStep,
    on_done: Callable[[NodeResult], None],
) -> DeployResult:
    """Bring the cargo to every node, prove it there, and make it active; else undo it and leave the former active.

    With `keep_going` it is made active on the nodes that took it, if any did. Deploying what is active and held
    everywhere changes nothing.

    Raises:
        LockHeldError: another rollout of the project is under way.
        ConflictError: the lock was stolen, or the version released with other content, meanwhile; nothing was made
            active.
        InterruptedDeployError: Ctrl-C; undone.

    """
    with holding_lock(store.releases, cargo.project, why=f"deploy {cargo.version}", steal=steal) as held:
        _refuse_other_content(store, cargo.project, cargo.version, cargo.digest)
        former = store.releases.active(cargo.project)
        cargo = replace(cargo, proven=store.releases.holders(cargo.project, cargo.version))
        rollout = _Rollout(nodes, store, cargo, held)
        try:
            pushed = rollout.push_all(on_step, on_done)
        except InterruptedFanOutError as interrupted:
            pushed = _flat(interrupted.outcomes)
            raise InterruptedDeployError(rollout.give_up(pushed)) from None
        ok = [each for each in pushed if each.result.ok]
        if not ok or (len(ok) < len(pushed) and not keep_going):
            return rollout.give_up(pushed)
        was_active = former is not None and former.version == cargo.version
        if was_active and not any(each.result.step == DONE for each in ok):
            return rollout.result(pushed, is_active=True, is_changed=False)
        rollout.activate(pushed, revision)
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

    def __init__(self, nodes: Nodes, store: Store, cargo: Cargo, held: HeldLock) -> None:
        self._nodes = nodes
        self._store = store
        self._cargo = cargo
        self._held = held

    def push_all(self, on_step: OnStep, on_done: Callable[[NodeResult], None]) -> list[Pushed]:
        outcomes = self._nodes.ask(
            lambda node: push(node, self._cargo, on_step=on_step),
            on_done=lambda outcome: on_done(_pushed(outcome).result),
            calls=CALLS,
            finish_begun=True,
        )
        return _flat(outcomes)

    def activate(self, pushed: Sequence[Pushed], revision: str | None) -> None:
        releases, cargo = self._store.releases, self._cargo
        now = self._store.now()
        releases.record(
            Release(
                cargo.project,
                cargo.version,
                cargo.digest,
                cargo.spiders,
                len(cargo.content),
                revision,
                now,
                operator(),
            ),
            self._held.lock,
        )
        proven = {each.result.node for each in pushed if each.result.ok}
        earlier = releases.holders(cargo.project, cargo.version)
        releases.activate(self._entry(pushed, now, activated=True), self._held.lock, held_by=sorted(proven | earlier))

    def give_up(self, pushed: Sequence[Pushed]) -> DeployResult:
        """Take back what this rollout brought; the release that was active stays so."""
        try:
            self._held.check()
        except ConflictError as lost:
            # Whoever has the lock now may be bringing the very same bytes: taking them away would break that rollout.
            raise ConflictError(f"{lost}; what this deploy had brought was left where it is") from lost
        ours = {each.result.node for each in pushed if each.is_ours}
        undone = self._nodes.only(ours).ask(lambda node: withdraw(node, self._cargo), calls=CALLS)
        failed = {outcome.node: outcome.error for outcome in undone.failed}
        told = [
            _after_undo(each, failed.get(each.result.node)) if each.result.node in ours else each for each in pushed
        ]
        self._store.releases.note(self._entry(told, self._store.now(), activated=False))
        former = self._store.releases.active(self._cargo.project)
        is_active = former is not None and former.version == self._cargo.version
        return self.result(told, is_active=is_active, is_changed=False)

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


def _after_undo(pushed: Pushed, error: CrawlctlError | None) -> Pushed:
    """Tell what the undo did on a node that had taken the egg; the node's own failure stays what it was."""
    if not pushed.result.ok:
        return replace(pushed, is_ours=error is not None)
    step, why = ("undone", "taken back") if error is None else ("undo", f"could not be taken back: {error}")
    result = replace(pushed.result, ok=False, step=step, spiders=None, error=why)
    return Pushed(result, error is not None, pushed.error)
