"""What an open rollout in waves has brought so far, as whoever takes it back or ends it has to know."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.names import NodeName
from toolkit.model.releases import LATER, NodeResult
from toolkit.model.rollouts import Wave, WaveRollout
from toolkit.rollout.push import LOOK, UPLOAD, Pushed
from toolkit.store.interfaces import Store

GONE = "it is neither in the inventory nor registered any more"


def has_activated(store: Store, rollout: WaveRollout) -> bool:
    """Tell whether its one write was done: an open rollout whose release is active was cut short right after."""
    active = store.releases.active(rollout.project)
    return active is not None and active.version == rollout.version != rollout.former


@dataclass(frozen=True, slots=True)
class Brought:
    """What an undo has to look after; a node of which nothing is known may have the egg.

    `proven` had it before; those `holding` it say so now, and where they were lost when tried, they took it since.
    """

    proven: frozenset[NodeName]
    holding: frozenset[NodeName]

    def of(self, wave: Wave) -> list[Pushed]:
        """Return what became of the wave's nodes, those that may have the egg as ours."""
        told = {each.node: each for each in wave.results}
        found = []
        for name in wave.nodes:
            known = told.get(name)
            has_come_back = known is not None and known.step == LATER and name in self.holding
            is_ours = name in wave.taken or ((known is None or has_come_back) and name not in self.proven)
            if known is not None or is_ours:
                is_new = known is None or (is_ours and has_come_back)
                result = NodeResult(name, ok=True, step=UPLOAD, seconds=0.0) if is_new else known
                found.append(Pushed(result or missing(name), is_ours))
        return found


def missing(name: NodeName) -> NodeResult:
    """Return the result of a node that nobody knows any more."""
    return NodeResult(name, ok=False, step=LOOK, seconds=0.0, error=GONE)
