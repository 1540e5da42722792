"""The JSON contract: how each noun is shown to programs. A field once shipped keeps its name and meaning."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from toolkit.model.hosts import Host
from toolkit.model.jobs import Job
from toolkit.model.releases import NodeResult, Release, Rollout
from toolkit.model.snapshot import Attention, NodeStatus, Snapshot


def time_text(at: datetime | None) -> str | None:
    """Show a time as ISO 8601 in UTC, whole seconds."""
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def job_row(job: Job) -> dict[str, Any]:
    """Show a job; unknown values are null."""
    return {
        "id": job.id,
        "project": job.project,
        "spider": job.spider,
        "version": job.version,
        "state": job.state.value,
        "node": job.node,
        "args": None if job.args is None else dict(job.args),
        "settings": None if job.settings is None else dict(job.settings),
        "priority": job.priority,
        "scheduled_at": time_text(job.scheduled_at),
        "started_at": time_text(job.started_at),
        "ended_at": time_text(job.ended_at),
        "finish_reason": job.finish_reason,
        "pages": job.pages,
        "items": job.items,
        "errors": job.errors,
    }


def scheduled_row(job: Job) -> dict[str, Any]:
    """Show a job that was just scheduled."""
    row = job_row(job)
    return {key: row[key] for key in ("id", "project", "spider", "version", "node", "state")}


def node_row(node: NodeStatus) -> dict[str, Any]:
    """Show a node as `status` does; `projects` maps each project to the versions that the node holds."""
    return {
        "name": node.name,
        "address": node.address,
        "state": node.state.value,
        "kind": node.kind,
        "slots": node.slots,
        "pending": node.pending,
        "running": node.running,
        "finished": node.finished,
        "projects": None if node.projects is None else {name: list(held) for name, held in node.projects.items()},
        "error": node.error,
    }


def attention_row(attention: Attention) -> dict[str, Any]:
    """Show one thing that an operator should look at."""
    return {
        "kind": attention.kind,
        "message": attention.message,
        "nodes": list(attention.nodes),
        "command": attention.command,
    }


def snapshot_object(snapshot: Snapshot) -> dict[str, Any]:
    """Show the whole cluster."""
    return {
        "nodes": [node_row(node) for node in snapshot.nodes],
        "jobs": {count: snapshot.total(count) for count in ("pending", "running", "finished")},
        "active": dict(snapshot.active),
        "attention": [attention_row(each) for each in snapshot.attention],
    }


def node_result_row(result: NodeResult) -> dict[str, Any]:
    """Show what a rollout did on one node."""
    return {
        "name": result.node,
        "ok": result.ok,
        "step": result.step,
        "seconds": result.seconds,
        "spiders": result.spiders,
        "error": result.error,
    }


def release_row(release: Release, *, is_active: bool, nodes: list[str]) -> dict[str, Any]:
    """Show a release and the nodes that were proven to hold it."""
    return {
        "project": release.project,
        "version": release.version,
        "active": is_active,
        "digest": release.digest,
        "revision": release.revision,
        "spiders": list(release.spiders),
        "size_bytes": release.size_bytes,
        "created_at": time_text(release.created_at),
        "created_by": release.created_by,
        "nodes": nodes,
    }


def rollout_row(rollout: Rollout) -> dict[str, Any]:
    """Show one entry of a project's history."""
    return {
        "project": rollout.project,
        "version": rollout.version,
        "kind": rollout.kind,
        "at": time_text(rollout.at),
        "by": rollout.by,
        "activated": rollout.activated,
        "nodes": [node_result_row(result) for result in rollout.results],
    }


def host_row(host: Host) -> dict[str, Any]:
    """Show a host of the inventory; a password only as there or not."""
    return {
        "name": host.name,
        "address": host.address,
        "port": host.port,
        "scheme": host.scheme,
        "path": host.path,
        "username": host.username,
        "password": None if host.password is None else str(host.password),
        "timeout_s": host.timeout_s,
        "slots": host.slots,
        "labels": dict(host.labels),
        "groups": sorted(host.groups),
        "connection": host.connection,
        "ssh": {"user": host.ssh.user, "port": host.ssh.port, "key": host.ssh.key},
    }
