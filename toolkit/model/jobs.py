"""A job: one run of one spider by one process, and the states that it can be in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from toolkit.model.names import (
    CrawlId,
    JobId,
    LineName,
    NodeName,
    ProjectName,
    SpiderName,
    Token,
    VersionName,
    default_crawl,
)


class JobState(StrEnum):
    """Where a job is in its life; the last four are final.

    pending → starting → running ⇄ paused → finished, failed or cancelled; when its node is lost, an active job becomes
    pending again, or lost. A stock node shows no starting and no paused.
    """

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def is_final(self) -> bool:
        """The job's process is gone and its outcome will not change."""
        return self in _FINAL

    @property
    def is_active(self) -> bool:
        """A node has it: its process is there, or is being started."""
        return self in _ACTIVE


_FINAL = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED, JobState.LOST})
_ACTIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.PAUSED})

DEFAULT_ATTEMPTS = 2
"""How often a job is begun at most: once more when its node was lost."""

MAX_PRIORITY = 1000
"""Priorities go from minus this to this; the queue keeps its order exactly within them."""

PRIORITY_DECIMALS = 3
"""So many decimals a priority may have: of closer ones, a billion jobs later, the younger might go first."""


CRAWL_SETTING = "FRONTIER_CRAWL"
"""The Scrapy setting that names the crawl which a job works on; without it, `default_crawl` does."""

RUN_SETTING = "FRONTIER_RUN"
"""The Scrapy setting that jobs have in common which were scheduled together for one crawl."""

FRONTIER_UNUSABLE = "frontier_unusable"
"""The finish reason of a spider whose shared crawl could not be used: wrong settings, or a Redis that refuses."""

FAILURE_REASONS = frozenset({"memusage_exceeded", "closespider_errorcount", "start_error", FRONTIER_UNUSABLE})
"""Scrapy's finish reasons that mean a failure although the process ends with exit code 0."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of one job; `None` means unknown. Times are aware and in UTC; `errors` counts ERROR log lines.

    A job of the shared queue has a `line`; one that was sent to a stock node has none. `attempt` counts how often a
    node took it, `attempts` how often one may; `token` is its present owner's fencing token. `reason` says in a
    sentence how it came to its state, `finish_reason` is Scrapy's own word. `due_at` and `is_held` keep a pending
    job from being taken. `on` names the only nodes that may take it. `signal` is a name (`SIGKILL`).
    `statuses` counts the answers by HTTP status.
    """

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
    retries: int | None = None
    bytes: int | None = None
    pages_per_minute: float | None = None
    memory_mb: float | None = None
    statuses: Mapping[str, int] | None = None
    reason: str | None = None
    line: LineName | None = None
    on: tuple[NodeName, ...] | None = None
    attempt: int | None = None
    attempts: int | None = None
    retries_failed: bool = False
    timeout_s: float | None = None
    due_at: datetime | None = None
    is_held: bool = False
    token: Token | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    scheduled_by: str | None = None

    @property
    def is_queued(self) -> bool:
        """It belongs to the shared queue, not to one stock node."""
        return self.line is not None

    @property
    def crawl(self) -> CrawlId | None:
        """The crawl that the job works on if its spider uses the frontier; `None` where it is called as the spider.

        A project that names the crawl in its own settings is not known here.
        """
        args, settings = self.args or {}, self.settings or {}
        return crawl_of(self.spider, args, settings) if args or settings.get(CRAWL_SETTING) else None


def crawl_of(spider: str, args: Mapping[str, str], settings: Mapping[str, str]) -> CrawlId:
    """Return the crawl that a job works on if its spider uses the frontier: the one it names, else the default one."""
    return CrawlId(settings.get(CRAWL_SETTING) or default_crawl(spider, args))


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to show; an empty field lets every job through.

    To a crawl belong the jobs whose `crawl` it is, and of the spider of its name those that have none.
    """

    states: frozenset[JobState] = frozenset()
    spider: str | None = None
    project: str | None = None
    nodes: frozenset[NodeName] = field(default_factory=frozenset)
    since: datetime | None = None
    crawl: str | None = None

    @property
    def is_open(self) -> bool:
        """It lets every job through."""
        return self == JobFilter()

    def admits(self, job: Job) -> bool:
        """Tell whether the job is one of those asked for."""
        seen_at = job.scheduled_at or job.started_at or job.ended_at
        return (
            (not self.states or job.state in self.states)
            and (self.spider is None or job.spider == self.spider)
            and (self.project is None or job.project == self.project)
            and (self.crawl is None or (job.crawl or job.spider) == self.crawl)
            and (not self.nodes or job.node in self.nodes)
            and (self.since is None or seen_at is None or seen_at >= self.since)
        )
