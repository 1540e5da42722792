"""The duty of sampling: what every active job and the whole cluster have done by now. Any survivor does it."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.nodes import NodeRecord
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import Shared

EVERY_S = 10.0
EARLY_S = 0.5
"""A node may come so much too early: its timer and Redis' clock are two."""

S_A_NODE = 0.5
MAX_MORE_S = 30.0
_ALIVE = frozenset({NodeState.LIVE, NodeState.DRAINING})


def interval_s(*, live_nodes: int, chance: float) -> float:
    """Return how long a node waits before it asks for a turn again; `chance` is a random number from 0 to 1. Pure.

    One that is alone asks every ten seconds. Of many each asks more rarely, and some ask every second.
    """
    return EVERY_S + chance * min(S_A_NODE * max(0, live_nodes - 1), MAX_MORE_S)


def sample(shared: Shared) -> bool:
    """Sample all active jobs and the cluster, unless another node has done so in the last ten seconds.

    A turn that breaks off, or that another one overtakes, leaves whole samples behind.

    Raises:
        StoreUnreachableError: Redis does not answer.

    """
    turn = shared.samples.begin(every_s=EVERY_S - EARLY_S)
    if turn is None:
        return False
    shared.samples.sample_jobs(turn)
    counts = shared.queue.counts()
    nodes, slots = alive(shared.nodes.all())
    return shared.samples.sample_cluster(
        turn, pending=counts["pending"], active=counts["active"], nodes_live=nodes, slots=slots
    )


def alive(records: Sequence[NodeRecord]) -> tuple[int, int]:
    """Return how many nodes live, those that drain included, and how many slots they have in all. Pure."""
    reports = [record.report for record in records if record.state in _ALIVE]
    return len(reports), sum(report.slots for report in reports)
