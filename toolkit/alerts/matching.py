"""Which rules speak of an event, and when a rule keeps quiet. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

from toolkit.model.alerts import Alerts, Quiet, Rule, RuleKind
from toolkit.model.events import Event, EventKind

TESTED_SINK = "sink"
"""What a test event is about: the one sink that is told of it."""

OF_RULE = "rule"
"""What the event of a threshold is about: the rule that fires, or is over."""


def rules_for(event: Event, *, sink: str, alerts: Alerts) -> tuple[Rule, ...]:
    """Return the rules by which this sink is told of the event, in the order of the rules."""
    return tuple(rule for rule in alerts.rules.values() if sink in rule.to and admits(rule, event))


def is_test_of(event: Event, sink: str) -> bool:
    """Tell whether the event only asks whether this sink can be reached."""
    return event.kind is EventKind.ALERT_FIRING and event.about.get(TESTED_SINK) == sink


def admits(rule: Rule, event: Event) -> bool:
    """Tell whether the rule speaks of the event; a threshold speaks of its own firing, and of its end if it should."""
    if event.about.get(TESTED_SINK) is not None and event.kind is EventKind.ALERT_FIRING:
        return False
    if rule.kind is not RuleKind.EVENTS:
        is_over = event.kind is EventKind.ALERT_OVER
        is_own = event.about.get(OF_RULE) == rule.name
        return is_own and ((is_over and rule.tells_over) or event.kind is EventKind.ALERT_FIRING)
    if not any(fnmatchcase(event.kind.value, pattern) for pattern in rule.events):
        return False
    node = event.subject if event.kind.value.startswith("node.") else event.about.get("node", "")
    return (
        _fits(rule.project, event.about.get("project", ""))
        and _fits(rule.spider, event.about.get("spider", ""))
        and _fits(rule.node, node)
        and _fits(rule.subject, event.subject)
    )


def may_admit_job(rule: Rule, *, project: str, spider: str, node: str | None) -> bool:
    """Tell whether a threshold watches jobs of this spider on this node."""
    return _fits(rule.project, project) and _fits(rule.spider, spider) and _fits(rule.node, node or "")


def quiet_until(quiet: Quiet | None, now: datetime) -> datetime | None:
    """Return when the quiet time that it is now will be over; `None`: it is none. Clock changes are the zone's own."""
    if quiet is None:
        return None
    zone = ZoneInfo(quiet.zone)
    local = now.astimezone(zone)
    clock = local.time()
    is_over_midnight = quiet.begin > quiet.end
    is_quiet = clock >= quiet.begin or clock < quiet.end if is_over_midnight else quiet.begin <= clock < quiet.end
    if not is_quiet:
        return None
    day = local.date() + timedelta(days=1 if is_over_midnight and clock >= quiet.begin else 0)
    return datetime.combine(day, quiet.end, tzinfo=zone).astimezone(UTC)


def heaviest(rules: Iterable[Rule]) -> Rule | None:
    """Return the rule of the greatest severity, of equal ones the first."""
    order = ("info", "warning", "critical")
    return max(rules, key=lambda rule: order.index(rule.severity.value), default=None)


def _fits(pattern: str, text: str) -> bool:
    return not pattern or fnmatchcase(text, pattern)
