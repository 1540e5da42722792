"""Crons: jobs that recur, or follow another job, and the history of their firings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from toolkit.model.jobs import DEFAULT_ATTEMPTS
from toolkit.model.names import CrawlId, JobId, NodeName, ProjectName, SpiderName


class Overlap(StrEnum):
    """What happens when a cron is due while a job of its last firing has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    """It waits until that has ended; every firing happens, in order."""
    REPLACE = "replace"
    """That is cancelled, and the new one follows when it is gone."""


class Late(StrEnum):
    """What happens when the cluster was away at times when a cron was due."""

    ONCE = "once"
    ALL = "all"
    SKIP = "skip"


class Outcome(StrEnum):
    """How a job must have ended for those that follow it."""

    SUCCESS = "success"
    FAILED = "failed"
    """Failed or lost; a cancelled one is neither."""
    ANY = "any"


@dataclass(frozen=True, slots=True)
class After:
    """A cron fires when a job of this spider of the cron's project ends so."""

    spider: SpiderName
    outcome: Outcome = Outcome.SUCCESS


@dataclass(frozen=True, slots=True)
class Cron:
    """One recurring job, as somebody defined it: exactly one of `at` (a cron expression) and `after` is given.

    `project` is `None` where the spider's name is enough at each firing. `timezone` is a name of the tz database.
    `jitter_s` is the most by which a firing is put off, the same for each due time. `on` names the only nodes. Values
    of `args` and `settings` may hold templates such as `{date}`. `revision` is the digest of all the rest.
    """

    name: str
    spider: SpiderName
    at: str | None = None
    after: After | None = None
    project: ProjectName | None = None
    timezone: str = "UTC"
    jitter_s: float = 0.0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    args: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    on: tuple[NodeName, ...] | None = None
    priority: float = 0.0
    attempts: int = DEFAULT_ATTEMPTS
    timeout_s: float | None = None
    workers: int = 1
    crawl: CrawlId | None = None
    overlap: Overlap = Overlap.SKIP
    late: Late = Late.ONCE
    is_paused: bool = False
    comment: str | None = None


class FiringState(StrEnum):
    """What became of one due time."""

    FIRED = "fired"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Firing:
    """One due time of a cron and what became of it. `by` is the node that fired it, or who ran it by hand."""

    cron: str
    due_at: datetime
    at: datetime
    state: FiringState
    by: str
    jobs: tuple[JobId, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CronView:
    """A cron as an operator sees it: what it is, when it is due next (`None`: not again), and its last firing."""

    cron: Cron
    next_at: datetime | None = None
    last: Firing | None = None
    waits_since: datetime | None = None
    last_success_at: datetime | None = None
    by: str = ""
