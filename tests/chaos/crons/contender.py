"""A process that does nothing but fire crons as a node does, and dies or dawdles where that could do harm."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.duties import fire
from toolkit.model.crons import Firing, Proposal
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.model.names import ProjectName
from toolkit.model.releases import Release
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store

DIES_OF_100, DAWDLES_OF_100, REPEATS_OF_100 = 2, 5, 20
LONGEST_NAP_S = 2.5
AGAIN_S = 0.2


class _Crons:
    """The crons; what is committed is sometimes committed once more, as by one who lost the answer."""

    def __init__(self, crons: Any, chance: random.Random) -> None:
        self._crons = crons
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._crons, name)

    def commit(self, proposals: Sequence[Proposal]) -> Sequence[Firing | None]:
        told: Sequence[Firing | None] = self._crons.commit(proposals)
        if self._chance.randrange(100) < REPEATS_OF_100:
            self._crons.commit(proposals)
        return told


class _Careless:
    """A store whose user dies or falls asleep between what is taken and what is committed."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        assert store.shared is not None
        self._store = store
        self._chance = chance
        self.shared = self
        self.releases = self
        self.crons = _Crons(store.shared.crons, chance)

    def actives(self) -> Mapping[ProjectName, Release]:
        number = self._chance.randrange(100)
        if number < DIES_OF_100:
            os._exit(9)
        if number < DIES_OF_100 + DAWDLES_OF_100:
            time.sleep(self._chance.uniform(0, LONGEST_NAP_S))
        return self._store.releases.actives()


def contend(url: str, name: str, *, seed: int, live_nodes: int) -> None:
    """Fire what is due until the process is killed."""
    chance = random.Random(seed)  # noqa: S311 - a plan, no secret
    woken = threading.Event()
    threading.Thread(target=_listen, args=(url, woken), daemon=True).start()
    while True:
        try:
            store = open_store(Secret(url), Path(tempfile.gettempdir()))
            careless: Any = _Careless(store, chance)
            while True:
                woken.clear()
                fired = fire.fire(careless, by=name)
                woken.wait(fire.interval_s(fired.next_in_s, live_nodes=live_nodes, chance=chance.random()))
        except StoreUnreachableError:
            time.sleep(AGAIN_S)


def _listen(url: str, woken: threading.Event) -> None:
    """Hear of jobs' ends and of changed crons, as a node does; listening anew, anything may have been said before."""
    while True:
        try:
            store = open_store(Secret(url), Path(tempfile.gettempdir()))
            assert store.shared is not None
            woken.set()
            for word in store.shared.queue.wakes(timeout_s=1.0):
                if word == "crons":
                    woken.set()
        except StoreUnreachableError:
            time.sleep(AGAIN_S)


if __name__ == "__main__":
    contend(sys.argv[1], sys.argv[2], seed=int(sys.argv[3]), live_nodes=int(sys.argv[4]))
