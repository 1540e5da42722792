"""A release, the lock that a rollout holds, and what a rollout found on each node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from toolkit.model.errors import CrawlctlError
from toolkit.model.names import NodeName, ProjectName, SpiderName, VersionName


@dataclass(frozen=True, slots=True)
class Release:
    """One version of one project, immutable: the same version never means other bytes.

    `digest` is the SHA-256 of the egg in hex, `revision` the source's commit if it has one, `created_by` is
    `user@host`, times are aware and in UTC. `needs` are the requirements of the project as pip writes them, and
    `has_environment` says that each node runs it with an environment of its own that has them. `signature` is the text
    that proves who released these bytes under this name (`toolkit/trust/signatures.py`), where eggs are signed.
    """

    project: ProjectName
    version: VersionName
    digest: str
    spiders: tuple[SpiderName, ...]
    size_bytes: int
    revision: str | None
    created_at: datetime
    created_by: str
    needs: tuple[str, ...] = ()
    has_environment: bool = False
    signature: str | None = None


ROLLBACK = "rollback"
"""The kind of a rollout that makes an earlier release active again."""

LATER = "later"
"""The step of a plug-in node that is away: it will install the release by itself when it comes back."""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What a rollout did on one node: the last `step` it came to, and why it stopped there if it did.

    A node whose step is `later` is no failure, but does not hold the release either.
    """

    node: NodeName
    ok: bool
    step: str
    seconds: float
    spiders: int | None = None
    error: str | None = None

    @property
    def is_proven(self) -> bool:
        """The node was shown to hold the release."""
        return self.ok and self.step != LATER


@dataclass(frozen=True, slots=True)
class Rollout:
    """One entry of the history: who made which version active (or tried), when, and what each node said."""

    project: ProjectName
    version: VersionName
    kind: str
    at: datetime
    by: str
    activated: bool
    results: tuple[NodeResult, ...]


@dataclass(frozen=True, slots=True)
class DeployResult:
    """What a deploy did: `is_active` tells whether its version is the one that schedules use now."""

    project: ProjectName
    version: VersionName
    digest: str
    is_active: bool
    is_changed: bool
    results: tuple[NodeResult, ...]
    errors: tuple[CrawlctlError, ...] = ()

    @property
    def failed(self) -> tuple[NodeResult, ...]:
        """The nodes on which it did not work."""
        return tuple(result for result in self.results if not result.ok)

    @property
    def later(self) -> tuple[NodeResult, ...]:
        """The plug-in nodes that are away, and will install it by themselves."""
        return tuple(result for result in self.results if result.ok and not result.is_proven)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune did: the versions taken off, those kept, and the nodes on which it failed, with the reason."""

    project: ProjectName
    removed: tuple[VersionName, ...]
    kept: tuple[VersionName, ...]
    errors: tuple[tuple[NodeName, str], ...]


@dataclass(frozen=True, slots=True)
class RolloutLock:
    """The right to change a project's releases: `token` is the fencing number, `expires_at` the store's own time."""

    project: ProjectName
    token: int
    who: str
    why: str
    since: datetime
    expires_at: datetime
