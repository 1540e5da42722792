"""One release on its way to nodes, under the project's lock: offered, pushed, made active, or taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from toolkit.cluster.fanout import InterruptedFanOutError, fan_out
from toolkit.cluster.membership import registered
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.registry import Registry
from toolkit.model.errors import ConflictError, CrawlctlError, NodeError, NodesFailedError, NodeUnreachableError
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.releases import LATER, DeployResult, NodeResult, Release, Rollout
from toolkit.rollout.gate import GATE
from toolkit.rollout.lock import HeldLock, operator
from toolkit.rollout.plugged import bring, end_offers, fetch_patience_s
from toolkit.rollout.push import CALLS, LOOK, UPLOAD, Cargo, OnStep, Pushed, push, withdraw
from toolkit.rollout.targets import Target, patience_s, stock_node
from toolkit.store.interfaces import Store

KIND = "deploy"
SLACK_S = 5.0
NO_DOOR = "the inventory does not tell how to reach it by HTTP; unused, it stays there"

OnDone = Callable[[NodeResult], None]


class InterruptedPushError(KeyboardInterrupt):
    """Ctrl-C came during a push; `pushed` is what had become of each node, each either whole or not begun."""

    def __init__(self, pushed: Sequence[Pushed]) -> None:
        super().__init__()
        self.pushed = list(pushed)


def release_of(store: Store, cargo: Cargo, *, revision: str | None) -> Release:
    """Make the release that this cargo is, as of now and by this operator."""
    return Release(
        project=cargo.project,
        version=cargo.version,
        digest=cargo.digest,
        spiders=cargo.spiders,
        size_bytes=len(cargo.content),
        revision=revision,
        created_at=store.now(),
        created_by=operator(),
        needs=cargo.needs,
        has_environment=cargo.has_environment,
        signature=cargo.signature,
    )


def cargo_of(store: Store, release: Release, content: bytes) -> Cargo:
    """Make the cargo again that this release is; the nodes shown to hold it are those that the store knows of."""
    return Cargo(
        project=release.project,
        version=release.version,
        content=content,
        digest=release.digest,
        spiders=release.spiders,
        needs=release.needs,
        has_environment=release.has_environment,
        signature=release.signature,
        proven=store.releases.holders(release.project, release.version),
    )


class Shipment:
    """One release, and the nodes that it is for."""

    def __init__(
        self,
        store: Store,
        cargo: Cargo,
        release: Release,
        held: HeldLock,
        targets: Sequence[Target],
        *,
        kind: str = KIND,
    ) -> None:
        self.cargo = cargo
        self._kind = kind
        self.targets = tuple(targets)
        self.store = store
        self._release = release
        self.held = held
        self._is_offered = False

    def offer(self, *, to: Collection[NodeName] | None = None) -> None:
        """Put the egg where plug-in nodes (`to`: only these) find it by themselves, if there are any.

        Offering again replaces who may take it.

        Raises:
            RefusedError: the egg is too large for the store.

        """
        if self.store.shared is None or not registered(self.store):
            return
        eggs = self.store.shared.eggs
        if not self._is_offered:
            end_offers(eggs, self.cargo.project, except_for=self.cargo.version)
        eggs.offer(self._release, self.cargo.content, nodes=None if to is None else sorted(to))
        self._is_offered = True

    def end_offer(self) -> None:
        """Offer it no longer: the nodes keep what is active, and a recorded release keeps its egg."""
        if self.store.shared is not None:
            self.store.shared.eggs.withdraw(self.cargo.project, self.cargo.version)

    def push(self, targets: Sequence[Target], on_step: OnStep, on_done: OnDone) -> list[Pushed]:
        """Bring the cargo to some of the nodes at once, and say what became of each, in their order.

        Raises:
            InterruptedPushError: Ctrl-C; uploads under way were waited for.

        """
        registry, stopped = Registry(self.store), threading.Event()
        waits_s = fetch_patience_s(self.cargo) + SLACK_S

        def bring_there(target: Target) -> Pushed:
            if target.record is None:
                return push(stock_node(target), self.cargo, on_step=on_step)
            return bring(target, self.cargo, registry, on_step=on_step, is_stopped=stopped.is_set)

        try:
            outcomes = fan_out(
                targets,
                bring_there,
                deadline_s=lambda target: patience_s(target, calls=CALLS, waits_s=waits_s),
                on_done=lambda outcome: on_done(_pushed(outcome).result),
                finish_begun=True,
                on_stop=stopped.set,
            )
        except InterruptedFanOutError as interrupted:
            raise InterruptedPushError(_flat(interrupted.outcomes)) from None
        return _flat(outcomes)

    def activate(self, results: Sequence[NodeResult]) -> None:
        """Make the release the active one: the one write from which on every schedule uses it.

        Raises:
            ConflictError: the lock is no longer ours, or the version was released with other content meanwhile.

        """
        releases, cargo = self.store.releases, self.cargo
        releases.record(self._release, self.held.lock)
        self.countersign()
        proven = {each.node for each in results if each.is_proven}
        earlier = releases.holders(cargo.project, cargo.version)
        releases.activate(self._entry(results, activated=True), self.held.lock, held_by=sorted(proven | earlier))

    def countersign(self) -> None:
        """Lay the cargo's signature to a release that was recorded before with the same bytes."""
        known = self.store.releases.get(self.cargo.project, self.cargo.version)
        if known is not None and self.cargo.signature is not None and known.signature != self.cargo.signature:
            self.store.releases.sign(self._release, self.held.lock)

    def give_up(self, pushed: Sequence[Pushed]) -> DeployResult:
        """Take back what was brought; the release that was active stays so.

        Raises:
            ConflictError: the lock is no longer ours; everything was left where it is.

        """
        self.check_ours()
        # Before the nodes are told, or they would fetch again what is taken off them.
        self.end_offer()
        told = self.take_back(pushed)
        was_anybody_there = any(each.result.step != LATER for each in pushed)
        told = [_not_brought(each, is_cause=not was_anybody_there) for each in told]
        self.note([each.result for each in told])
        former = self.store.releases.active(self.cargo.project)
        is_active = former is not None and former.version == self.cargo.version
        return self.result(told, is_active=is_active, is_changed=False)

    def check_ours(self) -> None:
        """Make sure that the lock is still ours before anything is taken away.

        Raises:
            ConflictError: it is not.

        """
        try:
            self.held.check()
        except ConflictError as lost:
            # Whoever has the lock now may be bringing the very same bytes: taking them away would break that rollout.
            raise ConflictError(f"{lost}; what this deploy had brought was left where it is") from lost

    def take_back(self, pushed: Sequence[Pushed]) -> list[Pushed]:
        """Take the cargo off the nodes on which it is, or may be, ours; say what became of each."""
        ours = {each.result.node for each in pushed if each.is_ours}
        doors = Nodes([each.node for each in self.targets if each.node is not None and each.name in ours])
        undone = doors.ask(lambda node: withdraw(node, self.cargo), calls=CALLS)
        failed: dict[NodeName, CrawlctlError | None] = {outcome.node: outcome.error for outcome in undone.failed}
        failed |= {name: NodesFailedError(NO_DOOR) for name in ours if name not in doors}
        return [
            _after_undo(each, failed.get(each.result.node)) if each.result.node in ours else each for each in pushed
        ]

    def note(self, results: Sequence[NodeResult]) -> None:
        """Tell the history that this was tried, and changed nothing."""
        self.store.releases.note(self._entry(results, activated=False))

    def result(self, pushed: Sequence[Pushed], *, is_active: bool, is_changed: bool) -> DeployResult:
        """Tell what was done."""
        cargo = self.cargo
        results = tuple(each.result for each in pushed)
        errors = tuple(each.error for each in pushed if each.error is not None)
        return DeployResult(cargo.project, cargo.version, cargo.digest, is_active, is_changed, results, errors)

    def _entry(self, results: Sequence[NodeResult], *, activated: bool) -> Rollout:
        cargo, at = self.cargo, self.store.now()
        return Rollout(cargo.project, cargo.version, self._kind, at, operator(), activated, tuple(results))


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
    if not pushed.result.ok and (error is None or pushed.result.step not in {LOOK, GATE}):
        return replace(pushed, is_ours=error is not None)  # What a push could not take back, it has said.
    if not pushed.result.ok:
        why = f"{pushed.result.error}; it could not be taken back: {error}"
        return replace(pushed, result=replace(pushed.result, step="undo", error=why), is_ours=True)
    step, why = ("undone", "taken back") if error is None else ("undo", f"could not be taken back: {error}")
    result = replace(pushed.result, ok=False, step=step, spiders=None, error=why)
    return Pushed(result, error is not None, pushed.error)
