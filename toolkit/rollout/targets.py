"""The nodes that a rollout is for: stock ones, reached by HTTP, and plug-in ones, which the registry tells about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolkit.cluster.membership import registered
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.cluster.transport import UPLOAD_PATIENCE
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.store.interfaces import Store

LOOK_EVERY_S = 0.3


@dataclass(frozen=True, slots=True)
class Target:
    """One node of a rollout: `node` is its HTTP side, if the inventory has one; a stock node has no `record`."""

    name: NodeName
    node: ScrapydNode | None
    record: NodeRecord | None


def targets_of(nodes: Nodes, store: Store, *, is_whole: bool) -> list[Target]:
    """Return the given nodes in their order and, when they are the whole inventory, other registered ones besides."""
    records = {record.name: record for record in registered(store)}
    found = [Target(node.name, node, records.get(node.name)) for node in nodes]
    if is_whole:
        found += [Target(name, None, record) for name, record in records.items() if name not in nodes]
    return found


def stock_node(target: Target) -> ScrapydNode:
    """Return the HTTP side of a stock node, which is all that it has."""
    if target.node is None:
        raise ValueError(f"{target.name} has no address in the inventory")
    return target.node


def patience_s(target: Target, *, calls: int, waits_s: float = 0.0) -> float:
    """Bound the work on one node: `calls` answers of its own, and what it may take to fetch an egg by itself."""
    asking_s = 0.0 if target.node is None else target.node.host.timeout_s * (UPLOAD_PATIENCE + calls)
    return asking_s + (0.0 if target.record is None else waits_s)


class Registry:
    """The registry of plug-in nodes, read at most every 0.3 s however many threads look at it.

    Looking raises `StoreUnreachableError` when the store is away.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._records: Mapping[NodeName, NodeRecord] = {}

    def record(self, name: NodeName) -> NodeRecord | None:
        """Return what a node last said of itself; `None` when it was forgotten."""
        with self._lock:
            if self._read_at is None or self._clock() - self._read_at >= LOOK_EVERY_S:
                self._records = {record.name: record for record in registered(self._store)}
                self._read_at = self._clock()
            return self._records.get(name)
