"""Finds in one reading of a cluster what each of its numbers is (`metric_families.py` names them). Pure.

A value comes with the values of its labels. No label is a job, a URL or anything else without a bound: they are nodes,
projects with releases, at most `MAX_CRAWLS` crawls, and words of crawlctl's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata

from toolkit.cluster.reading import ClusterReading
from toolkit.model.jobs import JobState
from toolkit.model.measures import CrawlSizes, Measures
from toolkit.model.nodes import NodeRecord
from toolkit.model.redis_health import RedisHealth
from toolkit.model.samples import ClusterSample
from toolkit.model.snapshot import NodeState, NodeStatus

MAX_CRAWLS = 100
"""Of more crawls, those with workers and the most entries are shown one by one."""

FRESH_S = 60.0
"""The rates of an older sample are not of now."""

MEGABYTE = 1e6
OUTCOMES = tuple(state for state in JobState if state.is_final)
ALIVE = frozenset({NodeState.LIVE, NodeState.DRAINING})
SHELVES = ("pending", "in_flight", "suspect", "dead", "blocked", "seed")

Value = tuple[tuple[str, ...], float]
Finder = Callable[[ClusterReading], Iterable[Value]]


def plain(find: Callable[[ClusterReading], float | None]) -> Finder:
    """Tell one number without labels, where it is known."""

    def values(reading: ClusterReading) -> Iterator[Value]:
        found = find(reading)
        if found is not None:
            yield (), float(found)

    return values


def measured(find: Callable[[Measures], float | None]) -> Finder:
    """Tell one number of what the cluster counts of itself; nothing where there is no Redis."""
    return plain(lambda reading: None if reading.measures is None else find(reading.measures))


def of_redis(find: Callable[[RedisHealth], float | None]) -> Finder:
    """Tell one number of the Redis, where that says it."""
    return measured(lambda measures: None if measures.redis is None else find(measures.redis))


def fresh_rate(find: Callable[[ClusterSample], float]) -> Finder:
    """Tell a rate of the newest sample, as long as that is of now."""

    def fresh(measures: Measures) -> float | None:
        sample = measures.sample
        is_fresh = sample is not None and (measures.at - sample.at).total_seconds() <= FRESH_S
        return find(sample) if sample is not None and is_fresh else None

    return measured(fresh)


def each_node(find: Callable[[NodeStatus], float | None]) -> Finder:
    """Tell a number of every node that has it."""

    def values(reading: ClusterReading) -> Iterator[Value]:
        for node in reading.snapshot.nodes:
            if (found := find(node)) is not None:
                yield (node.name,), float(found)

    return values


def each_record(find: Callable[[NodeRecord], float | None]) -> Finder:
    """Tell a number of every plug-in node that has it."""

    def values(reading: ClusterReading) -> Iterator[Value]:
        for record in reading.records:
            if (found := find(record)) is not None:
                yield (record.name,), float(found)

    return values


def each_crawl(find: Callable[[CrawlSizes], float]) -> Finder:
    """Tell a number of every crawl that is shown."""
    return lambda reading: (((crawl.crawl,), float(find(crawl))) for crawl in _largest(reading))


def _largest(reading: ClusterReading) -> list[CrawlSizes]:
    known = () if reading.measures is None else reading.measures.crawls
    return sorted(known, key=lambda crawl: (-crawl.workers, -crawl.pending - crawl.in_flight, crawl.crawl))[:MAX_CRAWLS]


def version(_: ClusterReading) -> Iterator[Value]:
    """Tell crawlctl's version."""
    yield (metadata.version("crawlctl"),), 1.0


def redis_up(reading: ClusterReading) -> float | None:
    """Say nothing where the store is a file, so that nobody is told of a Redis that there never was."""
    return 0.0 if reading.error is not None else None if reading.measures is None else 1.0


def attention_by_kind(reading: ClusterReading) -> Iterator[Value]:
    """Count what needs attention."""
    counted = Counter(each.kind for each in reading.snapshot.attention)
    yield from (((kind,), float(count)) for kind, count in sorted(counted.items()))


def active_releases(reading: ClusterReading) -> Iterator[Value]:
    """Name the active release of each project."""
    yield from (((project, version), 1.0) for project, version in sorted(reading.snapshot.active.items()))


def nodes_by_state(reading: ClusterReading) -> Iterator[Value]:
    """Count the nodes in every state, those without any too."""
    counted = Counter(node.state for node in reading.snapshot.nodes)
    yield from (((state.value,), float(counted[state])) for state in NodeState)


def of_live_nodes(reading: ClusterReading, count: str) -> float:
    """Add up a count over the nodes that live."""
    return sum(getattr(node, count) or 0 for node in reading.snapshot.nodes if node.state in ALIVE)


def jobs_by_state(reading: ClusterReading) -> Iterator[Value]:
    """Count the jobs that have not ended, those of stock nodes too."""
    snapshot, counts = reading.snapshot, reading.counts
    held, delayed = counts.get("held", 0), counts.get("delayed", 0)
    pending = snapshot.total("pending")
    yield ("ready",), float(max(0, pending - held - delayed))
    yield ("delayed",), float(delayed)
    yield ("held",), float(held)
    yield ("active",), float(snapshot.total("running"))


def jobs_ended(reading: ClusterReading) -> Iterator[Value]:
    """Count the jobs of each project that came to each outcome."""
    measures = reading.measures
    if measures is None:
        return
    # A series that begins at zero tells a rate from its first job on.
    for project in sorted({project for project, _ in measures.ended} | set(reading.snapshot.active)):
        for outcome in OUTCOMES:
            yield (project, outcome.value), float(measures.ended.get((project, outcome), 0))


def crawl_entries(reading: ClusterReading) -> Iterator[Value]:
    """Count the entries on every shelf of the crawls that are shown, and their seeds."""
    for crawl in _largest(reading):
        sizes = (crawl.pending, crawl.in_flight, crawl.suspects, crawl.dead, crawl.blocked, crawl.seeds)
        yield from (((crawl.crawl, shelf), float(size)) for shelf, size in zip(SHELVES, sizes, strict=True))


def sample_age_s(measures: Measures) -> float | None:
    """Return how old the newest sample of the cluster is, if there is any."""
    return None if measures.sample is None else (measures.at - measures.sample.at).total_seconds()


def cron_lateness(measures: Measures) -> float:
    """Return how long ago the cron should have fired that is due first; 0 when none is late."""
    due = measures.next_cron_at
    return 0.0 if due is None else max(0.0, (measures.at - due).total_seconds())


def next_cron_timestamp(measures: Measures) -> float | None:
    """Return when the next cron is due, in seconds since 1970."""
    return None if measures.next_cron_at is None else measures.next_cron_at.timestamp()


def is_last_write_ok(redis: RedisHealth) -> float:
    """Return 0 when Redis says that a write to disk failed."""
    return float(redis.is_last_append_ok is not False and redis.is_last_snapshot_ok is not False)


def as_number(value: bool | None) -> float | None:  # noqa: FBT001 - a flag is what is told
    """Return 1 for true and 0 for false."""
    return None if value is None else float(value)


def from_megabytes(megabytes: int | None) -> float | None:
    """Return bytes."""
    return None if megabytes is None else megabytes * MEGABYTE
