"""The one table of what a doctor looks for: each check's name, where its evidence comes from, and what it is about.

The name is also the name of its entry in the runbook.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from toolkit.config.nearest import did_you_mean
from toolkit.model.errors import UsageError


class Source(StrEnum):
    """Where the evidence of a check comes from; each is looked at in its own time."""

    FILES = "the inventory and its files"
    NAMES = "name service"
    REDIS = "Redis"
    CLUSTER = "the cluster's records"
    SOFTWARE = "the nodes' packages"
    NODES = "the nodes over HTTP"
    HOSTS = "the hosts over SSH"
    DRIFT = "what was provisioned"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is looked for; `what` is told by `--list`-like texts and ends no sentence."""

    name: str
    source: Source
    what: str


_ROWS: tuple[tuple[Source, tuple[tuple[str, str], ...]], ...] = (
    (
        Source.FILES,
        (
            ("inventory-mistake", "the inventory cannot be read as it is"),
            ("inventory-password", "a host without user name and password"),
            ("inventory-secret", "a secret written into a file that others may read"),
            ("inventory-file", "a file that the inventory names is not there, or an SSH key that others may read"),
        ),
    ),
    (
        Source.NAMES,
        (
            ("dns-unknown", "a name that has no address"),
            ("dns-several", "a name with several addresses, so that calls may reach different machines"),
            ("dns-same", "two hosts of the inventory that are one place"),
            ("dns-loopback", "a remote host's name that leads to this machine"),
            ("node-plain", "a node that is spoken to over the internet without TLS"),
            ("redis-plain", "a Redis that is spoken to over the internet without TLS"),
        ),
    ),
    (
        Source.REDIS,
        (
            ("redis-unreachable", "the Redis cannot be asked"),
            ("redis-version", "a Redis older than the queue and the frontier need"),
            ("redis-persistence", "a Redis that keeps nothing over a restart"),
            ("redis-saving", "a Redis whose last write to its disk failed"),
            ("redis-eviction", "a Redis that may throw records away"),
            ("redis-memory", "a Redis that is nearly full"),
            ("redis-open", "a Redis that asks for no password"),
            ("redis-user", "a cluster that works with the Redis user who may do everything"),
            ("redis-replica", "a replica in the place of its master, or one that lags behind"),
            ("redis-min-replicas", "a Redis whose failover may lose any amount, or that has too few replicas to write"),
            ("redis-clients", "a Redis that soon takes no more connections"),
            ("redis-slow", "a long way to the Redis"),
            ("redis-clock", "a clock that differs from that of Redis"),
        ),
    ),
    (
        Source.CLUSTER,
        (
            ("store-unreachable", "the file that takes the place of a Redis cannot be used"),
            ("node-lost", "a plug-in node that gives no sign of life"),
            ("node-stale", "a plug-in node that misses heartbeats"),
            ("node-clash", "two nodes of one name"),
            ("node-unfit", "a plug-in node that takes no job"),
            ("node-draining", "a node that somebody drained"),
            ("node-unlisted", "a registered node that the inventory does not list"),
            ("node-disk", "a node whose disk is nearly full"),
            ("node-memory", "a node that is short of memory"),
            ("egg-missing", "a node without an active release"),
            ("egg-stray", "a node with a version that no release knows"),
            ("release-offered", "an egg that a killed deploy left on offer"),
            ("rollout-unfinished", "a rollout in waves that nobody is at"),
            ("lock-held", "a project's lock that has been held for long"),
            ("jobs-waiting", "pending jobs that nobody may take"),
            ("jobs-stuck", "an active job that does not get on"),
            ("jobs-lost", "jobs that were lost in the last day"),
            ("crawl-dead", "entries of a crawl that killed their workers"),
            ("crawl-held", "a page of a crawl that does not end"),
        ),
    ),
    (
        Source.SOFTWARE,
        (
            ("software-old", "a release of Python, Scrapyd, Scrapy or setuptools that is known not to work"),
            ("software-differs", "nodes that have different releases of Python, Scrapyd, Scrapy or their like"),
        ),
    ),
    (
        Source.NODES,
        (
            ("node-unreachable", "a node that cannot be reached"),
            ("node-login", "a node that refuses our credentials"),
            ("node-answer", "something that answers and is not Scrapyd"),
            ("node-name", "a node that answers under another name"),
            ("node-open", "a node that asks for no password"),
            ("node-slow", "a node that is slow to answer"),
            ("node-slots", "a stock node that runs more jobs than it has slots"),
            ("tls-invalid", "a certificate that is not to be trusted"),
            ("tls-expiring", "a certificate that ends soon"),
        ),
    ),
    (
        Source.HOSTS,
        (
            ("ssh-unreachable", "a host that SSH does not reach"),
            ("ssh-host-key", "a host whose key is not the known one"),
            ("ssh-login", "a host that takes none of our keys or passwords"),
            ("ssh-sudo", "a host on which we cannot become root"),
            ("host-python", "a host without a Python that a node can use"),
            ("host-clock", "a host whose clock differs from that of Redis"),
            ("host-disk", "a host whose disk is nearly full"),
            ("host-memory", "a host that is short of memory"),
            ("host-exposed", "a node that listens for the whole internet without TLS"),
            ("host-redis", "a host that cannot reach the Redis, or finds another, or has a long way to it"),
            ("host-orphan", "a spider process that no node knows"),
        ),
    ),
    (
        Source.DRIFT,
        (("host-drift", "a host that is not as it was provisioned"),),
    ),
)

CHECKS: dict[str, Check] = {name: Check(name, source, what) for source, rows in _ROWS for name, what in rows}


def wanted_checks(words: Sequence[str]) -> frozenset[str]:
    """Return the checks that these words mean: a check's name, or the part before its dash for all of a subject.

    Raises:
        UsageError: a word means none.

    """
    subjects = {name.partition("-")[0] for name in CHECKS}
    found: set[str] = set()
    for word in words:
        meant = {name for name in CHECKS if name == word or name.partition("-")[0] == word}
        if not meant:
            near = did_you_mean(word, [*CHECKS, *subjects])
            raise UsageError(f"no check is named {word!r}{near}", hint=f"subjects are {', '.join(sorted(subjects))}")
        found |= meant
    return frozenset(found or CHECKS)


def sources_of(checks: Collection[str]) -> frozenset[Source]:
    """Return where the evidence for these checks comes from."""
    wanted = frozenset(CHECKS[name].source for name in checks)
    if Source.SOFTWARE in wanted:
        # Packages are told by the nodes through Redis, and by hosts over SSH.
        wanted |= {Source.CLUSTER, Source.HOSTS}
    return wanted | {Source.HOSTS} if Source.DRIFT in wanted else wanted


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return the checks in the order of the table."""
    chosen = set(names)
    return tuple(name for name in CHECKS if name in chosen)
