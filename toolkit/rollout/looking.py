"""A look at the nodes that took a release: whether they are there, well, and still hold it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from toolkit.cluster.membership import registered
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import NodeAnswerError
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.rollout.gate import problem_of
from toolkit.rollout.targets import Target
from toolkit.store.interfaces import Store

PATIENCE_S = 10.0
"""How long a node that just stumbles has to recover before it counts as failed."""

LOOK_EVERY_S = 0.5


def problems(
    targets: Sequence[Target], store: Store, project: ProjectName, version: VersionName
) -> dict[NodeName, str]:
    """Return what is wrong with each of these nodes that is not well, once their time to recover is over.

    Stock nodes are asked by HTTP, of the others the registry tells.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = _look(targets, store, project, version)
        if not found or time.monotonic() >= deadline:
            return found
        time.sleep(LOOK_EVERY_S)
        targets = [target for target in targets if target.name in found]


def _look(targets: Sequence[Target], store: Store, project: ProjectName, version: VersionName) -> dict[NodeName, str]:
    plugged = [target.name for target in targets if target.record is not None]
    records = {record.name: record for record in registered(store)} if plugged else {}
    told = {name: problem_of(records.get(name), project, version) for name in plugged}

    def hold(node: ScrapydNode) -> None:
        if version not in node.versions(project):
            raise NodeAnswerError(node.name, "gate", f"it no longer lists {version}")

    stock = Nodes([target.node for target in targets if target.record is None and target.node is not None])
    asked = stock.ask(hold)
    return {name: why for name, why in told.items() if why is not None} | {
        outcome.node: str(outcome.error) for outcome in asked.failed
    }
