"""The shapes of what the HTTP API answers about logs, events and crons: the rows of `views/`, field by field."""

from __future__ import annotations

from toolkit.model.crons import FiringState, Late, Outcome, Overlap
from toolkit.model.events import EventKind
from toolkit.web.shapes import Row


class LogPart(Row):
    """A part of a job's log, in whole lines at its begin. `next` asks for what follows; nothing may be there yet.

    `left_out` bytes before it were not kept; `moved`: it is of another node than the part before; `over`: the job has
    ended, and this is the last of it.
    """

    id: str
    source: str
    text: str
    next: str
    left_out: int
    moved: bool
    over: bool


class EventRow(Row):
    """An event, as `crawlctl events`; `key` is for those who may hear of it twice."""

    id: str
    key: str
    at: str | None
    kind: EventKind
    subject: str
    about: dict[str, str]


class FiringRow(Row):
    """What became of one due time, as `crawlctl cron show --history`."""

    cron: str
    due_at: str
    at: str
    state: FiringState
    by: str
    jobs: list[str]
    reason: str | None


class AfterRow(Row):
    """The spider whose end a cron follows."""

    spider: str
    outcome: Outcome


class CronRow(Row):
    """A cron, as `crawlctl cron list`."""

    name: str
    spider: str
    project: str | None
    at: str | None
    after: AfterRow | None
    timezone: str
    paused: bool
    next_at: str | None
    waiting: int
    waits_since: str | None
    last_success_at: str | None
    last: FiringRow | None


class Cron(CronRow):
    """All that is known of a cron, as `crawlctl cron show`."""

    jitter_s: float
    starts_at: str | None
    ends_at: str | None
    args: dict[str, str]
    settings: dict[str, str]
    on: list[str] | None
    priority: float
    attempts: int
    timeout_s: float | None
    workers: int
    crawl: str | None
    overlap: Overlap
    late: Late
    comment: str | None
    by: str
    revision: str


class Ran(Row):
    """What became of a cron that was run by hand; null while it waits for the end of the one before."""

    cron: str
    firing: FiringRow | None


class RemovedCrons(Row):
    """The crons that were taken away."""

    removed: list[str]
