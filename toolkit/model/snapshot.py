"""The one read model of a cluster, behind every face that shows one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from toolkit.model.names import NodeName, ProjectName, VersionName


class NodeState(StrEnum):
    """What the last call to a stock node, or the age of a plug-in node's heartbeat, showed."""

    LIVE = "live"
    DRAINING = "draining"
    STALE = "stale"
    LOST = "lost"
    UNREACHABLE = "unreachable"
    UNAUTHORIZED = "unauthorized"


STOCK = "stock"
"""The kind of a node without the plug-in."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node as seen now; counts are `None` when it did not answer. `projects` maps to the versions it holds.

    `kind` is stock, or node where the plug-in is; such a one has no pending jobs of its own: they wait in the queue.
    """

    name: NodeName
    address: str
    state: NodeState
    kind: str = STOCK
    slots: int | None = None
    pending: int | None = None
    running: int | None = None
    finished: int | None = None
    projects: Mapping[ProjectName, tuple[VersionName, ...]] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that an operator should look at: what, where, and the command that shows or mends it."""

    kind: str
    message: str
    nodes: tuple[NodeName, ...] = ()
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole cluster at one moment.

    `queued`, `taken` and `ended` count the jobs of the shared queue: those that no node has, those that one has, be it
    alive or not, and those of the history that have ended.
    """

    at: datetime
    nodes: tuple[NodeStatus, ...]
    active: Mapping[ProjectName, VersionName]
    attention: tuple[Attention, ...]
    is_store_away: bool = False
    queued: int = 0
    taken: int = 0
    ended: int = 0

    def total(self, count: str) -> int:
        """Add up `pending`, `running` or `finished` over the stock nodes that answered and the shared queue."""
        of_queue = {"pending": self.queued, "running": self.taken, "finished": self.ended}[count]
        return of_queue + sum(getattr(node, count) or 0 for node in self.nodes if node.kind == STOCK)
