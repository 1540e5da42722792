"""A question to a plug-in node that travels through the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolkit.model.names import NodeName


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of which node. `id` is random; `what` is one of the few words that a node knows, as in `log`."""

    id: str
    node: NodeName
    what: str
    args: Mapping[str, str] = field(default_factory=dict)
