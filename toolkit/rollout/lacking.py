"""What a plug-in node lacks of a release's requirements, as it says itself when it is asked through the store."""

from __future__ import annotations

import json

from toolkit.model.errors import NodeError, NodeRefusedError
from toolkit.model.names import NodeName
from toolkit.rollout.push import LOOK, NO_ENVIRONMENTS, Cargo
from toolkit.store.interfaces import Shared, Store
from toolkit.store.wire_calls import SOFTWARE

ANSWER_WITHIN_S = 5.0


def asks_s(cargo: Cargo) -> float:
    """Return how long asking a plug-in node takes at most."""
    return 2 * ANSWER_WITHIN_S if cargo.needs and not cargo.has_environment else 0.0


def refuse_lacking(node: NodeName, store: Store, cargo: Cargo) -> None:
    """Ask a plug-in node what is installed there; one that does not tell is given the benefit of the doubt.

    Raises:
        NodeRefusedError: it lacks something that the release needs.

    """
    if store.shared is None or not asks_s(cargo):
        return
    from toolkit.config.requirements import in_words, lacking_by_version  # noqa: PLC0415 - needs packaging: slow

    try:
        versions = _software(node, store.shared)
    except (NodeError, ValueError):
        return
    if lacks := lacking_by_version(cargo.needs, versions):
        raise NodeRefusedError(node, LOOK, in_words(lacks))


def refuse_without_environments(node: NodeName, cargo: Cargo) -> None:
    """Refuse a stock node for a release that is to have an environment of its own.

    Raises:
        NodeRefusedError: it is to have one.

    """
    if cargo.has_environment:
        raise NodeRefusedError(node, LOOK, NO_ENVIRONMENTS)


def _software(node: NodeName, shared: Shared) -> dict[str, str]:
    pieces = shared.calls.ask(node, SOFTWARE, {}, timeout_s=ANSWER_WITHIN_S, silence_s=ANSWER_WITHIN_S)
    found = json.loads(b"".join(pieces))
    return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else {}
