"""How the nouns look at rest: JSON with a version, the same in Redis and in the local file. No pickle, no eval.

A reader ignores fields that it does not know and takes a missing optional one as `None`, so fields may be added without
raising `v`. `v` rises only when an older reader would misunderstand; it then refuses, and says who must be upgraded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from toolkit.model.errors import StoreUnreadableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import NodeResult, Release, Rollout, RolloutLock
from toolkit.store.fields import Fields

WIRE_VERSION = 1


def write_release(release: Release) -> str:
    """Return the release as JSON."""
    return _write(
        {
            "project": release.project,
            "version": release.version,
            "digest": release.digest,
            "spiders": list(release.spiders),
            "size_bytes": release.size_bytes,
            "revision": release.revision,
            "created_at": _time(release.created_at),
            "created_by": release.created_by,
        }
    )


def read_release(body: str | bytes) -> Release:
    """Return the release that the JSON describes.

    Raises:
        StoreUnreadableError: it is no release, or of a newer wire version.

    """
    fields = _read(body, "release")
    return Release(
        project=ProjectName(fields.text("project")),
        version=VersionName(fields.text("version")),
        digest=fields.text("digest"),
        spiders=tuple(SpiderName(name) for name in fields.texts("spiders")),
        size_bytes=fields.whole("size_bytes"),
        revision=fields.maybe_text("revision"),
        created_at=fields.time("created_at"),
        created_by=fields.text("created_by"),
    )


def write_rollout(rollout: Rollout) -> str:
    """Return the rollout as JSON."""
    return _write(
        {
            "project": rollout.project,
            "version": rollout.version,
            "kind": rollout.kind,
            "at": _time(rollout.at),
            "by": rollout.by,
            "activated": rollout.activated,
            "results": [
                {
                    "node": result.node,
                    "ok": result.ok,
                    "step": result.step,
                    "seconds": result.seconds,
                    "spiders": result.spiders,
                    "error": result.error,
                }
                for result in rollout.results
            ],
        }
    )


def read_rollout(body: str | bytes) -> Rollout:
    """Return the rollout that the JSON describes.

    Raises:
        StoreUnreadableError: it is no rollout, or of a newer wire version.

    """
    fields = _read(body, "rollout")
    return Rollout(
        project=ProjectName(fields.text("project")),
        version=VersionName(fields.text("version")),
        kind=fields.text("kind"),
        at=fields.time("at"),
        by=fields.text("by"),
        activated=fields.flag("activated"),
        results=tuple(
            NodeResult(
                node=NodeName(result.text("node")),
                ok=result.flag("ok"),
                step=result.text("step"),
                seconds=result.number("seconds"),
                spiders=result.maybe_whole("spiders"),
                error=result.maybe_text("error"),
            )
            for result in fields.parts("results")
        ),
    )


def write_job(job: Job) -> str:
    """Return the job as JSON."""
    return _write(
        {
            "id": job.id,
            "project": job.project,
            "spider": job.spider,
            "state": job.state.value,
            "version": job.version,
            "node": job.node,
            "args": None if job.args is None else dict(job.args),
            "settings": None if job.settings is None else dict(job.settings),
            "priority": job.priority,
            "scheduled_at": _maybe_time(job.scheduled_at),
            "started_at": _maybe_time(job.started_at),
            "ended_at": _maybe_time(job.ended_at),
            "cancel_requested_at": _maybe_time(job.cancel_requested_at),
            "finish_reason": job.finish_reason,
            "pages": job.pages,
            "items": job.items,
            "errors": job.errors,
        }
    )


def read_job(body: str | bytes) -> Job:
    """Return the job that the JSON describes.

    Raises:
        StoreUnreadableError: it is no job, has a state that this crawlctl does not know, or a newer wire version.

    """
    fields = _read(body, "job")
    version, node = fields.maybe_text("version"), fields.maybe_text("node")
    return Job(
        id=JobId(fields.text("id")),
        project=ProjectName(fields.text("project")),
        spider=SpiderName(fields.text("spider")),
        state=fields.choice("state", JobState),
        version=None if version is None else VersionName(version),
        node=None if node is None else NodeName(node),
        args=fields.maybe_mapping("args"),
        settings=fields.maybe_mapping("settings"),
        priority=fields.maybe_number("priority"),
        scheduled_at=fields.maybe_time("scheduled_at"),
        started_at=fields.maybe_time("started_at"),
        ended_at=fields.maybe_time("ended_at"),
        cancel_requested_at=fields.maybe_time("cancel_requested_at"),
        finish_reason=fields.maybe_text("finish_reason"),
        pages=fields.maybe_whole("pages"),
        items=fields.maybe_whole("items"),
        errors=fields.maybe_whole("errors"),
    )


def write_claim(*, who: str, why: str) -> str:
    """Return the part of a lock that its taker chooses; the store adds token and times."""
    return _write({"who": who, "why": why})


def read_lock(project: ProjectName, *, token: int, claim: str | bytes, since_ms: int, expires_ms: int) -> RolloutLock:
    """Return the lock made of its taker's claim and the store's token and times (milliseconds since 1970).

    Raises:
        StoreUnreadableError: the claim is none, or of a newer wire version.

    """
    fields = _read(claim, "lock")
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
    return _write({"nodes": sorted(set(nodes))})


def read_nodes(body: str | bytes) -> frozenset[NodeName]:
    """Return the node names in the JSON.

    Raises:
        StoreUnreadableError: it is no list of names, or of a newer wire version.

    """
    return frozenset(NodeName(name) for name in _read(body, "list of nodes").texts("nodes"))


def _write(body: Mapping[str, Any]) -> str:
    return json.dumps({"v": WIRE_VERSION, **body}, separators=(",", ":"))


def _read(body: str | bytes, what: str) -> Fields:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise StoreUnreadableError(f"a {what} in the shared store is not JSON") from error
    if not isinstance(content, dict):
        raise StoreUnreadableError(f"a {what} in the shared store is not a JSON object")
    fields = Fields(content, what=what)
    found = fields.whole("v")
    if found > WIRE_VERSION:
        raise StoreUnreadableError(
            f"a {what} in the shared store was written by a newer crawlctl (format {found}, this one reads up to "
            f"{WIRE_VERSION})",
            hint="pip install --upgrade crawlctl",
        )
    return fields


def _time(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; times at rest are UTC")
    return moment.astimezone(UTC).isoformat()


def _maybe_time(moment: datetime | None) -> str | None:
    return None if moment is None else _time(moment)
