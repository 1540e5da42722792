"""The snapshot of a cluster: ask every node once, hold it against the active releases, say what needs attention."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import NodeLoad, ScrapydNode
from toolkit.model.errors import NodeError, NodeUnauthorizedError, StoreUnreachableError
from toolkit.model.hosts import Host
from toolkit.model.jobs import Job
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.releases import Release
from toolkit.model.snapshot import Attention, NodeState, NodeStatus, Snapshot
from toolkit.store.interfaces import Store

MAX_NAMED = 3
PATIENCE = timedelta(seconds=15)

Seen = tuple[NodeLoad, dict[ProjectName, tuple[VersionName, ...]]]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the store knows of the cluster; with an `error` it could not be asked, and nothing is known."""

    now: datetime
    active: Mapping[ProjectName, Release] = field(default_factory=dict)
    versions: Mapping[ProjectName, frozenset[VersionName]] = field(default_factory=dict)
    unfinished: Sequence[Job] = ()
    error: StoreUnreachableError | None = None


def recall(open_store: Callable[[], Store]) -> Remembered:
    """Ask the store; one that is away costs the snapshot its releases, never the view of the nodes."""
    try:
        store = open_store()
        active = store.releases.actives()
        # While a rollout is under way, what it has brought is not a release yet, and no stray either.
        settled = [name for name in active if store.releases.holder(name) is None]
        versions = {name: frozenset(each.version for each in store.releases.releases(name)) for name in settled}
        return Remembered(store.now(), active, versions, store.jobs.unfinished())
    except StoreUnreachableError as error:
        return Remembered(datetime.now(UTC), error=error)


def take_snapshot(nodes: Nodes, known: Remembered) -> Snapshot:
    """Ask all nodes at once: load, projects, and the versions of each project."""
    outcomes = nodes.ask(_look, calls=3)
    statuses = tuple(_status(nodes[outcome.node].host, outcome) for outcome in outcomes)
    versions = {project: release.version for project, release in known.active.items()}
    young = (job for job in known.unfinished if job.scheduled_at and known.now - job.scheduled_at < PATIENCE)
    fresh = {job.node for job in young if job.node}
    attention = find_attention(statuses, versions, without_password=_open_nodes(nodes, outcomes), just_scheduled=fresh)
    attention += find_strays(statuses, known.versions)
    if known.error is not None:
        attention.insert(0, Attention("store", known.error.message, command=known.error.hint))
    return Snapshot(known.now, statuses, versions, tuple(attention), is_store_away=known.error is not None)


def find_attention(
    statuses: Sequence[NodeStatus],
    active: Mapping[ProjectName, VersionName],
    *,
    without_password: Sequence[NodeName],
    just_scheduled: Collection[NodeName],
) -> list[Attention]:
    """Say what an operator should look at, the worst first. Pure.

    A node that was given a job a moment ago is not yet blamed for not running it: stock Scrapyd looks every 5 s.
    """
    found: list[Attention] = []
    for state, what in (
        (NodeState.UNREACHABLE, "cannot be reached"),
        (NodeState.UNAUTHORIZED, "refuses our credentials"),
    ):
        if names := [node.name for node in statuses if node.state is state]:
            found.append(_about(state.value, names, what))
    if without_password:
        found.append(
            _about(
                "open",
                without_password,
                "runs anybody's code: it asks for no password",
                "set username and password in its scrapyd.conf",
            )
        )
    live = [node for node in statuses if node.state is NodeState.LIVE]
    for project, version in sorted(active.items()):
        behind = [node.name for node in live if version not in (node.projects or {}).get(project, ())]
        if behind:
            found.append(_about("behind", behind, f"does not hold {project} {version}", "crawlctl deploy"))
    idle = (node.name for node in live if node.pending and not node.running)
    if waiting := [name for name in idle if name not in just_scheduled]:
        found.append(_about("waiting", waiting, "has jobs pending and runs none", "crawlctl jobs list --state pending"))
    return found


def find_strays(
    statuses: Sequence[NodeStatus], versions: Mapping[ProjectName, frozenset[VersionName]]
) -> list[Attention]:
    """Name the nodes with versions that no release knows: left by a killed deploy, or brought by others. Pure."""
    found = []
    for project, known in sorted(versions.items()):
        names = [node.name for node in statuses if set((node.projects or {}).get(project, ())) - known]
        if names:
            what = f"holds versions of {project} that no release knows"
            found.append(_about("stray", names, what, f"crawlctl prune -p {project} --strays --dry-run"))
    return found


def _look(node: ScrapydNode) -> Seen:
    load = node.load()
    return load, {project: node.versions(project) for project in node.projects()}


def _status(host: Host, outcome: Outcome[Seen]) -> NodeStatus:
    if outcome.value is None:
        is_refused = isinstance(outcome.error, NodeUnauthorizedError)
        state = NodeState.UNAUTHORIZED if is_refused else NodeState.UNREACHABLE
        why = outcome.error.why if isinstance(outcome.error, NodeError) else str(outcome.error)
        return NodeStatus(host.name, host.place, state, slots=host.slots, error=why)
    load, projects = outcome.value
    return NodeStatus(
        host.name,
        host.place,
        NodeState.LIVE,
        slots=host.slots,
        pending=load.pending,
        running=load.running,
        finished=load.finished,
        projects=projects,
    )


def _open_nodes(nodes: Nodes, outcomes: Outcomes[Seen]) -> list[NodeName]:
    """Name the nodes that answered us without credentials: they answer everybody."""
    return [outcome.node for outcome in outcomes if outcome.ok and nodes[outcome.node].host.password is None]


def _about(kind: str, names: Sequence[NodeName], what: str, command: str | None = None) -> Attention:
    more = len(names) - MAX_NAMED
    some = ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return Attention(kind, f"{some} {what}", tuple(names), command)
