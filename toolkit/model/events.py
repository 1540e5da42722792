"""Events: what changed in a cluster, as a capped stream that every face and every alert reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class EventKind(StrEnum):
    """What happened. The part before the dot says to what: the event's subject is one of those."""

    JOB_STARTED = "job.started"
    JOB_FINISHED = "job.finished"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"
    JOB_LOST = "job.lost"
    JOB_REQUEUED = "job.requeued"
    """Its node was lost, or it failed with attempts left: it is pending again."""
    NODE_STALE = "node.stale"
    NODE_LOST = "node.lost"
    NODE_BACK = "node.back"
    """It lives again, or is new."""
    NODE_BEHIND = "node.behind"
    """It should hold a release and does not."""
    RELEASE_DEPLOYED = "release.deployed"
    RELEASE_ROLLED_BACK = "release.rolled_back"
    CRAWL_OVER = "crawl.over"
    QUEUE_GROWING = "queue.growing"
    QUEUE_WEDGED = "queue.wedged"
    """Jobs wait, nodes live, and none of them may take one."""
    QUEUE_CLEAR = "queue.clear"
    """It is neither growing nor wedged any more."""
    CRON_FIRED = "cron.fired"
    CRON_SKIPPED = "cron.skipped"
    CRON_FAILED = "cron.failed"
    """It was due, and nothing could be scheduled: the reason says why."""
    ALERT_FIRING = "alert.firing"
    ALERT_OVER = "alert.over"


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `id` is the stream's, rising in time; with the cluster's name it is the key for de-duplication.

    `subject` is the id or name of what changed: a job's id, a node's name, `project version`, a crawl's id, a cron's or
    a rule's name. `about` holds what a reader wants to know without asking: project, spider, node, version, reason, …,
    all texts; never a secret.
    """

    kind: EventKind
    subject: str
    about: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A watched thing is in this state, and the event that tells so if it was in another.

    `was` is the state that it must have been in for that, an empty text that nothing was known of it; `None`: any.
    """

    watched: str
    state: str
    event: Event | None = None
    was: str | None = None
