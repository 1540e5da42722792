"""How the nouns look at rest: JSON with a version, the same in Redis and in the local file. No pickle, no eval.

A reader ignores fields that it does not know and takes a missing optional one as `None`, so fields may be added without
raising `v`. `v` rises only when an older reader would misunderstand; it then refuses, and says who must be upgraded.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from toolkit.model.names import NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import NodeResult, Release, Rollout, RolloutLock
from toolkit.store.envelope import read, write
from toolkit.store.fields import Fields


def write_release(release: Release) -> str:
    """Return the release as JSON."""
    return write(release_body(release))


def release_body(release: Release) -> dict[str, Any]:
    """Return what JSON says of a release."""
    return {
        "project": release.project,
        "version": release.version,
        "digest": release.digest,
        "spiders": list(release.spiders),
        "size_bytes": release.size_bytes,
        "revision": release.revision,
        "created_at": time_text(release.created_at),
        "created_by": release.created_by,
        "needs": list(release.needs),
        "has_environment": release.has_environment,
        "signature": release.signature,
    }


def read_release(body: str | bytes) -> Release:
    """Return the release that the JSON describes.

    Raises:
        StoreUnreadableError: it is no release, or of a newer wire version.

    """
    return release_in(read(body, "release"))


def release_in(fields: Fields) -> Release:
    """Return the release that the fields of an object describe."""
    return Release(
        project=ProjectName(fields.text("project")),
        version=VersionName(fields.text("version")),
        digest=fields.text("digest"),
        spiders=tuple(SpiderName(name) for name in fields.texts("spiders")),
        size_bytes=fields.whole("size_bytes"),
        revision=fields.maybe_text("revision"),
        created_at=fields.time("created_at"),
        created_by=fields.text("created_by"),
        needs=tuple(fields.maybe_texts("needs")),
        has_environment=fields.maybe_flag("has_environment"),
        signature=fields.maybe_text("signature"),
    )


def write_offer(release: Release, *, nodes: Iterable[NodeName] | None) -> str:
    """Return a release that nodes may install before it is active, and which of them (`None`: all), as JSON."""
    return write(release_body(release) | ({} if nodes is None else {"nodes": sorted(set(nodes))}))


def read_offer(body: str | bytes) -> tuple[Release, frozenset[NodeName] | None]:
    """Return what `write_offer` wrote.

    Raises:
        StoreUnreadableError: it is no release, or of a newer wire version.

    """
    fields = read(body, "release")
    nodes = frozenset(map(NodeName, fields.texts("nodes"))) if fields.has("nodes") else None
    return release_in(fields), nodes


def write_rollout(rollout: Rollout) -> str:
    """Return the rollout as JSON."""
    return write(
        {
            "project": rollout.project,
            "version": rollout.version,
            "kind": rollout.kind,
            "at": time_text(rollout.at),
            "by": rollout.by,
            "activated": rollout.activated,
            "results": [result_body(result) for result in rollout.results],
        }
    )


def result_body(result: NodeResult) -> dict[str, Any]:
    """Return what JSON says of the result on one node."""
    return {
        "node": result.node,
        "ok": result.ok,
        "step": result.step,
        "seconds": result.seconds,
        "spiders": result.spiders,
        "error": result.error,
    }


def results_in(fields: Fields, name: str = "results") -> tuple[NodeResult, ...]:
    """Return the results on nodes that a field of an object lists."""
    return tuple(
        NodeResult(
            node=NodeName(result.text("node")),
            ok=result.flag("ok"),
            step=result.text("step"),
            seconds=result.number("seconds"),
            spiders=result.maybe_whole("spiders"),
            error=result.maybe_text("error"),
        )
        for result in fields.parts(name)
    )


def read_rollout(body: str | bytes) -> Rollout:
    """Return the rollout that the JSON describes.

    Raises:
        StoreUnreadableError: it is no rollout, or of a newer wire version.

    """
    fields = read(body, "rollout")
    return Rollout(
        project=ProjectName(fields.text("project")),
        version=VersionName(fields.text("version")),
        kind=fields.text("kind"),
        at=fields.time("at"),
        by=fields.text("by"),
        activated=fields.flag("activated"),
        results=results_in(fields),
    )


def write_claim(*, who: str, why: str) -> str:
    """Return the part of a lock that its taker chooses; the store adds token and times."""
    return write({"who": who, "why": why})


def read_lock(project: ProjectName, *, token: int, claim: str | bytes, since_ms: int, expires_ms: int) -> RolloutLock:
    """Return the lock made of its taker's claim and the store's token and times (milliseconds since 1970).

    Raises:
        StoreUnreadableError: the claim is none, or of a newer wire version.

    """
    fields = read(claim, "lock")
    return RolloutLock(
        project=project,
        token=token,
        who=fields.text("who"),
        why=fields.text("why"),
        since=datetime.fromtimestamp(since_ms / 1000, UTC),
        expires_at=datetime.fromtimestamp(expires_ms / 1000, UTC),
    )


def write_nodes(nodes: Iterable[NodeName]) -> str:
    """Return the names as JSON, each once, sorted."""
    return write({"nodes": sorted(set(nodes))})


def read_nodes(body: str | bytes) -> frozenset[NodeName]:
    """Return the node names in the JSON.

    Raises:
        StoreUnreadableError: it is no list of names, or of a newer wire version.

    """
    return frozenset(NodeName(name) for name in read(body, "list of nodes").texts("nodes"))


def time_text(moment: datetime) -> str:
    """Return a moment as it is written at rest: ISO 8601 in UTC."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; times at rest are UTC")
    return moment.astimezone(UTC).isoformat()
