"""One reading of a cluster for those who graph it: a few round trips, however many nodes and jobs there are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolkit.cluster.desk import Desk
from toolkit.cluster.snapshot import recall, take_snapshot
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.measures import Measures
from toolkit.model.nodes import NodeRecord
from toolkit.model.snapshot import Snapshot

_ALERT, _FIRING = "alert:", "firing"


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """The cluster at one moment. `measures` are `None` where the store is away (then there is an `error`), or no Redis.

    `counts` are the shared queue's (`JobQueue.counts`), `records` its plug-in nodes, `firing` counts alerts of
    crawlctl's own rules.
    """

    snapshot: Snapshot
    took_s: float
    records: Sequence[NodeRecord] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    measures: Measures | None = None
    firing: int = 0
    error: StoreUnreachableError | None = None


def take_reading(desk: Desk) -> ClusterReading:
    """Read the cluster once; a Redis that is away costs what it knows, and the reading says so.

    Stock nodes are asked over HTTP, all at once; plug-in nodes and jobs are not.
    """
    begun = time.monotonic()
    known = recall(desk.open_store)
    error, measures, firing = known.error, None, 0
    try:
        shared = None if error is not None else desk.store.shared
        if shared is not None:
            measures = shared.measures.read()
            states = shared.events.states()
            firing = sum(name.startswith(_ALERT) and state == _FIRING for name, state in states.items())
    except StoreUnreachableError as gone:
        error, measures = gone, None
    snapshot = take_snapshot(desk.nodes, known, is_whole=desk.is_whole)
    took_s = time.monotonic() - begun
    return ClusterReading(snapshot, took_s, known.registered, known.counts, measures, firing, error)
