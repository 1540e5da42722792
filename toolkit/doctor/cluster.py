"""Reads once what the cluster remembers: registry, releases, locks, jobs, crawls; and judges nodes and crawls by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolkit.cluster.attention import find_plug_in_attention
from toolkit.cluster.crawls import HELD_LONG_S
from toolkit.cluster.entries import read_entry
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.snapshot import Remembered, recall, take_snapshot
from toolkit.doctor.judged import ERROR, NOTE, WARNING, Judged, found
from toolkit.model.crawls import CrawlView, EntryView
from toolkit.model.findings import Severity
from toolkit.model.jobs import Job
from toolkit.model.names import CrawlId, NodeName, job_of
from toolkit.model.nodes import NodeRecord
from toolkit.model.releases import Release, RolloutLock
from toolkit.model.rollouts import WaveRollout
from toolkit.model.snapshot import NodeState, Snapshot
from toolkit.store.interfaces import Store

MAX_CRAWLS = 200
LITTLE_DISK_MB, LITTLE_MEMORY_MB = 1_000, 300

# What `status` says in passing, as a doctor names and weighs it. Eggs and reachability are looked at more closely.
_OF_A_NODE: Mapping[str, tuple[str, Severity]] = {
    "lost": ("node-lost", ERROR),
    "stale": ("node-stale", WARNING),
    "clash": ("node-clash", ERROR),
    "unfit": ("node-unfit", WARNING),
    "draining": ("node-draining", NOTE),
}
_OF_ALL: Mapping[str, tuple[str, Severity]] = {
    "waiting": ("jobs-waiting", WARNING),
    "jobs_lost": ("jobs-lost", WARNING),
}


@dataclass(frozen=True, slots=True)
class ClusterEvidence:
    """What the store knows, and what the nodes hold.

    `rollouts` are those that are open, `offered` what is on offer although nobody is at work; `dead` counts the dead
    entries of crawls that have any.
    """

    snapshot: Snapshot
    known: Remembered
    listed: frozenset[NodeName]
    """Every host of the inventory, also those that were not picked."""
    jobs: Sequence[Job] = ()
    locks: Sequence[RolloutLock] = ()
    rollouts: Sequence[WaveRollout] = ()
    offered: Sequence[Release] = ()
    dead: Mapping[CrawlId, int] = field(default_factory=dict)
    held: Mapping[CrawlId, EntryView] = field(default_factory=dict)
    """Of crawls that are not paused, an entry that a live worker has had in hand for long."""
    unseen: tuple[str, ...] = ()

    @property
    def records(self) -> Mapping[NodeName, NodeRecord]:
        """The registered nodes by name."""
        return {record.name: record for record in self.known.registered}

    @property
    def chosen_records(self) -> tuple[NodeRecord, ...]:
        """The registered nodes that are looked at: those picked, or all."""
        shown = {status.name for status in self.snapshot.nodes}
        return tuple(record for record in self.known.registered if record.name in shown)


def look_at_cluster(
    nodes: Nodes, open_store: Callable[[], Store], *, listed: frozenset[NodeName], is_whole: bool
) -> ClusterEvidence:
    """Read everything once; with the store away only what the nodes themselves say is there.

    Raises:
        StoreUnreachableError: the store went away while it was read.

    """
    known = recall(open_store)
    snapshot = take_snapshot(nodes, known, is_whole=is_whole)
    if known.error is not None:
        return ClusterEvidence(snapshot, known, listed)
    store = open_store()
    projects = store.releases.projects()
    rollouts = [each for each in store.rollouts.recent() if each.state.is_open]
    known_projects = dict.fromkeys([*projects, *(each.project for each in rollouts)])
    held = [lock for name in known_projects if (lock := store.releases.holder(name)) is not None]
    busy = {lock.project for lock in held} | {each.project for each in rollouts}
    shared = store.shared
    offered = () if shared is None else [each for each in shared.eggs.offered() if each.project not in busy]
    crawls = [] if shared is None else [plan.crawl for plan in shared.crawls.all()]
    views = [] if shared is None else [shared.crawls.view(crawl) for crawl in crawls[:MAX_CRAWLS]]
    unseen = (f"the crawls beyond the first {MAX_CRAWLS}",) if len(crawls) > MAX_CRAWLS else ()
    return ClusterEvidence(
        snapshot,
        known,
        listed,
        jobs=store.jobs.unfinished(),
        locks=held,
        rollouts=rollouts,
        offered=offered,
        dead={view.plan.crawl: view.dead for view in views if view is not None and view.dead},
        held={view.plan.crawl: entry for view in views if view is not None and (entry := _held(view)) is not None},
        unseen=unseen,
    )


def judge_cluster(evidence: ClusterEvidence, *, looked_at: Collection[NodeName]) -> list[Judged]:
    """Say what is wrong with nodes, queue and crawls by what the store knows. Pure.

    Of hosts that were `looked_at` over SSH, disk and memory are judged by that, so that nothing is said twice.
    """
    judged = [
        found(*_OF_ALL[each.kind], each.message, command=each.command)
        for each in evidence.snapshot.attention
        if each.kind in _OF_ALL
    ]
    for crawl, dead in sorted(evidence.dead.items()):
        text = f"crawl {crawl} has {dead} dead entries: whoever worked on them died, so nobody gets them any more"
        judged.append(found("crawl-dead", WARNING, text, command=f"crawlctl crawls peek {crawl} --dead"))
    for crawl, entry in sorted(evidence.held.items()):
        if entry.worker is not None and entry.taken_at is not None:
            job, hours = job_of(entry.worker), (evidence.known.now - entry.taken_at).total_seconds() / 3600
            page = read_entry(entry).url or entry.leased.entry.hex()
            text = f"job {job} has had {page} of crawl {crawl} in hand for {hours:.1f} h: the crawl cannot end before"
            judged.append(found("crawl-held", WARNING, text, command=f"crawlctl logs {job} -n 50"))
    for record in evidence.chosen_records:
        judged += _judge_record(record)
        if record.name not in evidence.listed:
            text = "is registered, and the inventory does not list it: what goes by HTTP or SSH leaves it out"
            command = f"crawlctl nodes show {record.name}"
            judged.append(found("node-unlisted", NOTE, text, node=record.name, command=command))
        if record.name not in looked_at:
            judged += _judge_room(record)
    return judged


def _held(view: CrawlView) -> EntryView | None:
    return None if view.controls.is_paused else view.held_for(HELD_LONG_S)


def _judge_record(record: NodeRecord) -> Iterator[Judged]:
    """Say of one node what `status` would say of it."""
    for each in find_plug_in_attention([record], {}, counts={}, lines=()):
        if each.kind in _OF_A_NODE:
            text = each.message.removeprefix(f"{record.name} ")
            command = f"crawlctl nodes show {record.name}" if each.kind == "clash" else each.command
            yield found(*_OF_A_NODE[each.kind], text, node=record.name, command=command)


def _judge_room(record: NodeRecord) -> Iterator[Judged]:
    name, report = record.name, record.report
    if record.state is NodeState.LOST or report.unfit is not None:
        return
    show = f"crawlctl nodes show {name}"
    if report.disk_free_mb is not None and report.disk_free_mb < LITTLE_DISK_MB:
        text = f"has {report.disk_free_mb} MB of disk left for logs and items"
        yield found("node-disk", WARNING, text, node=name, command=show)
    if report.memory_free_mb is not None and report.memory_free_mb < LITTLE_MEMORY_MB:
        text = f"has {report.memory_free_mb} MB of memory left for spiders"
        yield found("node-memory", WARNING, text, node=name, command=show)
