"""What a sink is told next, and what is held back or passed over before that. Pure: who tells it keeps the lease.

An event is told at once, unless its rule has a quiet time now, or had told the sink something less than `every_s` ago:
then it is held, and what one rule holds until the same moment is told as one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from toolkit.alerts.matching import heaviest, is_test_of, quiet_until, rules_for
from toolkit.model.alerts import Alerts, HeldEvent, InQuiet, Message, Progressed, Rule, Severity, SinkLease
from toolkit.model.events import Event


@dataclass(frozen=True, slots=True)
class Step:
    """What is noted before anything is told (`None`: nothing), what is told, and what is noted when that has arrived.

    `since` is the moment from which on the message waits.
    """

    before: Progressed | None = None
    message: Message | None = None
    after: Progressed = field(default_factory=Progressed)
    since: datetime | None = None


def next_step(lease: SinkLease, alerts: Alerts, *, cluster: str, events: Sequence[Event], looked: str) -> Step:
    """Return the next step of telling the lease's sink; `events` follow its cursor, and `looked` is the last seen id.

    What is held and due comes first.
    """
    due = [each for each in lease.held if each.due <= lease.now]
    if due:
        first = due[0]
        group = [each for each in due if (each.rule, each.due) == (first.rule, first.due)]
        return _held_step(lease, alerts, group, cluster=cluster)
    passed, hold = lease.cursor, list[HeldEvent]()
    for event in events:
        tell, later, is_wanted = _verdict(lease, alerts, event)
        if is_wanted:
            message = _message((event,), tell, cluster=cluster, key=f"{cluster}/{event.id}")
            before = Progressed(cursor=passed, hold=tuple(hold)) if passed != lease.cursor else None
            after = Progressed(cursor=event.id, hold=later, told=_resting(tell), is_delivered=True, tries=0)
            return Step(before, message, after, since=event.at)
        hold += later
        passed = event.id
    return Step(Progressed(cursor=looked, hold=tuple(hold)) if looked != lease.cursor else None)


def _verdict(lease: SinkLease, alerts: Alerts, event: Event) -> tuple[list[Rule], tuple[HeldEvent, ...], bool]:
    """Return the rules that speak now, what is held for others, and whether there is anything to tell now."""
    tell: list[Rule] = []
    later: list[HeldEvent] = []
    for rule in rules_for(event, sink=lease.sink, alerts=alerts):
        if _is_silent(lease.silences, rule, lease.now):
            continue
        until = quiet_until(rule.quiet, lease.now)
        if until is not None and rule.in_quiet is InQuiet.DROP:
            continue
        until = until or _rest_until(lease, rule)
        if until is None:
            tell.append(rule)
        else:
            later.append(HeldEvent(event, rule.name, until))
    return tell, tuple(later), bool(tell) or is_test_of(event, lease.sink)


def _held_step(lease: SinkLease, alerts: Alerts, group: Sequence[HeldEvent], *, cluster: str) -> Step:
    """Tell what one rule has held until now, or hold it on if it is quiet, or drop it if nobody wants it any more."""
    rule = alerts.rules.get(group[0].rule)
    if rule is None or lease.sink not in rule.to or _is_silent(lease.silences, rule, lease.now):
        return Step(Progressed(drop=tuple(group)))
    until = quiet_until(rule.quiet, lease.now)
    if until is not None and rule.in_quiet is InQuiet.DROP:
        return Step(Progressed(drop=tuple(group)))
    if until is not None:
        return Step(Progressed(hold=tuple(HeldEvent(each.event, each.rule, until) for each in group)))
    told = tuple(each.event for each in group)
    key = f"{cluster}/{told[-1].id}/{rule.name}"
    after = Progressed(drop=tuple(group), told=_resting([rule]), is_delivered=True, tries=0)
    return Step(None, _message(told, [rule], cluster=cluster, key=key), after, since=group[0].due)


def _message(events: tuple[Event, ...], rules: list[Rule], *, cluster: str, key: str) -> Message:
    heavy = heaviest(rules)
    severity = Severity.INFO if heavy is None else heavy.severity
    return Message(key, cluster, events, tuple(rule.name for rule in rules), severity)


def _is_silent(silences: Mapping[str, datetime], rule: Rule, now: datetime) -> bool:
    until = silences.get(rule.name)
    return until is not None and until > now


def _rest_until(lease: SinkLease, rule: Rule) -> datetime | None:
    told = lease.told.get(rule.name)
    if told is None or rule.every_s <= 0:
        return None
    until = told + timedelta(seconds=rule.every_s)
    return until if until > lease.now else None


def _resting(rules: Sequence[Rule]) -> tuple[str, ...]:
    return tuple(rule.name for rule in rules if rule.every_s > 0)
