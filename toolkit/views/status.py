"""How a snapshot is shown: one screen for three nodes, and still readable for three hundred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolkit.model.snapshot import NodeState, NodeStatus, Snapshot
from toolkit.views.contract import snapshot_object
from toolkit.views.harmless import visible
from toolkit.views.nodes import STYLES
from toolkit.views.view import FittedTable, Styled, View, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_ROWS = 25
MAX_PROJECTS = 3
MAX_ERROR_CHARS = 100
SPARE = ("KIND", "SLOTS", "ADDRESS", "FINISHED")


def status_view(snapshot: Snapshot, *, shows_all: bool = False) -> View:
    """Show the cluster; beyond 25 nodes only those with trouble or the most work, unless all are asked for."""
    return View(snapshot_object(snapshot), lambda: _screen(snapshot, shows_all=shows_all))


def worth_showing(nodes: Sequence[NodeStatus], *, most: int) -> list[NodeStatus]:
    """Pick the nodes for a short table: those in trouble first, then the busiest; shown in their own order."""

    def weight(node: NodeStatus) -> tuple[bool, int]:
        return node.state is NodeState.LIVE, -((node.running or 0) + (node.pending or 0))

    chosen = {node.name for node in sorted(nodes, key=weight)[:most]}
    return [node for node in nodes if node.name in chosen]


def _screen(snapshot: Snapshot, *, shows_all: bool) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    nodes = snapshot.nodes if shows_all else worth_showing(snapshot.nodes, most=MAX_ROWS)
    parts: list[RenderableType] = [_summary(snapshot), Text(), _nodes_table(snapshot, nodes)]
    if len(nodes) < len(snapshot.nodes):
        shown = {node.name for node in nodes}
        rest = _counted(node.state for node in snapshot.nodes if node.name not in shown)
        parts.append(Text(f"… and {len(snapshot.nodes) - len(nodes)} more ({rest}); --all shows them", style="dim"))
    if snapshot.attention:
        parts += [Text(), Text("needs attention", style="bold yellow")]
        for each in snapshot.attention:
            parts.append(Text(visible(f"  {each.message}" + (f"  → {each.command}" if each.command else ""))))
    return Group(*parts)


def _summary(snapshot: Snapshot) -> RenderableType:
    from rich.text import Text

    nodes = _counted(node.state for node in snapshot.nodes)
    # Scrapyd calls every job finished that has ended; here that word would promise a good end.
    words = {"pending": "pending", "running": "running", "finished": "ended"}
    jobs = ", ".join(f"{snapshot.total(count)} {word}" for count, word in words.items())
    active = ", ".join(f"{project} {version}" for project, version in sorted(snapshot.active.items()))
    none = "unknown, since the store cannot be asked" if snapshot.is_store_away else "no release yet"
    return Text(f"nodes     {nodes or 'none'}\njobs      {jobs}\nactive    {visible(active) or none}")


def _counted(states: Iterable[NodeState]) -> str:
    counts = Counter(states)
    return ", ".join(f"{counts[state]} {state.value}" for state in NodeState if counts[state])


def _nodes_table(snapshot: Snapshot, nodes: Sequence[NodeStatus]) -> FittedTable:
    rows = [
        (
            node.name,
            node.address,
            Styled(node.state.value, STYLES[node.state]),
            node.kind,
            node.slots,
            node.pending,
            node.running,
            node.finished,
            _holdings(snapshot, node) if node.error is None else node.error[:MAX_ERROR_CHARS],
        )
        for node in nodes
    ]
    columns = ("NODE", "ADDRESS", "STATE", "KIND", "SLOTS", "PENDING", "RUNNING", "FINISHED", "PROJECTS")
    return plain_table(*columns, rows=rows, right=("SLOTS", "PENDING", "RUNNING", "FINISHED"), spare=SPARE)


def _holdings(snapshot: Snapshot, node: NodeStatus) -> str | None:
    """Name each project with how many versions are there, and mark one whose active version is missing."""
    texts = []
    for project, versions in sorted((node.projects or {}).items()):
        active = snapshot.active.get(project)
        is_behind = active is not None and active not in versions
        texts.append(f"{project} ({len(versions)}{', behind' if is_behind else ''})")
    more = len(texts) - MAX_PROJECTS
    return ", ".join(texts[:MAX_PROJECTS]) + (f" and {more} more" if more > 0 else "") or None
