"""Drops what cleared crawls have left behind, in small steps, so that no server stands still for a large seen set."""

from __future__ import annotations

import time
from collections.abc import Sequence

from toolkit.store.connect import RedisDoor
from toolkit.store.crawl_keys import CLUSTERS

_KEYS_A_STEP = 500
_PATIENCE_S = 3.0


def sweep(door: RedisDoor, keys: Sequence[str]) -> None:
    """Drop seen sets that were cleared, for at most three seconds; whoever comes next goes on where this one stopped.

    Raises:
        StoreUnreachableError: Redis is away; what is left is dropped another time.

    """
    until = time.monotonic() + _PATIENCE_S
    while door.run("crawl_sweep", keys=keys, args=[_KEYS_A_STEP, CLUSTERS]) and time.monotonic() < until:
        pass
