"""Alerts: where messages go (sinks), what is told and to whom (rules), and how far each sink is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from enum import StrEnum

from toolkit.model.events import Event
from toolkit.model.hosts import Secret


class Severity(StrEnum):
    """How much a message matters, from little to much."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class SinkKind(StrEnum):
    """The ways on which a message leaves the cluster."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    """Whatever takes Slack's incoming webhooks: Slack, Mattermost, Rocket.Chat, Discord with `/slack`."""
    EMAIL = "email"
    COMMAND = "command"
    """A program of the node, by the name under which the node's own configuration permits it."""


class MailTls(StrEnum):
    """How a mail server is spoken to."""

    STARTTLS = "starttls"
    IMPLICIT = "implicit"
    NONE = "none"


class RuleKind(StrEnum):
    """What makes a rule tell something; all but the first are thresholds, which fire and are over."""

    EVENTS = "events"
    ERRORS = "errors"
    """A running job logs more errors a minute than `threshold`, over `within_s`."""
    ITEMS = "items"
    """A run finished with fewer items than `threshold` times the median of the last `of_last` finished runs."""
    PROGRESS = "progress"
    """A running job had no new page and no new item for `within_s`."""
    WAITING = "waiting"
    """A job that could be taken waits for longer than `within_s`."""


class Action(StrEnum):
    """What a threshold does to the running job beside telling of it."""

    NONE = "none"
    PAUSE = "pause"
    CANCEL = "cancel"


class InQuiet(StrEnum):
    """What becomes of messages in a rule's quiet times."""

    HOLD = "hold"
    """They come in one message when the quiet time is over."""
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Quiet:
    """A time of each day in a zone of the tz database; it may reach over midnight."""

    begin: time
    end: time
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M} {self.zone}"


@dataclass(frozen=True, slots=True)
class Sink:
    """One place that messages go to; which fields count depends on its kind.

    A message is tried for `give_up_s` seconds from its event on, each attempt takes `timeout_s` at most. `ca` are the
    authorities (PEM) that may vouch for its certificate instead of those the machine trusts.
    """

    name: str
    kind: SinkKind
    url: Secret | None = None
    secret: Secret | None = None
    server: str = ""
    port: int | None = None
    tls: MailTls = MailTls.STARTTLS
    username: str | None = None
    password: Secret | None = None
    sender: str = ""
    recipients: tuple[str, ...] = ()
    program: str = ""
    ca: str | None = None
    timeout_s: float = 10.0
    give_up_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Rule:
    """What is told to whom. An empty pattern admits everything; patterns are globs.

    `events` are patterns of kinds; a threshold has none. No more than one message in `every_s` seconds goes to a sink:
    what comes meanwhile comes together when they are over.
    """

    name: str
    to: tuple[str, ...]
    kind: RuleKind = RuleKind.EVENTS
    events: tuple[str, ...] = ()
    project: str = ""
    spider: str = ""
    node: str = ""
    subject: str = ""
    threshold: float = 0.0
    within_s: float = 0.0
    of_last: int = 10
    do: Action = Action.NONE
    severity: Severity = Severity.WARNING
    every_s: float = 0.0
    quiet: Quiet | None = None
    in_quiet: InQuiet = InQuiet.HOLD
    tells_over: bool = True


@dataclass(frozen=True, slots=True)
class Alerts:
    """All sinks and rules of a cluster, as they were applied last; `revision` is 0 when none ever were."""

    sinks: Mapping[str, Sink] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    revision: int = 0
    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """What a sink is told at a time: one event, or several that were held together; the last of them is the newest.

    `key` is the same for every attempt, and no other message of this sink has it.
    """

    key: str
    cluster: str
    events: tuple[Event, ...]
    rules: tuple[str, ...]
    severity: Severity


@dataclass(frozen=True, slots=True)
class HeldEvent:
    """An event that a sink is told of later: at the end of a quiet time, or of a rule's rest. `raw` is it at rest."""

    event: Event
    rule: str
    due: datetime
    raw: str = ""


@dataclass(frozen=True, slots=True)
class SinkLease:
    """The right to tell a sink, and how far it was told: nobody else may, until the lease is over or given back."""

    sink: str
    token: int
    now: datetime
    revision: int
    cursor: str
    tries: int = 0
    not_before: datetime | None = None
    told: Mapping[str, datetime] = field(default_factory=dict)
    """Rule → when this sink had its last message."""
    silences: Mapping[str, datetime] = field(default_factory=dict)
    """Rule → until when nobody is told."""
    held: Sequence[HeldEvent] = ()
    """What is held and due, at most some hundred, the first due first; if nothing is, the one that will be next."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A message that a sink did not take, and that was given up."""

    sink: str
    key: str
    subject: str
    rules: tuple[str, ...]
    why: str
    at: datetime | None = None
    count: int = 1
    """How many events it told of."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """What one step of telling a sink changes; done whole, or not at all when the lease is no longer ours.

    `told` are the rules whose rest begins. `tries` counts the attempts that failed in a row (`None`: as it was),
    `pause_s` keeps the next one off, `error` says why it failed.
    """

    cursor: str | None = None
    hold: Sequence[HeldEvent] = ()
    drop: Sequence[HeldEvent] = ()
    told: Sequence[str] = ()
    failed: Sequence[Failed] = ()
    is_delivered: bool = False
    tries: int | None = None
    pause_s: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SinkState:
    """How a sink fares: how far it was told, whether somebody is at it, and what went wrong last."""

    cursor: str
    held: int = 0
    tries: int = 0
    error: str | None = None
    delivered: int = 0
    delivered_at: datetime | None = None
    by: str | None = None
    """The node that tells it now."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A rule of which nobody is told for a while."""

    rule: str
    until: datetime
    by: str = ""
