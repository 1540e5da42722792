"""The duty of giving the jobs of lost nodes to others: any survivor does it. When is decided here; what, in Redis."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, WorkerName, worker_of
from toolkit.model.nodes import BEATS_A_LEASE
from toolkit.store.interfaces import Shared

MIN_INTERVAL_S = 0.5
S_A_NODE = 0.1


def interval_s(*, live_nodes: int, lease_s: float, chance: float) -> float:
    """Return how long a node waits before its next turn; `chance` is a random number from 0 to 1. Pure.

    The more nodes, the rarer each one's turn, but never rarer than its own heartbeat. Half of the interval is chance,
    so that turns do not fall together.
    """
    longest = lease_s / BEATS_A_LEASE
    usual = min(max(live_nodes * S_A_NODE, MIN_INTERVAL_S), longest)
    return usual * (0.75 + chance / 2)


def requeue(shared: Shared) -> Mapping[JobId, JobState]:
    """Return the jobs of lost nodes to the queue, or call them lost; return the states now. Idempotent.

    What their processes held of a crawl goes back with them: one that lives on, cut off, finds its lease over.

    Raises:
        StoreUnreachableError: Redis does not answer.

    """
    lost: list[WorkerName] = []
    states = shared.queue.requeue_expired(on_lost=lambda job_id, token: lost.append(worker_of(job_id, token)))
    # Should it break off here, the workers' own leases end soon after.
    for worker in lost:
        shared.crawls.release(worker, has_died=False)
    return states
