"""The shapes of what the HTTP API answers, for its OpenAPI: exactly the rows of `views/contract*.py`, field by field.

They describe; the answers themselves are made by the contract, and a test holds both together.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from toolkit.model.jobs import JobState
from toolkit.model.snapshot import NodeState


class Row(BaseModel):
    """An object that has these fields, always, and no others."""

    model_config = ConfigDict(extra="forbid")


class Wrong(Row):
    """What went wrong, in the words of the command line."""

    kind: str
    message: str
    hint: str | None


class Problem(Row):
    """What is answered in place of a result (RFC 9457); `error` is as on the command line."""

    type: str
    title: str
    status: int
    detail: str
    error: Wrong


class NodeStatusRow(Row):
    """A node as `crawlctl status` shows it."""

    name: str
    address: str
    state: NodeState
    kind: str
    slots: int | None
    pending: int | None
    running: int | None
    finished: int | None
    projects: dict[str, list[str]] | None
    error: str | None


class Counts(Row):
    """How many jobs there are."""

    pending: int
    running: int
    finished: int


class AttentionRow(Row):
    """Something to look at, and the command that helps."""

    kind: str
    message: str
    nodes: list[str]
    command: str | None


class Status(Row):
    """The whole cluster, as `crawlctl status`."""

    nodes: list[NodeStatusRow]
    jobs: Counts
    active: dict[str, str]
    attention: list[AttentionRow]


class NodeRow(Row):
    """A node, as `crawlctl nodes list`."""

    name: str
    address: str
    outside: str | None
    state: NodeState
    kind: str
    slots: int | None
    running: int | None
    load: float | None
    memory_free_mb: int | None
    disk_free_mb: int | None
    versions: dict[str, list[str]] | None
    heartbeat_age_s: float | None
    draining: bool


class Node(NodeRow):
    """All that is known of a node, as `crawlctl nodes show`."""

    error: str | None
    drained_by: str | None
    behind: dict[str, str]
    environments: dict[str, str]
    labels: dict[str, str]
    software: dict[str, str]
    started_at: str | None


class DrainedRow(Row):
    """A node that takes no new job, and how many it still runs."""

    name: str
    running: int
    error: str | None


class Drained(Row):
    """The nodes that take no new job now, as `crawlctl nodes drain`."""

    nodes: list[DrainedRow]


class NamedRow(Row):
    """A node with which something was done."""

    name: str
    action: str


class Named(Row):
    """The nodes with which something was done, as `crawlctl nodes resume`."""

    nodes: list[NamedRow]


class JobRow(Row):
    """A job, as `crawlctl jobs list`."""

    id: str
    project: str
    spider: str
    version: str | None
    state: JobState
    node: str | None
    args: dict[str, str] | None
    settings: dict[str, str] | None
    priority: float | None
    scheduled_at: str | None
    started_at: str | None
    ended_at: str | None
    finish_reason: str | None
    pages: int | None
    items: int | None
    errors: int | None
    attempt: int | None
    exit_code: int | None
    signal: str | None
    token: str | None
    reason: str | None


class Job(JobRow):
    """All that is known of a job, as `crawlctl jobs show`."""

    attempts: int | None
    retry_failed: bool
    timeout_s: float | None
    due_at: str | None
    held: bool
    on: list[str] | None
    pid: int | None
    retries: int | None
    bytes: int | None
    pages_per_minute: float | None
    memory_mb: float | None
    statuses: dict[str, int] | None
    cancel_requested_at: str | None
    scheduled_by: str | None
    crawl: str | None
    log: list[str] | None


class Verdict(Row):
    """Whether a node could take the job now."""

    name: str
    could: bool
    reason: str | None


class Why(Row):
    """Why a job waits, where it is, or how it ended, as `crawlctl why`."""

    id: str
    state: JobState
    summary: str
    details: list[str]
    position: int | None
    nodes: list[Verdict]
    log: list[str]
    log_error: str | None


class ScheduledRow(Row):
    """A job that was just scheduled."""

    id: str
    project: str
    spider: str
    version: str | None
    state: JobState
    node: str | None
    crawl: str | None


class Scheduled(Row):
    """What became of an order, as `crawlctl schedule`."""

    jobs: list[ScheduledRow]


class CancelledRow(Row):
    """What became of a job that was to be cancelled; with an error it is not proven to be gone."""

    id: str
    before: JobState
    after: JobState
    error: str | None


class Cancelled(Row):
    """What became of each job, as `crawlctl cancel`."""

    jobs: list[CancelledRow]


class ReleaseRow(Row):
    """A release, as `crawlctl releases`."""

    project: str
    version: str
    active: bool
    digest: str
    revision: str | None
    spiders: list[str]
    size_bytes: int
    created_at: str
    created_by: str
    needs: list[str]
    environment: bool
    nodes: list[str]


class NodeResultRow(Row):
    """What a rollout did on a node."""

    name: str
    ok: bool
    step: str
    seconds: float
    spiders: int | None
    error: str | None


class RolloutRow(Row):
    """An entry of a project's history, as `crawlctl releases --history`."""

    project: str
    version: str
    kind: str
    at: str
    by: str
    activated: bool
    nodes: list[NodeResultRow]


class WavesOfRollout(Row):
    """The rollout in waves that it was, if it was one."""

    id: str
    state: str
    why: str | None


class RolledBack(Row):
    """What a rollback did, as `crawlctl rollback`."""

    project: str
    version: str
    digest: str
    active: bool
    changed: bool
    nodes: list[NodeResultRow]
    rollout: WavesOfRollout | None


class AuditRow(Row):
    """An entry of the audit, as `crawlctl audit`."""

    id: str
    at: str
    who: str
    action: str
    subject: str
    nodes: list[str]
    result: str
    detail: str | None


class Whoami(Row):
    """Who asks, and what that user may do."""

    user: str
    role: str
    cluster: str
    version: str
