"""Alerts as an operator sees them: what is set, what fires, how each sink fares; and what an apply would change."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from toolkit.config.nearest import did_you_mean
from toolkit.model.alerts import Alerts, Rule, Silence, Sink, SinkState
from toolkit.model.errors import NotFoundError, SinkError
from toolkit.model.events import Event, EventKind
from toolkit.store.interfaces import Shared

FIRING = "firing"
WATCHED = "alert:"
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class AlertOverview:
    """Everything about alerts at a moment; `firing` has for each rule what it fires for."""

    alerts: Alerts
    sinks: Mapping[str, SinkState]
    silences: Mapping[str, Silence]
    firing: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class AlertChange:
    """One sink or rule that an apply adds, changes or removes, and which of its keys; never what they say."""

    what: str
    name: str
    action: str
    keys: tuple[str, ...] = ()


def overview(shared: Shared) -> AlertOverview:
    """Return what is set and how it stands.

    Raises:
        StoreUnreachableError: Redis does not answer.

    """
    alerts = shared.alerts.read()
    silences = {each.rule: each for each in shared.alerts.silences()}
    return AlertOverview(alerts, shared.alerts.states(list(alerts.sinks)), silences, firing(shared.events.states()))


def firing(states: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return for each rule what it fires for, of the states of all watched things. Pure."""
    found: dict[str, tuple[str, ...]] = {}
    for watched in sorted(name for name, state in states.items() if name.startswith(WATCHED) and state == FIRING):
        rule, _, subject = watched.removeprefix(WATCHED).partition(":")
        found[rule] = (*found.get(rule, ()), subject)
    return found


def differences(before: Alerts, after: Alerts) -> tuple[AlertChange, ...]:
    """Return what changes from one to the other, sinks first. Pure."""
    return (
        *_differences("sink", before.sinks, after.sinks),
        *_differences("rule", before.rules, after.rules),
    )


def apply_alerts(shared: Shared, wanted: Alerts, changes: Sequence[AlertChange], *, by: str) -> None:
    """Make these the sinks and rules; what a changed sink did not take is tried again at once.

    Raises:
        ConflictError: others change them at the same time, again and again.

    """
    shared.alerts.put(wanted, by=by)
    shared.alerts.hurry([each.name for each in changes if each.what == "sink" and each.action == "change"])


def require_rule(alerts: Alerts, name: str) -> Rule:
    """Return a rule.

    Raises:
        NotFoundError: there is none of that name.

    """
    if name not in alerts.rules:
        raise _missing("rule", name, alerts.rules)
    return alerts.rules[name]


def require_sink(alerts: Alerts, name: str) -> Sink:
    """Return a sink.

    Raises:
        NotFoundError: there is none of that name.

    """
    if name not in alerts.sinks:
        raise _missing("sink", name, alerts.sinks)
    return alerts.sinks[name]


def try_sink(
    shared: Shared, sink: str, *, by: str, timeout_s: float, sleep: Callable[[float], object] = time.sleep
) -> float:
    """Let the nodes tell a sink that it is tested, on the way that every message takes; return the seconds it took.

    What waits for it goes before, at once.

    Raises:
        NotFoundError: there is no such sink.
        SinkError: it did not take it, or nobody told it, within the time; it is tried on.

    """
    require_sink(shared.alerts.read(), sink)
    before = shared.alerts.states([sink])[sink].tries
    about = {"sink": sink, "reason": f"{by} asks whether messages arrive"}
    began = time.monotonic()
    event_id = shared.events.note(Event(EventKind.ALERT_FIRING, f"test of {sink}", about))
    shared.alerts.hurry([sink])
    while True:
        state = shared.alerts.states([sink])[sink]
        if state.cursor and _order(state.cursor) >= _order(event_id):
            failed = [each for each in shared.alerts.failed() if each.sink == sink and event_id in each.key]
            if failed:
                raise SinkError(f"{sink} did not take it: {failed[0].why}")
            return time.monotonic() - began
        if state.tries > before and state.error:
            raise SinkError(f"{sink} does not take messages: {state.error}; it is tried on")
        if time.monotonic() - began > timeout_s:
            raise SinkError(f"{sink}: {_why_not_told(state)}; the test waits there")
        sleep(LOOK_EVERY_S)


def _why_not_told(state: SinkState) -> str:
    if state.by is None:
        return "no live node tells it, or none permits its program in alert_commands"
    return f"{state.by} has not come to it yet"


def _order(event_id: str) -> tuple[int, int]:
    millis, _, count = event_id.partition("-")
    return int(millis), int(count or 0)


def _differences(what: str, before: Mapping[str, object], after: Mapping[str, object]) -> Sequence[AlertChange]:
    found = [AlertChange(what, name, "add") for name in after if name not in before]
    found += [
        AlertChange(what, name, "change", _other(before[name], after[name]))
        for name in after
        if name in before and before[name] != after[name]
    ]
    return [*found, *(AlertChange(what, name, "remove") for name in before if name not in after)]


def _other(before: object, after: object) -> tuple[str, ...]:
    names = (each.name for each in fields(after))  # type: ignore[arg-type]
    return tuple(name for name in names if getattr(before, name) != getattr(after, name))


def _missing(what: str, name: str, known: Mapping[str, object]) -> NotFoundError:
    near = did_you_mean(name, known)
    return NotFoundError(f"there is no {what} {name!r}{near}", hint="crawlctl alerts list shows them")
