"""Which node gets which job: pure decisions on loads that were just read."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from toolkit.cluster.scrapyd import NodeLoad
from toolkit.model.names import NodeName


def spread(loads: Mapping[NodeName, NodeLoad], count: int) -> list[NodeName]:
    """Name a node for each of `count` jobs: always the one with the least work, counting what was just placed.

    Among equals the inventory's order decides, so that n jobs over n idle nodes land one each.
    """
    heap = [(load.pending + load.running, order, name) for order, (name, load) in enumerate(loads.items())]
    heapq.heapify(heap)
    chosen: list[NodeName] = []
    while heap and len(chosen) < count:
        work, order, name = heap[0]
        chosen.append(name)
        heapq.heapreplace(heap, (work + 1, order, name))
    return chosen
