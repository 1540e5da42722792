"""One node's part of a rollout: bring an egg there, prove that it is there, or take it back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import NodeAnswerError, NodeBrokenError, NodeError, NodeRefusedError, NodeTimeoutError
from toolkit.model.names import NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import NodeResult

LOOK, UPLOAD, READ_BACK, WITHDRAW, HELD, DONE = "look", "upload", "read back", "withdraw", "held", "done"
FETCH, FETCHED = "fetch", "fetched"
CALLS = 12  # two of them list spiders on the node, which has six times the time for that

NO_ENVIRONMENTS = (
    "a stock node has no environment for each release: install the requirements there (crawlctl nodes provision, with"
    " provision.requirements), and deploy without --sync-deps"
)

OnStep = Callable[[NodeName, str], None]


@dataclass(frozen=True, slots=True)
class Cargo:
    """What a rollout brings to every node: the egg and the spiders that it must show there.

    `proven` names the nodes that were shown to hold these very bytes; on any other a version of this name may be
    somebody else's, since Scrapyd tells names and no digests. `signature` proves who released it, where
    eggs are signed.
    """

    project: ProjectName
    version: VersionName
    content: bytes
    digest: str
    spiders: tuple[SpiderName, ...]
    needs: tuple[str, ...] = ()
    has_environment: bool = False
    proven: frozenset[NodeName] = frozenset()
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of one node; `is_ours` means that this rollout's upload is, or may be, stored there."""

    result: NodeResult
    is_ours: bool
    error: NodeError | None = None


def push(node: ScrapydNode, cargo: Cargo, *, on_step: OnStep) -> Pushed:
    """Make the node hold the cargo, proven by reading it back. A failure leaves nothing of ours behind, or says so.

    The result's step is `held` when the node had it already, `done` when it was brought, else the step that failed.
    """
    attempt = _Attempt(node, cargo, on_step)
    try:
        return attempt.run()
    except NodeError as error:
        return attempt.failed(error)


def withdraw(node: ScrapydNode, cargo: Cargo) -> None:
    """Take the version off the node and read back that it is gone. Idempotent.

    Raises:
        NodeError: it may still be there.

    """
    node.remove(cargo.project, cargo.version)
    if cargo.version in node.versions(cargo.project):
        raise NodeAnswerError(node.name, "withdraw", f"{cargo.version} is still listed after its removal")


def verify(node: ScrapydNode, cargo: Cargo) -> None:
    """Make sure that the node shows just the spiders of the cargo.

    Raises:
        NodeError: it does not, or does not answer.

    """
    there = set(node.spiders(cargo.project, cargo.version))
    here = set(cargo.spiders)
    if there != here:
        lacks, adds = ", ".join(sorted(here - there)), ", ".join(sorted(there - here))
        why = " and ".join(filter(None, [lacks and f"lacks {lacks}", adds and f"shows {adds} besides"]))
        raise NodeAnswerError(node.name, READ_BACK, f"its list of spiders {why}")


class _Attempt:
    """The steps on one node, with the place that they have come to."""

    def __init__(self, node: ScrapydNode, cargo: Cargo, on_step: OnStep) -> None:
        self._node = node
        self._cargo = cargo
        self._on_step = on_step
        self._began = time.monotonic()
        self._step = LOOK
        self._is_ours = False
        self._is_sent = False

    def run(self) -> Pushed:
        node, cargo = self._node, self._cargo
        self._enter(LOOK)
        if cargo.has_environment:
            raise NodeRefusedError(node.name, LOOK, NO_ENVIRONMENTS)
        was_there = cargo.version in node.versions(cargo.project)
        if was_there and node.name in cargo.proven:
            verify(node, cargo)
            return self._pushed(HELD)
        self._enter(UPLOAD)
        self._is_ours = True
        try:
            node.upload(cargo.project, cargo.version, cargo.content)
        except (NodeTimeoutError, NodeBrokenError, NodeAnswerError) as unclear:
            # The answer is lost, the egg perhaps not: what the node lists decides, unless it listed that before.
            self._is_sent = True
            if isinstance(unclear, NodeTimeoutError) or was_there or cargo.version not in node.versions(cargo.project):
                raise
        self._enter(READ_BACK)
        if cargo.version not in node.versions(cargo.project):
            raise NodeAnswerError(node.name, READ_BACK, f"{cargo.version} is not listed after the upload")
        verify(node, cargo)
        return self._pushed(DONE)

    def failed(self, error: NodeError) -> Pushed:
        step, why = self._step, short(error)
        if self._is_ours and (self._is_sent or not _never_arrived(error, step)):
            self._enter(WITHDRAW)
            try:
                withdraw(self._node, self._cargo)
                self._is_ours = False
            except NodeError as second:
                why = f"{why}; the egg may still be there, since taking it back failed: {short(second)}"
        else:
            self._is_ours = False
        return replace(self._pushed(step, why), error=error)

    def _enter(self, step: str) -> None:
        self._step = step
        self._on_step(self._node.name, step)

    def _pushed(self, step: str, error: str | None = None) -> Pushed:
        seconds = round(time.monotonic() - self._began, 3)
        spiders = None if error else len(self._cargo.spiders)
        result = NodeResult(self._node.name, error is None, step, seconds, spiders, error)
        return Pushed(result, self._is_ours)


def _never_arrived(error: NodeError, step: str) -> bool:
    """Tell whether an upload failed before a byte of it was sent, or was turned away at the door."""
    is_refused_later = isinstance(error, (NodeRefusedError, NodeTimeoutError, NodeBrokenError, NodeAnswerError))
    return step == UPLOAD and not is_refused_later


def short(error: NodeError) -> str:
    """Keep of a node's traceback the line that names the cause."""
    lines = [line.strip() for line in error.why.splitlines() if line.strip()]
    return lines[-1] if lines else error.why
