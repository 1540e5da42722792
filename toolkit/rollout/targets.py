"""The nodes that a rollout is for: stock ones, reached by HTTP, and plug-in ones, which the registry tells about."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.cluster.membership import registered
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.cluster.transport import UPLOAD_PATIENCE
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.store.interfaces import Store


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
