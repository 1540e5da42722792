"""Waiting for jobs to end, with what they have done so far told on the way, and for a store that is away meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from toolkit.cluster.jobs import refresh
from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import StoreUnreachableError, StoreUnreadableError
from toolkit.model.jobs import Job
from toolkit.store.interfaces import JobStore

POLL_S = 0.5
AWAY_PATIENCE_S = 600.0
"""How long a store that was there is waited for."""

T = TypeVar("T")
OnAway = Callable[[StoreUnreachableError], None]


def patiently(look: Callable[[], T], *, on_away: OnAway | None, patience_s: float = AWAY_PATIENCE_S) -> T:
    """Return what a look gives; while the store is away it is tried again, for at most `patience_s` seconds.

    `on_away` hears of the absence, once; without one the store is not waited for.

    Raises:
        StoreUnreachableError: the store stayed away for so long.

    """
    deadline: float | None = None
    while True:
        try:
            return look()
        except StoreUnreadableError:
            raise
        except StoreUnreachableError as error:
            if on_away is None:
                raise
            if deadline is None:
                deadline = time.monotonic() + patience_s
                on_away(error)
            elif time.monotonic() >= deadline:
                raise
        time.sleep(POLL_S)


def wait_for(
    nodes: Nodes,
    records: JobStore,
    jobs: Sequence[Job],
    *,
    clock: Callable[[], datetime],
    on_change: Callable[[Sequence[Job]], None],
    on_away: OnAway | None = None,
) -> list[Job]:
    """Return the jobs once all of them have ended; `on_change` hears of every look at them, `clock` is the store's.

    A node that does not answer for a while is waited for: its jobs are as last known until it answers again. So is the
    store, for ten minutes, if there is an `on_away` to hear of it.

    Raises:
        StoreUnreachableError: the store stayed away for longer.

    """
    current = list(jobs)

    def look() -> list[Job]:
        return refresh(nodes, records, current, now=clock())

    while True:
        current = patiently(look, on_away=on_away)
        on_change(current)
        if all(job.state.is_final for job in current):
            return current
        time.sleep(POLL_S)
