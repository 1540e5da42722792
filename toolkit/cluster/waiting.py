"""Waiting for jobs to end, with what they have done so far told on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from toolkit.cluster.jobs import refresh
from toolkit.cluster.nodes import Nodes
from toolkit.model.jobs import Job
from toolkit.store.interfaces import JobStore

POLL_S = 0.5


def wait_for(
    nodes: Nodes,
    records: JobStore,
    jobs: Sequence[Job],
    *,
    clock: Callable[[], datetime],
    on_change: Callable[[Sequence[Job]], None],
) -> list[Job]:
    """Return the jobs once all of them have ended; `on_change` hears of every look at them, `clock` is the store's.

    A node that does not answer for a while is waited for: its jobs are as last known until it answers again.
    """
    current = list(jobs)
    while True:
        current = refresh(nodes, records, current, now=clock())
        on_change(current)
        if all(job.state.is_final for job in current):
            return current
        time.sleep(POLL_S)
