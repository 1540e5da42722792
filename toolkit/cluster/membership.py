"""Which nodes have the plug-in, and so take jobs from the shared queue, and which are stock ones, asked by HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from toolkit.cluster.nodes import Nodes
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import Store

PLUG_IN = "node"
TAKERS = frozenset({NodeState.LIVE, NodeState.STALE})


def registered(store: Store) -> tuple[NodeRecord, ...]:
    """Return every plug-in node that is not forgotten, live or not; none where the store is a file. One read."""
    return tuple(store.shared.nodes.all()) if store.shared is not None else ()


def split(nodes: Nodes, records: Sequence[NodeRecord]) -> tuple[frozenset[NodeName], Nodes]:
    """Tell the plug-in nodes among the given ones from the stock ones, which alone are to be asked by HTTP. Pure."""
    known = {record.name for record in records}
    plugged = frozenset(name for name in nodes.names if name in known)
    return plugged, nodes.only(name for name in nodes.names if name not in known)


def plug_in_error(record: NodeRecord) -> str | None:
    """Say what is wrong with a plug-in node that is there: another one claims its name, or it takes no job now."""
    return f"another node claims its name: {record.clash}" if record.clash else record.report.unfit


class Way(StrEnum):
    """How a job comes to its node."""

    QUEUE = "queue"
    DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class Route:
    """Where an order goes.

    By the queue, `on` names the only nodes that may take it, or is `None` when all may; `left_out` are stock nodes
    that were picked too and get nothing; `takers` counts the nodes that are there to take it now.
    """

    way: Way
    on: tuple[NodeName, ...] | None = None
    left_out: tuple[NodeName, ...] = ()
    takers: int = 0


def route(picked: Sequence[NodeName] | None, records: Sequence[NodeRecord]) -> Route:
    """Decide whether an order goes into the queue or straight to stock nodes. Pure.

    `picked` are the nodes that the operator named, `None` when he named none. As soon as one of them (of all, when
    none was named) is a registered plug-in node the order is queued, also while every such node is lost.
    """
    chosen = [record for record in records if picked is None or record.name in set(picked)]
    if not chosen:
        return Route(Way.DIRECT)
    names = tuple(sorted(record.name for record in chosen))
    takers = sum(record.state in TAKERS for record in chosen)
    if picked is None:
        return Route(Way.QUEUE, takers=takers)
    return Route(Way.QUEUE, names, tuple(name for name in picked if name not in names), takers)
