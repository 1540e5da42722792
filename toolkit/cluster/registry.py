"""The registry of plug-in nodes as many threads look at it at once, while they wait for what nodes tell."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from toolkit.cluster.membership import registered
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.store.interfaces import Store

LOOK_EVERY_S = 0.3


class Registry:
    """The registry of plug-in nodes, read at most every 0.3 s (or `every_s`) however many threads look at it.

    Looking raises `StoreUnreachableError` when the store is away.
    """

    def __init__(
        self, store: Store, *, every_s: float = LOOK_EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._records: Mapping[NodeName, NodeRecord] = {}

    def record(self, name: NodeName) -> NodeRecord | None:
        """Return what a node last said of itself; `None` when it was forgotten."""
        with self._lock:
            if self._read_at is None or self._clock() - self._read_at >= self._every_s:
                self._records = {record.name: record for record in registered(self._store)}
                self._read_at = self._clock()
            return self._records.get(name)
