"""How alerts are shown. Secrets of sinks never are: of a URL the host alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolkit.model.alerts import Action, Failed, Rule, RuleKind, Silence, Sink, SinkKind, SinkState
from toolkit.views.contract import time_text
from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from toolkit.cluster.alerts import AlertChange, AlertOverview
    from toolkit.model.hosts import Secret
    from toolkit.views.view import FittedTable

SEVERITIES = {"info": "cyan", "warning": "yellow", "critical": "red"}
_ACTIONS = {"add": "green", "change": "yellow", "remove": "red"}


def alerts_view(seen: AlertOverview) -> View:
    """Show all sinks and rules, and how they stand."""
    data = {
        "revision": seen.alerts.revision,
        "applied_by": seen.alerts.by or None,
        "applied_at": time_text(seen.alerts.at),
        "sinks": [sink_row(sink, seen.sinks.get(sink.name)) for sink in seen.alerts.sinks.values()],
        "rules": [rule_row(rule, seen) for rule in seen.alerts.rules.values()],
    }
    return View(data, lambda: _tables(seen))


def sink_row(sink: Sink, state: SinkState | None) -> dict[str, Any]:
    """Show a sink and how it fares."""
    state = state or SinkState("")
    return {
        "name": sink.name,
        "kind": sink.kind.value,
        "where": where(sink),
        "signed": sink.secret is not None,
        "told_by": state.by,
        "delivered": state.delivered,
        "delivered_at": time_text(state.delivered_at),
        "held": state.held,
        "tries": state.tries,
        "error": state.error,
    }


def rule_row(rule: Rule, seen: AlertOverview) -> dict[str, Any]:
    """Show a rule and how it stands."""
    silence = seen.silences.get(rule.name)
    return {
        "name": rule.name,
        "watches": watches(rule),
        "kind": rule.kind.value,
        "to": list(rule.to),
        "severity": rule.severity.value,
        "do": None if rule.do is Action.NONE else rule.do.value,
        "every_s": rule.every_s or None,
        "quiet": None if rule.quiet is None else str(rule.quiet),
        "when_quiet": rule.in_quiet.value,
        "silent_until": None if silence is None else time_text(silence.until),
        "silent_by": None if silence is None else silence.by,
        "firing": list(seen.firing.get(rule.name, ())),
    }


def rule_view(rule: Rule, seen: AlertOverview) -> View:
    """Show one rule, a line for each key."""
    return _details(rule_row(rule, seen))


def sink_view(sink: Sink, state: SinkState | None) -> View:
    """Show one sink, a line for each key."""
    details = {
        "username": sink.username,
        "sender": sink.sender or None,
        "recipients": list(sink.recipients),
        "timeout_s": sink.timeout_s,
        "give_up_s": sink.give_up_s,
    }
    return _details(sink_row(sink, state) | details)


def changes_view(changes: Sequence[AlertChange]) -> View:
    """Show what an apply changes; of values nothing."""
    data = [{"what": each.what, "name": each.name, "action": each.action, "keys": list(each.keys)} for each in changes]
    rows = [
        (Styled(each.action, _ACTIONS[each.action]), each.what, each.name, ", ".join(each.keys) or None)
        for each in changes
    ]
    return View(data, lambda: plain_table("", "WHAT", "NAME", "KEYS", rows=rows, optional=("KEYS",)))


def arrived_view(sink: str, took_s: float) -> View:
    """Show that a test arrived."""
    data = {"sink": sink, "delivered": True, "seconds": round(took_s, 3)}
    return View(data, lambda: plain_table("SINK", "", rows=[(sink, f"took the test within {took_s:.2f} s")]))


def silence_view(silence: Silence) -> View:
    """Show until when a rule is silent."""
    data = {"rule": silence.rule, "until": time_text(silence.until), "by": silence.by}
    return View(data, lambda: plain_table("RULE", "SILENT UNTIL", "BY", rows=[tuple(data.values())]))


def unsilenced_view(rule: str, *, was_silent: bool) -> View:
    """Show that a rule speaks again."""
    words = "speaks again" if was_silent else "was not silent"
    return View({"rule": rule, "was_silent": was_silent}, lambda: plain_table("RULE", "", rows=[(rule, words)]))


def failed_view(failed: Sequence[Failed]) -> View:
    """Show the messages that were given up, newest first."""
    data = [
        {
            "at": time_text(each.at),
            "sink": each.sink,
            "key": each.key,
            "subject": each.subject,
            "events": each.count,
            "rules": list(each.rules),
            "why": each.why,
        }
        for each in failed
    ]
    rows = [(row["at"], row["sink"], row["subject"], row["events"], row["why"]) for row in data]
    return View(data, lambda: plain_table("AT", "SINK", "SUBJECT", "EVENTS", "WHY", rows=rows, right=("EVENTS",)))


def where(sink: Sink) -> str:
    """Say where a sink is, without what may be a secret."""
    if sink.kind is SinkKind.COMMAND:
        return sink.program
    if sink.kind is SinkKind.EMAIL:
        return f"{', '.join(sink.recipients)} by {sink.server}"
    return _masked(sink.url)


def watches(rule: Rule) -> str:
    """Say in words what a rule watches."""
    words = {
        RuleKind.EVENTS: ", ".join(rule.events),
        RuleKind.ERRORS: f"more than {rule.threshold:g} errors a minute over {_span(rule.within_s)}",
        RuleKind.ITEMS: f"fewer items than {rule.threshold:.0%} of the last {rule.of_last} runs' median",
        RuleKind.PROGRESS: f"no progress for {_span(rule.within_s)}",
        RuleKind.WAITING: f"a job waits for longer than {_span(rule.within_s)}",
    }
    names = ("project", "spider", "node", "subject")
    only = [f"{name} {getattr(rule, name)}" for name in names if getattr(rule, name)]
    return words[rule.kind] + (f", of {', '.join(only)}" if only else "")


def _masked(url: Secret | None) -> str:
    try:
        parts = urlsplit("" if url is None else url.reveal())
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "***"
    return f"{parts.scheme}://{parts.hostname}{port}/***"


def _span(seconds: float) -> str:
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds and seconds % unit_s == 0:
            return f"{seconds / unit_s:.0f}{unit}"
    return f"{seconds:g}s"


def _details(row: dict[str, Any]) -> View:
    rows = [(name, _text(value)) for name, value in row.items()]
    return View(row, lambda: plain_table("KEY", "VALUE", rows=rows))


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or None
    return None if value is None else str(value)


def _tables(seen: AlertOverview) -> Any:
    from rich.console import Group

    return Group(_sinks_table(seen), "", _rules_table(seen))


def _fares(sink: Sink, state: SinkState) -> Styled:
    """Say how a sink fares; one that nobody tells is not well, whatever there was before."""
    if state.tries:
        return Styled(f"{state.tries} failed: {state.error}", "red")
    if state.by:
        return Styled("well", "green")
    is_program = sink.kind is SinkKind.COMMAND
    return Styled(f"waits: no live node{' permits its program' if is_program else ''}", "yellow")


def _sinks_table(seen: AlertOverview) -> FittedTable:
    rows = []
    for sink in seen.alerts.sinks.values():
        state = seen.sinks.get(sink.name) or SinkState("")
        by = state.by or Styled("nobody", "yellow")
        rows.append(
            (sink.name, sink.kind.value, where(sink), by, state.delivered, state.held or None, _fares(sink, state))
        )
    names = ("SINK", "KIND", "WHERE", "TOLD BY", "DELIVERED", "HELD", "NOW")
    return plain_table(*names, rows=rows, right=("DELIVERED", "HELD"), spare=("WHERE", "HELD"), optional=("HELD",))


def _rules_table(seen: AlertOverview) -> FittedTable:
    rows = [
        (
            rule.name,
            Styled(rule.severity.value, SEVERITIES[rule.severity.value]),
            _now(rule, seen),
            ", ".join(rule.to) or None,
            watches(rule),
        )
        for rule in seen.alerts.rules.values()
    ]
    return plain_table("RULE", "SEVERITY", "NOW", "TO", "WATCHES", rows=rows, spare=("TO", "SEVERITY"))


def _now(rule: Rule, seen: AlertOverview) -> Styled | str:
    silence = seen.silences.get(rule.name)
    fires = len(seen.firing.get(rule.name, ()))
    if silence is not None:
        return Styled(f"silent until {time_text(silence.until)}", "dim")
    return Styled(f"fires for {fires}", SEVERITIES[rule.severity.value]) if fires else "quiet"
