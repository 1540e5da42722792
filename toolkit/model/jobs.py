"""A job: one run of one spider by one process, and the states that it can be in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName


class JobState(StrEnum):
    """Where a job is in its life; the last four are final."""

    PENDING = "pending"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def is_final(self) -> bool:
        """The job's process is gone and its outcome will not change."""
        return self in _FINAL


_FINAL = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED, JobState.LOST})


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of one job; `None` means unknown. Times are aware and in UTC; `errors` counts ERROR log lines."""

    id: JobId
    project: ProjectName
    spider: SpiderName
    state: JobState
    version: VersionName | None = None
    node: NodeName | None = None
    args: Mapping[str, str] | None = None
    settings: Mapping[str, str] | None = None
    priority: float | None = None
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    finish_reason: str | None = None
    pages: int | None = None
    items: int | None = None
    errors: int | None = None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to show; an empty field lets every job through."""

    states: frozenset[JobState] = frozenset()
    spider: str | None = None
    project: str | None = None
    nodes: frozenset[NodeName] = field(default_factory=frozenset)
    since: datetime | None = None

    def admits(self, job: Job) -> bool:
        """Tell whether the job is one of those asked for."""
        seen_at = job.scheduled_at or job.started_at or job.ended_at
        return (
            (not self.states or job.state in self.states)
            and (self.spider is None or job.spider == self.spider)
            and (self.project is None or job.project == self.project)
            and (not self.nodes or job.node in self.nodes)
            and (self.since is None or seen_at is None or seen_at >= self.since)
        )
