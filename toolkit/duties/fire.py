"""The duty of firing crons that are due: any survivor does it. When is decided here; what, in `crons` and in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.crons.firing import proposal
from toolkit.model.crons import Firing
from toolkit.model.errors import StoreUnreachableError
from toolkit.store.interfaces import Store

LOOK_EVERY_S = 10.0
"""How often a node looks for what is due although nothing is to be expected: a wake may have been missed."""

MOST_A_LOOK = 50
LEASE_S = 2.0
"""How long a node may take to fire what it was given, before another is given it too."""

AGAIN_S = 1.0
SPREAD_A_NODE_S = 0.0005
MAX_SPREAD_S = 0.3
"""Within this, all nodes have looked for a firing that is due: the first of many is early, and Redis sees no crowd."""


@dataclass(frozen=True, slots=True)
class Fired:
    """What one turn did, and in how many seconds the next firing is due, if one is known."""

    firings: Sequence[Firing] = ()
    next_in_s: float | None = None


def spread_s(*, live_nodes: int, chance: float) -> float:
    """Return by how much a node puts off its look, so that nodes that all know the time do not come at once. Pure."""
    return min(MAX_SPREAD_S, SPREAD_A_NODE_S * max(0, live_nodes - 1)) * chance


def interval_s(next_in_s: float | None, *, live_nodes: int, chance: float) -> float:
    """Return how long a node waits before its next look; `chance` is a random number from 0 to 1. Pure.

    It looks when the next firing is due, as the look before told, and every few seconds all the same.
    """
    usual_s = LOOK_EVERY_S * (0.75 + chance / 2)
    if next_in_s is None:
        return usual_s
    return min(usual_s, max(0.0, next_in_s) + spread_s(live_nodes=live_nodes, chance=chance))


def fire(store: Store, *, by: str) -> Fired:
    """Fire some of the crons that are due; those that are left are the next turn's, which is to be taken at once.

    Idempotent: whoever dies in between has done nothing or all of a firing, and what it had not done yet is another's.

    Raises:
        StoreUnreachableError: Redis does not answer.

    """
    if store.shared is None:
        raise StoreUnreachableError("the store holds no crons")
    crons = store.shared.crons
    taken = crons.take(most=MOST_A_LOOK, lease_s=LEASE_S)
    if not taken.crons:
        return Fired(next_in_s=taken.next_in_s)
    releases = store.releases.actives()
    told = crons.commit([proposal(each, releases=releases, now=taken.now, by=by) for each in taken.crons])
    # What was committed may be due again soon, and its next due time was not known before.
    return Fired([firing for firing in told if firing is not None], next_in_s=0.0)
