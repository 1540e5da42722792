"""The nodes as an operator keeps them: listed, drained, taken up again, forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.cluster.membership import registered, split
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.snapshot import plug_in_status, stock_statuses
from toolkit.cluster.waiting import OnAway, patiently
from toolkit.config.nearest import did_you_mean
from toolkit.model.errors import NodesFailedError, NotFoundError, RefusedError
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.snapshot import NodeState, NodeStatus
from toolkit.store.interfaces import Shared, Store

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node, of either kind; `None` is what is not known, and for a stock node that is most of it.

    `error` is why a stock node could not be asked, or what is wrong with a plug-in node: why it takes no job now, or
    that another one claims its name.
    """

    name: NodeName
    address: str
    state: NodeState
    kind: str
    slots: int | None = None
    running: int | None = None
    load: float | None = None
    memory_free_mb: int | None = None
    disk_free_mb: int | None = None
    versions: Mapping[ProjectName, tuple[VersionName, ...]] | None = None
    heartbeat_age_s: float | None = None
    is_draining: bool = False
    drained_by: str | None = None
    error: str | None = None
    behind: Mapping[str, str] = field(default_factory=dict)
    environments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    started_at: datetime | None = None
    outside: str | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """A node that takes no new job; `running` is how many it had at the last look; an `error`: not empty in time."""

    name: NodeName
    running: int
    error: NodesFailedError | None = None


def list_nodes(store: Store, nodes: Nodes, *, is_whole: bool = True) -> list[NodeRow]:
    """Return the given nodes and, when they are the whole inventory, every registered one besides, sorted by name.

    Plug-in nodes are read from the store at once; only stock ones are asked by HTTP.
    """
    records = registered(store)
    _, stock = split(nodes, records)
    rows = [_of_record(record) for record in records if is_whole or record.name in nodes]
    rows += [_of_status(status) for status in stock_statuses(stock)]
    return sorted(rows, key=lambda row: row.name)


def show_node(store: Store, nodes: Nodes, name: str) -> NodeRow:
    """Return what is known of one node, of either kind.

    Raises:
        NotFoundError: neither the inventory nor the registry knows it; the nearest name is told.

    """
    records = {record.name: record for record in registered(store)}
    known = NodeName(name)
    if known in records:
        return _of_record(records[known])
    if known not in nodes:
        raise _unknown([known], [*nodes.names, *records])
    return _of_status(stock_statuses(nodes.only([known]))[0])


def drain(
    store: Store,
    names: Sequence[NodeName],
    *,
    who: str,
    wait_s: float = 0.0,
    on_look: Callable[[Sequence[NodeRecord]], None] = lambda _records: None,
    on_away: OnAway | None = None,
) -> list[Drained]:
    """Let these nodes take no new job, and wait up to `wait_s` seconds until what they run has ended.

    A lost node counts as empty: its jobs have been given to others. `on_look` hears of every look at the nodes. A count
    is believed only when the node has told it after the drain: what it said before may have been overtaken by a claim.
    A store that is away meanwhile is waited for if there is an `on_away` to hear of it.

    Raises:
        NotFoundError: one of them is no plug-in node; nothing was changed.

    """
    shared = _shared_with(store, names)
    shared.nodes.drain(names, who=who)
    since = store.now()
    deadline = time.monotonic() + wait_s
    while True:
        known = patiently(shared.nodes.all, on_away=on_away, patience_s=max(0.0, deadline - time.monotonic()))
        records = [record for record in known if record.name in set(names)]
        on_look(records)
        is_late = time.monotonic() >= deadline
        if is_late or all(is_empty(record, since=since) for record in records):
            return [_drained(record, since=since if wait_s > 0 else None) for record in records]
        time.sleep(POLL_S)


def resume(store: Store, names: Sequence[NodeName]) -> list[NodeName]:
    """Let drained nodes take jobs again; return them.

    Raises:
        NotFoundError: one of them is no plug-in node; nothing was changed.

    """
    return sorted(_shared_with(store, names).nodes.resume(names))


def forget(store: Store, names: Sequence[NodeName]) -> list[NodeName]:
    """Drop nodes that are lost for good from the registry; return them.

    Raises:
        NotFoundError: one of them is no plug-in node; nothing was changed.
        RefusedError: one of them still gives signs of life; nothing was changed.

    """
    shared = _shared_with(store, names)
    alive = [record.name for record in shared.nodes.all() if record.name in names and not _is_lost(record)]
    if alive:
        one = len(alive) == 1
        still = "still gives signs of life, so it" if one else "still give signs of life, so they"
        raise RefusedError(
            f"{', '.join(alive)} {still} would register again",
            hint=f"stop {'its' if one else 'their'} Scrapyd first; crawlctl nodes drain keeps a node from taking jobs",
        )
    return sorted(shared.nodes.forget(names))


def is_empty(record: NodeRecord, *, since: datetime) -> bool:
    """Tell whether a node that drains since then runs nothing any more. Pure."""
    return _is_lost(record) or (record.beat_at > since and record.report.running == 0)


def _drained(record: NodeRecord, *, since: datetime | None) -> Drained:
    """Say what came of a drain; one that was waited for has its begin, and must be proven to have come to an end."""
    running = 0 if _is_lost(record) else record.report.running
    if since is None or is_empty(record, since=since):
        return Drained(record.name, running)
    what = f"still runs {running} job(s)" if running else "has not told yet that it runs nothing"
    hint = f"crawlctl jobs list --state running --on {record.name}"
    return Drained(record.name, running, NodesFailedError(f"{record.name} {what}", hint=hint))


def _is_lost(record: NodeRecord) -> bool:
    return record.state is NodeState.LOST


def _shared_with(store: Store, names: Sequence[NodeName]) -> Shared:
    """Return the shared rooms once it is sure that all these nodes are registered there."""
    if store.shared is None:
        raise NotFoundError("there is no plug-in node without a Redis", hint="stock nodes cannot be drained")
    known = [record.name for record in store.shared.nodes.all()]
    if unknown := [name for name in names if name not in known]:
        raise _unknown(unknown, known)
    return store.shared


def _unknown(names: Sequence[str], known: Sequence[str]) -> NotFoundError:
    nearest = did_you_mean(names[0], known) if len(names) == 1 else ""
    return NotFoundError(
        f"no plug-in node {', '.join(names)} is registered{nearest}", hint="crawlctl nodes list shows them"
    )


def _of_record(record: NodeRecord) -> NodeRow:
    status, report = plug_in_status(record), record.report
    return NodeRow(
        name=record.name,
        address=report.address,
        state=status.state,
        kind=status.kind,
        slots=report.slots,
        running=report.running,
        load=report.load,
        memory_free_mb=report.memory_free_mb,
        disk_free_mb=report.disk_free_mb,
        versions=report.versions,
        heartbeat_age_s=record.age_s,
        is_draining=record.is_draining,
        drained_by=record.drained_by,
        error=status.error,
        behind=report.behind,
        environments=report.environments,
        labels=report.labels,
        software=report.software,
        started_at=report.started_at,
        outside=report.outside,
    )


def _of_status(status: NodeStatus) -> NodeRow:
    return NodeRow(
        name=status.name,
        address=status.address,
        state=status.state,
        kind=status.kind,
        slots=status.slots,
        running=status.running,
        versions=status.projects,
        error=status.error,
    )
