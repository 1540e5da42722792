"""The JSON contract: how each noun is shown to programs. A field once shipped keeps its name and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from toolkit.model.hosts import Host, Provisioning, Secret, SshAddress
from toolkit.model.jobs import Job
from toolkit.model.queue import Cap
from toolkit.model.releases import NodeResult, Release, Rollout
from toolkit.model.snapshot import Attention, NodeStatus, Snapshot

if TYPE_CHECKING:
    from toolkit.cluster.node_life import NodeRow
    from toolkit.cluster.why import Explanation


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
        "attempt": job.attempt,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "token": job.token,
        "reason": job.reason,
    }


def job_object(job: Job, *, log: Sequence[str] | None = None) -> dict[str, Any]:
    """Show all that is known of one job; `log` are the last lines of one that failed."""
    return job_row(job) | {
        "attempts": job.attempts,
        "retry_failed": job.retries_failed,
        "timeout_s": job.timeout_s,
        "due_at": time_text(job.due_at),
        "held": job.is_held,
        "on": None if job.on is None else list(job.on),
        "pid": job.pid,
        "retries": job.retries,
        "bytes": job.bytes,
        "pages_per_minute": job.pages_per_minute,
        "memory_mb": job.memory_mb,
        "statuses": None if job.statuses is None else dict(job.statuses),
        "cancel_requested_at": time_text(job.cancel_requested_at),
        "scheduled_by": job.scheduled_by,
        "crawl": job.crawl,
        "log": None if log is None else list(log),
    }


def cap_row(cap: Cap) -> dict[str, Any]:
    """Show how many jobs of a project, or of one spider of it, may be active at once."""
    return {"project": cap.project, "spider": cap.spider, "cluster": cap.cluster, "per_node": cap.per_node}


def scheduled_row(job: Job) -> dict[str, Any]:
    """Show a job that was just scheduled."""
    row = job_row(job)
    return {key: row[key] for key in ("id", "project", "spider", "version", "node", "state")} | {"crawl": job.crawl}


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


def nodes_row(row: NodeRow) -> dict[str, Any]:
    """Show a node as `nodes list` does; `versions` maps each project to the versions that it is proven to hold."""
    return {
        "name": row.name,
        "address": row.address,
        "outside": row.outside,
        "state": row.state.value,
        "kind": row.kind,
        "slots": row.slots,
        "running": row.running,
        "load": row.load,
        "memory_free_mb": row.memory_free_mb,
        "disk_free_mb": row.disk_free_mb,
        "versions": None if row.versions is None else {name: list(held) for name, held in row.versions.items()},
        "heartbeat_age_s": None if row.heartbeat_age_s is None else round(row.heartbeat_age_s, 1),
        "draining": row.is_draining,
    }


def node_object(row: NodeRow) -> dict[str, Any]:
    """Show all that is known of one node."""
    return nodes_row(row) | {
        "error": row.error,
        "drained_by": row.drained_by,
        "behind": dict(row.behind),
        "environments": dict(row.environments),
        "labels": dict(row.labels),
        "software": dict(row.software),
        "started_at": time_text(row.started_at),
    }


def why_object(explanation: Explanation) -> dict[str, Any]:
    """Show why a job waits, where it is, or how it ended; `nodes` is empty for one that does not wait."""
    return {
        "id": explanation.job.id,
        "state": explanation.job.state.value,
        "summary": explanation.summary,
        "details": list(explanation.details),
        "position": explanation.position,
        "nodes": [{"name": each.node, "could": each.could, "reason": each.reason} for each in explanation.nodes],
        "log": list(explanation.log),
        "log_error": explanation.log_error,
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
        "needs": list(release.needs),
        "environment": release.has_environment,
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
    """Show a host of the inventory; a secret only as there or not."""
    return {
        "name": host.name,
        "address": host.address,
        "port": host.port,
        "scheme": host.scheme,
        "path": host.path,
        "username": host.username,
        "password": None if host.password is None else str(host.password),
        "ca_file": host.ca_file,
        "timeout_s": host.timeout_s,
        "slots": host.slots,
        "labels": dict(host.labels),
        "groups": sorted(host.groups),
        "connection": host.connection,
        "ssh": _wishes(host.ssh),
        "provision": _wishes(host.provision),
        "node": dict(host.node),
    }


def _wishes(value: SshAddress | Provisioning) -> dict[str, Any]:
    """Show every field by its name; secrets as `***`."""
    shown = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: str(each) if isinstance(each, Secret) else each for name, each in shown.items()}
