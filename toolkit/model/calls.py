"""A question to a plug-in node that travels through the store, and what becomes of a piece of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.model.names import NodeName


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of which node. `id` is random; `what` is one of the few words that a node knows, as in `log`."""

    id: str
    node: NodeName
    what: str
    args: Mapping[str, str] = field(default_factory=dict)


class Heard(StrEnum):
    """What became of a piece of an answer: taken; too much waits, so try again; nobody listens any more, so stop."""

    TAKEN = "taken"
    FULL = "full"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class RedialPlace:
    """Whether a node may change its address now: `taken` of `places` are taken, its own among them if it got one."""

    is_ours: bool
    taken: int
    places: int


@dataclass(frozen=True, slots=True)
class Redialled:
    """What became of a redial: the address that Redis saw before and sees now, and how long it took.

    `why` says why the address is not another, if so; `again_s` that it may be asked for again after so long.
    """

    old: str | None = None
    new: str | None = None
    seconds: float = 0.0
    why: str | None = None
    again_s: float | None = None
