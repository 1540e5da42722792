"""A plug-in node as the cluster knows it: what it last said of itself, and the state derived from its sign of life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.model.names import NodeName, ProjectName, Session, VersionName
from toolkit.model.snapshot import NodeState

DEFAULT_LEASE_S = 15.0
"""How long a node may be silent before its jobs are given to others."""

BEATS_A_LEASE = 3
"""A node gives this many signs of life within one lease."""

IS_STARTING = "is starting"
"""Why a node takes no job until its first heartbeat was answered, or could not be."""

WAITS_FOR_REDIS = "waits for Redis"
"""Why a node takes no job while its heartbeats are not answered."""

IS_STOPPING = "is stopping"
"""Why a node takes no job while its Scrapyd is being stopped."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """A process' own end of its connection to Redis: as it sees itself, and as Redis sees it (`None`: not told)."""

    local: str | None = None
    outside: str | None = None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node says of itself at each heartbeat.

    `home` is the identity of its folder: a node of the same name with another home is a clash. `address` is where it
    listens (`host:port`), `outside` the host from which Redis sees it come, behind whatever is between. `load` is the
    machine's one-minute load average divided by its processors. `versions` are proven: the egg is there and its spiders
    were listed. `unfit` says why it takes no job now, if so. `behind` maps what it should hold and does not
    (`project version`) to the reason, `environments` each that releases have of their own to what is in it.
    """

    name: NodeName
    session: Session
    home: str
    address: str
    slots: int
    running: int
    lease_s: float = DEFAULT_LEASE_S
    load: float | None = None
    memory_free_mb: int | None = None
    disk_free_mb: int | None = None
    versions: Mapping[ProjectName, tuple[VersionName, ...]] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    behind: Mapping[str, str] = field(default_factory=dict)
    environments: Mapping[str, str] = field(default_factory=dict)
    unfit: str | None = None
    started_at: datetime | None = None
    outside: str | None = None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node's last report, and how old it is by the store's clock; `clash` names another that claims its name."""

    report: NodeReport
    beat_at: datetime
    age_s: float
    is_draining: bool = False
    drained_by: str | None = None
    clash: str | None = None

    @property
    def name(self) -> NodeName:
        """The node's name."""
        return self.report.name

    @property
    def may_take(self) -> bool:
        """It is there, if perhaps stale, and not draining: jobs that it is fit for may go to it."""
        return self.state in {NodeState.LIVE, NodeState.STALE} and not self.is_draining

    @property
    def state(self) -> NodeState:
        """Lost after a whole lease of silence, stale after two missed heartbeats, else draining or live."""
        lease_s = self.report.lease_s
        if self.age_s >= lease_s:
            return NodeState.LOST
        if self.age_s > lease_s * 2 / BEATS_A_LEASE:
            return NodeState.STALE
        return NodeState.DRAINING if self.is_draining else NodeState.LIVE


def lacking(report: NodeReport, active: Mapping[ProjectName, VersionName]) -> Mapping[str, str]:
    """Return what a node does not hold (`project version`) and why, if it said so. Pure.

    That is an active release, or anything that the node says itself that it should hold.
    """
    missing = {f"{name} {version}" for name, version in active.items() if version not in report.versions.get(name, ())}
    return {release: report.behind.get(release, "") for release in sorted(missing | report.behind.keys())}
