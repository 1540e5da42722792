"""The duty of telling what nobody tells of himself: nodes gone silent, a queue that grows, crawls that are over.

Any survivor does it, one at a time; what is worth an event is decided by pure functions beside this module from what
was last told, which Redis remembers: however many tell of the same change, it is one event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.duties.node_changes import behind_changes, node_changes, unwatched
from toolkit.duties.queue_changes import look_at, queue_changes
from toolkit.model.crawls import CrawlEnd
from toolkit.model.events import Change, Event, EventKind
from toolkit.model.jobs import Job
from toolkit.model.names import JobId, job_of
from toolkit.store.interfaces import Shared, Store

WATCH = "watch"
EVERY_S = 2.0
"""How often the cluster is looked at, by whichever node comes first."""

LOOKS_A_LEASE = 4
"""With a short lease it is looked at so often within one."""

CRAWLS = "crawls"
_S_A_NODE, _LONGEST_S = 0.1, 5.0


def interval_s(*, live_nodes: int, lease_s: float, chance: float) -> float:
    """Return how long a node waits before it asks whether a look is due; `chance` is a random number, 0 to 1. Pure."""
    shortest = every_s(lease_s) / 2
    return min(max(live_nodes * _S_A_NODE, shortest), max(_LONGEST_S, shortest)) * (0.75 + chance / 2)


def every_s(lease_s: float) -> float:
    """Return how long a look is enough for all. Pure."""
    return min(EVERY_S, lease_s / LOOKS_A_LEASE)


def watch(store: Store, shared: Shared, *, lease_s: float) -> int:
    """Look at the cluster, unless another node has just done so, and tell what has changed; return how many events.

    Raises:
        StoreUnreachableError: Redis does not answer.

    """
    if not shared.duties.take(WATCH, for_s=every_s(lease_s)):
        return 0
    # What was told is read first: where it is older than what is seen, another has told meanwhile, and wins.
    states = shared.events.states()
    is_in_grace = shared.duties.is_in_grace()
    now_ms = int(store.now().timestamp() * 1000)
    records = shared.nodes.all()
    active = {project: release.version for project, release in store.releases.actives().items()}
    counts = shared.queue.counts()
    lines = shared.queue.lines() if counts.get("pending") else ()
    changes = [
        *node_changes(records, states, is_in_grace=is_in_grace),
        *behind_changes(records, active, states, now_ms=now_ms),
        *queue_changes(look_at(records, counts, lines), states, now_ms=now_ms),
        *_crawl_changes(store, shared, states.get(CRAWLS, "")),
    ]
    told = shared.events.turns(changes)
    shared.events.unwatch(unwatched(records, active, states))
    return sum(was_told and change.event is not None for was_told, change in zip(told, changes, strict=True))


def crawl_changes(ends: Sequence[CrawlEnd], jobs: Mapping[JobId, Job], *, before: str, after: str) -> list[Change]:
    """Tell of the crawls that a job of this cluster worked on last; each link of the chain hangs on the one before.

    Crawls are a Redis' and not a cluster's: who worked on one last tells whose it was. Pure.
    """
    changes = []
    for end in ends:
        job = jobs.get(job_of(end.worker))
        changes.append(Change(CRAWLS, end.key, None if job is None else _over(end, job), was=before))
        before = end.key
    if before != after:
        changes.append(Change(CRAWLS, after, was=before))
    return changes


def _crawl_changes(store: Store, shared: Shared, before: str) -> list[Change]:
    after, ends = shared.crawls.ends(after=before or None)
    jobs = store.jobs.get_many([job_of(end.worker) for end in ends]) if ends else {}
    return crawl_changes(ends, jobs, before=before, after=after)


def _over(end: CrawlEnd, job: Job) -> Event:
    counts = {"pages": str(end.pages), "items": str(end.items)}
    about = {"project": job.project, "spider": job.spider, "job": job.id, **counts}
    return Event(EventKind.CRAWL_OVER, end.crawl, about)
