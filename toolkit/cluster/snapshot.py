"""The snapshot of a cluster: ask every node once, hold it against the active releases, say what needs attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from toolkit.cluster.alerts import firing
from toolkit.cluster.attention import (
    find_alerts,
    find_attention,
    find_plug_in_attention,
    find_redis_attention,
    find_strays,
)
from toolkit.cluster.membership import PLUG_IN, plug_in_error, split
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import NodeLoad, ScrapydNode
from toolkit.model.errors import NodeError, NodeUnauthorizedError, StoreUnreachableError
from toolkit.model.hosts import Host
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.queue import Line
from toolkit.model.redis_health import RedisHealth
from toolkit.model.releases import Release
from toolkit.model.snapshot import Attention, NodeState, NodeStatus, Snapshot
from toolkit.store.interfaces import Store

MAX_YOUNG = 500
PATIENCE = timedelta(seconds=15)
_UNFINISHED = frozenset(state for state in JobState if not state.is_final)

Seen = tuple[NodeLoad, dict[ProjectName, tuple[VersionName, ...]]]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the store knows of the cluster; with an `error` it could not be asked, and nothing is known.

    `unfinished` are jobs scheduled in the last seconds. `counts` and `lines` are the shared queue's, `registered`
    the plug-in nodes, `firing` what alerts fire for, `redis` how the Redis is; all are empty where there is none.
    """

    now: datetime
    active: Mapping[ProjectName, Release] = field(default_factory=dict)
    versions: Mapping[ProjectName, frozenset[VersionName]] = field(default_factory=dict)
    unfinished: Sequence[Job] = ()
    registered: Sequence[NodeRecord] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    lines: Sequence[Line] = ()
    firing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    redis: RedisHealth | None = None
    error: StoreUnreachableError | None = None


def recall(open_store: Callable[[], Store]) -> Remembered:
    """Ask the store; one that is away costs the snapshot its releases and plug-in nodes, never the view of the rest."""
    try:
        store = open_store()
        now, shared, active = store.now(), store.shared, store.releases.actives()
        # While a rollout is under way, what it has brought is not a release yet, and no stray either.
        settled = [name for name in active if store.releases.holder(name) is None]
        versions = {name: frozenset(each.version for each in store.releases.releases(name)) for name in settled}
        young = JobFilter(states=_UNFINISHED, since=now - PATIENCE)
        return Remembered(
            now,
            active,
            versions,
            unfinished=store.jobs.recent(young, limit=MAX_YOUNG),
            registered=() if shared is None else shared.nodes.all(),
            counts={} if shared is None else shared.queue.counts(),
            lines=() if shared is None else shared.queue.lines(),
            firing={} if shared is None else firing(shared.events.states()),
            redis=None if shared is None else shared.measures.redis(),
        )
    except StoreUnreachableError as error:
        return Remembered(datetime.now(UTC), error=error)


def take_snapshot(nodes: Nodes, known: Remembered, *, is_whole: bool = True) -> Snapshot:
    """Show plug-in nodes as they last reported, and ask all stock ones at once: load, projects, their versions.

    When the given nodes are the whole inventory, registered nodes that it does not list are shown too. With the store
    away nobody knows which nodes have the plug-in, and all are asked.
    """
    records = [record for record in known.registered if is_whole or record.name in nodes]
    _, stock = split(nodes, known.registered)
    outcomes = stock.ask(_look, calls=3)
    statuses = [_status(stock[outcome.node].host, outcome) for outcome in outcomes]
    statuses = _in_order(nodes, [*statuses, *(plug_in_status(record) for record in records)])
    versions = {project: release.version for project, release in known.active.items()}
    young = (job for job in known.unfinished if job.scheduled_at and known.now - job.scheduled_at < PATIENCE)
    fresh = {job.node for job in young if job.node}
    open_nodes = _open_nodes(stock, outcomes)
    attention = [] if known.redis is None else find_redis_attention(known.redis)
    attention += find_attention(statuses, versions, without_password=open_nodes, just_scheduled=fresh)
    attention += find_plug_in_attention(records, versions, counts=known.counts, lines=known.lines)
    attention += find_strays(statuses, known.versions)
    attention += find_alerts(known.firing)
    if known.error is not None:
        attention.insert(0, Attention("store", known.error.message, command=known.error.hint))
    counts = known.counts
    if known.error is not None:
        counts = queue_counts([outcome.value[0] for outcome in outcomes if outcome.value is not None])
    return Snapshot(
        known.now,
        tuple(statuses),
        versions,
        tuple(attention),
        is_store_away=known.error is not None,
        queued=counts.get("pending", 0),
        taken=counts.get("active", 0),
        ended=counts.get("ended", 0),
    )


def queue_counts(loads: Sequence[NodeLoad]) -> dict[str, int]:
    """Count the shared queue's jobs by what plug-in nodes say themselves: each that reaches Redis counts all. Pure."""
    plugged = [load for load in loads if load.running_here is not None]
    told = [load for load in plugged if load.cluster is not None]
    if not told:
        return {"active": sum(load.running_here or 0 for load in plugged)}
    return {"pending": told[-1].pending, "active": told[-1].running, "ended": told[-1].finished}


def stock_statuses(nodes: Nodes) -> list[NodeStatus]:
    """Ask stock nodes how they are, all at once."""
    return [_status(nodes[outcome.node].host, outcome) for outcome in nodes.ask(_look, calls=3)]


def plug_in_status(record: NodeRecord) -> NodeStatus:
    """Show a plug-in node as it last reported; nothing is sent to it. Pure."""
    report = record.report
    return NodeStatus(
        record.name,
        report.address,
        record.state,
        kind=PLUG_IN,
        slots=report.slots,
        running=report.running if record.state is not NodeState.LOST else None,
        projects=report.versions,
        error=plug_in_error(record),
    )


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
    if load.running_here is not None:
        running = load.running_here
        return NodeStatus(
            host.name, host.place, NodeState.LIVE, PLUG_IN, slots=host.slots, running=running, projects=projects
        )
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


def _in_order(nodes: Nodes, statuses: Sequence[NodeStatus]) -> list[NodeStatus]:
    """Put the inventory's nodes first, in its order, then the others by name."""
    places = {name: place for place, name in enumerate(nodes.names)}
    return sorted(statuses, key=lambda status: (places.get(status.name, len(places)), status.name))


def _open_nodes(nodes: Nodes, outcomes: Outcomes[Seen]) -> list[NodeName]:
    """Name the nodes that answered us without credentials: they answer everybody."""
    return [outcome.node for outcome in outcomes if outcome.ok and nodes[outcome.node].host.password is None]
