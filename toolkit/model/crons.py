"""Crons: jobs that recur, or follow another job, and the history of their firings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from toolkit.model.errors import UsageError
from toolkit.model.jobs import DEFAULT_ATTEMPTS, Job
from toolkit.model.names import MAX_NAME_CHARS, CrawlId, JobId, NodeName, ProjectName, SpiderName

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


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
    of `args` and `settings` may hold templates such as `{date}`.
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
class Due:
    """When a cron is due: the time that its expression names, and when it fires, which its jitter may put off."""

    at: datetime
    fires_at: datetime


@dataclass(frozen=True, slots=True)
class Trigger:
    """What one firing is for: a due time, or the end of a job that is followed, with that job and its project.

    `word` tells firings by hand from each other. No two firings of a cron have the same trigger.
    """

    at: datetime
    job: JobId | None = None
    project: ProjectName | None = None
    word: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A firing that this node shall see to now; should it not, another does when the lease is over.

    `place` is where it stands among what is due, `waited` tells that it has waited for the end of the one before.
    `due` is set where it is due by its expression.
    """

    cron: Cron
    revision: str
    trigger: Trigger
    place: str = ""
    due: Due | None = None
    waited: bool = False
    last_success_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TakenCrons:
    """What one look at the crons found: the store's time, what fell to the asker, and when to look again, if known."""

    now: datetime
    crons: tuple[Taken, ...] = ()
    next_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """What shall become of a firing, if nothing was changed meanwhile: the jobs to put into the queue, or why none.

    `next` is when the cron is due after that by its expression; `None`: not again. `heeds_overlap` is false where
    somebody wants it whatever runs.
    """

    taken: Taken
    state: FiringState
    by: str
    jobs: tuple[Job, ...] = ()
    reason: str | None = None
    next: Due | None = None
    heeds_overlap: bool = True


@dataclass(frozen=True, slots=True)
class CronView:
    """A cron as an operator sees it: what it is, when it fires next by its expression (`None`: not), its last firing.

    `waits_since` is since when a firing waits for the end of the one before, `waiting` how many do. `last_success_at`
    is when the last firing was due of which a job finished well. `by` defined it; `revision` is the digest of that.
    """

    cron: Cron
    next_at: datetime | None = None
    last: Firing | None = None
    waits_since: datetime | None = None
    last_success_at: datetime | None = None
    by: str = ""
    revision: str = ""
    waiting: int = 0


def check_cron_name(text: str) -> str:
    """Return the name of a cron, or say why it cannot be one.

    Raises:
        UsageError: it is empty, too long, or has a character that is not a letter, digit, `_`, `-` or `.`.

    """
    if not _NAME.fullmatch(text) or len(text) > MAX_NAME_CHARS:
        raise UsageError(
            f"cron name {text[:40]!r} cannot be used: letters, digits, '_', '-' and '.' only, and a letter, digit or "
            f"'_' first, {MAX_NAME_CHARS} at most"
        )
    return text
