"""A node that runs no process: it takes the jobs of some spiders and ends them well, whatever becomes of Redis."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from support.queue_desk import a_report, an_ending

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.model.queue import Claimed, NothingToClaim
from toolkit.store.interfaces import Shared
from toolkit.store.open import open_store

LONGEST_S = 0.6
PAUSE_S = 0.02
LEASE_S = 20.0
T = TypeVar("T")


class Worker(threading.Thread):
    """Takes and ends jobs until it is stopped."""

    def __init__(self, url: str, folder: Path, name: str, spiders: Collection[str], *, seed: int) -> None:
        super().__init__(daemon=True)
        self._url, self._folder = url, folder
        self._report = replace(a_report(name, slots=4, lease_s=LEASE_S), session=a_report().session)
        self._spiders = frozenset(spiders)
        self._chance = random.Random(seed)  # noqa: S311 - a plan, no secret
        self.stopping = threading.Event()

    def run(self) -> None:
        """Do it."""
        store = self._patiently(lambda: open_store(Secret(self._url), self._folder))
        assert store.shared is not None
        shared: Shared = store.shared
        self._patiently(lambda: shared.nodes.beat(self._report, []))
        while not self.stopping.is_set():
            claimed = self._patiently(lambda: self._claim(shared))
            if claimed is None:
                time.sleep(PAUSE_S)
                continue
            self._patiently(lambda c=claimed: shared.queue.started(c.job.id, c.token, pid=1))  # type: ignore[misc]
            time.sleep(self._chance.uniform(0, LONGEST_S))
            self._patiently(lambda c=claimed: shared.queue.finish(c.job.id, c.token, an_ending()))  # type: ignore[misc]

    def _claim(self, shared: Shared) -> Claimed | None:
        # What was given while the answer was lost comes back to its line first.
        shared.queue.reconcile(self._report, [])
        lines = [line.name for line in shared.queue.lines() if line.spider in self._spiders]
        answer = shared.queue.claim(self._report, lines, running=0)
        if isinstance(answer, NothingToClaim) and answer.must_beat:
            shared.nodes.beat(self._report, [])
        return answer if isinstance(answer, Claimed) else None

    def _patiently(self, act: Callable[[], T]) -> T:
        while True:
            try:
                return act()
            except StoreUnreachableError:
                time.sleep(PAUSE_S * 5)
