"""A plug-in node's part of a rollout: pushed to by HTTP where that works, else it fetches the egg by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from toolkit.cluster.registry import LOOK_EVERY_S, Registry
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import NodeAnswerError, NodeError, NodeRefusedError, NodeTimeoutError, NodeUnreachableError
from toolkit.model.names import ProjectName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.releases import LATER, NodeResult
from toolkit.model.snapshot import NodeState
from toolkit.rollout.push import (
    DONE,
    FETCH,
    FETCHED,
    HELD,
    LOOK,
    READ_BACK,
    UPLOAD,
    Cargo,
    OnStep,
    Pushed,
    short,
    verify,
)
from toolkit.rollout.targets import Target
from toolkit.store.interfaces_queue import EggStore

FETCH_PATIENCE_S = 30.0
"""How long a node that lives may take to fetch and prove an egg by itself."""

ENVIRONMENT_PATIENCE_S = 1800.0
"""How long it may take where it makes an environment first: its own limit for that, and others that are made before."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """What the registry shows of a node that is to fetch a release: it has it, cannot have it, or is away."""

    is_held: bool = False
    is_away: bool = False
    refusal: str | None = None


def fetch_patience_s(cargo: Cargo) -> float:
    """Return how long a node that lives may take to hold this cargo by itself."""
    return ENVIRONMENT_PATIENCE_S if cargo.has_environment else FETCH_PATIENCE_S


def bring(
    target: Target,
    cargo: Cargo,
    registry: Registry,
    *,
    on_step: OnStep,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Pushed:
    """Make a plug-in node hold the cargo, which must be offered in the store already, proven by its own report.

    The result's step is `held` when it had it, `done` when it was pushed and read back, `fetched` when the node took
    it from the store, `later` when the node is lost and will do so when it is back, else the step that failed. What a
    node fetches by itself is waited for no longer once `is_stopped` says so.
    """
    attempt = _Attempt(target, cargo, registry, on_step, is_stopped)
    try:
        return attempt.run()
    except NodeError as error:
        return attempt.failed(error)


def end_offers(eggs: EggStore, project: ProjectName, *, except_for: VersionName | None = None) -> None:
    """Take back what killed deploys of the project left on offer; whoever calls holds its lock."""
    for release in eggs.offered():
        if release.project == project and release.version != except_for:
            eggs.withdraw(project, release.version)


def judge_fetching(record: NodeRecord | None, cargo: Cargo) -> Fetching:
    """Say how far a node is that is to fetch a release by itself. Pure."""
    if record is None:
        return Fetching(refusal="it was forgotten meanwhile")
    if cargo.version in record.report.versions.get(cargo.project, ()):
        return Fetching(is_held=True)
    if record.state is NodeState.LOST:
        return Fetching(is_away=True)
    return Fetching(refusal=record.report.behind.get(f"{cargo.project} {cargo.version}"))


def is_held_already(record: NodeRecord, cargo: Cargo) -> bool:
    """Tell whether a node that lives says that it holds the version, and was shown to hold these very bytes. Pure."""
    has_it = cargo.version in record.report.versions.get(cargo.project, ())
    return has_it and record.name in cargo.proven and record.state is not NodeState.LOST


class _Attempt:
    """The steps on one node, with the place that they have come to."""

    def __init__(
        self, target: Target, cargo: Cargo, registry: Registry, on_step: OnStep, is_stopped: Callable[[], bool]
    ) -> None:
        if target.record is None:
            raise ValueError(f"{target.name} is a stock node")
        self._name = target.name
        self._node = target.node
        self._record = target.record
        self._cargo = cargo
        self._registry = registry
        self._on_step = on_step
        self._is_stopped = is_stopped
        self._began = time.monotonic()
        self._step = LOOK
        self._is_ours = False

    def run(self) -> Pushed:
        self._enter(LOOK)
        if is_held_already(self._record, self._cargo):
            return self._pushed(HELD)
        if self._record.state is NodeState.LOST:
            return self._away(self._record)
        unheard = None
        if self._node is not None and not self._is_to_make_an_environment():
            try:
                self._push(self._node)
            except NodeRefusedError:
                raise
            except NodeError as error:
                unheard = error
            else:
                return self._pushed(DONE)
        return self._fetched(unheard)

    def failed(self, error: NodeError) -> Pushed:
        return Pushed(self._result(self._step, short(error), ok=False), self._is_ours, error)

    def _push(self, node: ScrapydNode) -> None:
        cargo = self._cargo
        self._enter(UPLOAD)
        node.upload(cargo.project, cargo.version, cargo.content, digest=cargo.digest, signature=cargo.signature)
        # A plug-in node stores nothing that it refuses, so only from here on there is something to take back.
        self._is_ours = True
        self._enter(READ_BACK)
        if cargo.version not in node.versions(cargo.project):
            raise NodeAnswerError(node.name, READ_BACK, f"{cargo.version} is not listed after the upload")
        verify(node, cargo)

    def _is_to_make_an_environment(self) -> bool:
        """Tell whether an upload would be answered only after minutes: then the node's own word is waited for."""
        has_name = self._cargo.version in self._record.report.versions.get(self._cargo.project, ())
        return self._cargo.has_environment and not has_name

    def _fetched(self, unheard: NodeError | None) -> Pushed:
        """Wait until the node says that it holds the release, which it fetches without being reached."""
        self._enter(FETCH)
        if self._cargo.version in self._record.report.versions.get(self._cargo.project, ()):
            why = "it holds a version of this name already, and cannot be asked whether it is this one"
            raise unheard or NodeUnreachableError(self._name, FETCH, why)
        self._is_ours = True
        patience_s = fetch_patience_s(self._cargo)
        began = time.monotonic()
        known_refusal = judge_fetching(self._record, self._cargo).refusal
        while True:
            record = self._registry.record(self._name)
            found = judge_fetching(record, self._cargo)
            if found.is_held:
                return self._pushed(FETCHED)
            if found.is_away and record is not None:
                return self._away(record)
            waited_s = time.monotonic() - began
            # What it said before the egg was offered is old news, until it has had the time to take that back.
            if found.refusal is not None and (waited_s >= FETCH_PATIENCE_S or found.refusal != known_refusal):
                raise NodeRefusedError(self._name, FETCH, found.refusal)
            if waited_s >= patience_s:
                more = f"; nor could it be reached: {short(unheard)}" if unheard else ""
                why = f"has not fetched it from the store within {patience_s:g} s{more}"
                raise NodeTimeoutError(self._name, FETCH, why)
            if self._is_stopped():
                raise NodeTimeoutError(self._name, FETCH, "interrupted")
            time.sleep(LOOK_EVERY_S)

    def _away(self, record: NodeRecord) -> Pushed:
        why = f"lost, {record.age_s:.0f} s without a sign of life: it installs the release by itself when it is back"
        return Pushed(self._result(LATER, why, ok=True), self._is_ours)

    def _enter(self, step: str) -> None:
        self._step = step
        self._on_step(self._name, step)

    def _pushed(self, step: str) -> Pushed:
        return Pushed(self._result(step, None, ok=True), self._is_ours)

    def _result(self, step: str, error: str | None, *, ok: bool) -> NodeResult:
        seconds = round(time.monotonic() - self._began, 3)
        spiders = None if error else len(self._cargo.spiders)
        return NodeResult(self._name, ok, step, seconds, spiders, error)
