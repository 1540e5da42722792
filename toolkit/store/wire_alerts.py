"""How rules, sinks and what is held for them look at rest, the secrets in the clear: Redis' users guard them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields as fields_of
from datetime import UTC, datetime, time
from typing import Any

from toolkit.model.alerts import (
    Action,
    Alerts,
    Failed,
    HeldEvent,
    InQuiet,
    MailTls,
    Quiet,
    Rule,
    RuleKind,
    Severity,
    Sink,
    SinkKind,
)
from toolkit.model.errors import StoreUnreadableError
from toolkit.model.events import Event
from toolkit.model.hosts import Secret
from toolkit.store.envelope import read, write
from toolkit.store.fields import Fields
from toolkit.store.wire_events import ABOUT, KIND, SUBJECT, read_event, write_about

_DAY_TIME = "%H:%M"


def write_alerts(alerts: Alerts) -> str:
    """Return sinks and rules as JSON; revision, author and time lie beside them."""
    return write(
        {
            "sinks": [_plain(sink) for sink in alerts.sinks.values()],
            "rules": [_plain(rule) for rule in alerts.rules.values()],
        }
    )


def read_alerts(body: str | bytes, *, revision: int, by: str, at: datetime | None) -> Alerts:
    """Return the sinks and rules that the JSON describes.

    Raises:
        StoreUnreadableError: it is no such thing, or of a newer wire version.

    """
    fields = read(body, "set of alerts")
    sinks = {sink.name: sink for sink in map(_sink, fields.parts("sinks"))}
    rules = {rule.name: rule for rule in map(_rule, fields.parts("rules"))}
    return Alerts(sinks, rules, revision=revision, by=by, at=at)


def write_held(event: Event, rule: str) -> str:
    """Return an event that is held for a sink, as JSON that sorts by its age."""
    millis, _, count = event.id.partition("-")
    order = f"{int(millis or 0):019d}-{int(count or 0):019d}"
    told = {"order": order, "rule": rule, "id": event.id, KIND: event.kind.value, SUBJECT: event.subject}
    return json.dumps(told | {ABOUT: write_about(event.about)}, separators=(",", ":"), ensure_ascii=False)


def read_held(raw: str, *, due_ms: int) -> HeldEvent | None:
    """Return what is held; `None`: of a kind that is not known here, or nothing that can be read."""
    try:
        told = json.loads(raw)
        event = read_event(told["id"], told)
        rule = str(told["rule"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return None if event is None else HeldEvent(event, rule, datetime.fromtimestamp(due_ms / 1000, UTC), raw=raw)


def write_failed(failed: Failed) -> dict[str, Any]:
    """Return what JSON says of a message that was given up; the store adds the time."""
    return {
        "sink": failed.sink,
        "key": failed.key,
        "subject": failed.subject,
        "rules": list(failed.rules),
        "why": failed.why,
        "count": failed.count,
    }


def read_failed(body: str, *, at: datetime) -> Failed:
    """Return the message that the JSON describes.

    Raises:
        StoreUnreadableError: it is none.

    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    fields = Fields(found if isinstance(found, dict) else {}, what="given up message")
    return Failed(
        sink=fields.text("sink"),
        key=fields.text("key"),
        subject=fields.text("subject"),
        rules=tuple(fields.texts("rules")),
        why=fields.text("why"),
        count=fields.whole("count"),
        at=at,
    )


def _plain(noun: Sink | Rule) -> dict[str, Any]:
    """Return the fields that say something, as JSON can hold them."""
    values = {each.name: getattr(noun, each.name) for each in fields_of(noun)}
    return {name: _json(value) for name, value in values.items() if value not in (None, "", ())}


def _json(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Quiet):
        return {"begin": f"{value.begin:{_DAY_TIME}}", "end": f"{value.end:{_DAY_TIME}}", "zone": value.zone}
    return list(value) if isinstance(value, tuple) else value


def _sink(fields: Fields) -> Sink:
    return Sink(
        name=fields.text("name"),
        kind=fields.choice("kind", SinkKind),
        url=_secret(fields, "url"),
        secret=_secret(fields, "secret"),
        server=fields.maybe_text("server") or "",
        port=fields.maybe_whole("port"),
        tls=fields.choice("tls", MailTls),
        username=fields.maybe_text("username"),
        password=_secret(fields, "password"),
        sender=fields.maybe_text("sender") or "",
        recipients=tuple(fields.maybe_texts("recipients")),
        program=fields.maybe_text("program") or "",
        ca=fields.maybe_text("ca"),
        timeout_s=fields.number("timeout_s"),
        give_up_s=fields.number("give_up_s"),
    )


def _rule(fields: Fields) -> Rule:
    return Rule(
        name=fields.text("name"),
        to=tuple(fields.maybe_texts("to")),
        kind=fields.choice("kind", RuleKind),
        events=tuple(fields.maybe_texts("events")),
        project=fields.maybe_text("project") or "",
        spider=fields.maybe_text("spider") or "",
        node=fields.maybe_text("node") or "",
        subject=fields.maybe_text("subject") or "",
        threshold=fields.number("threshold"),
        within_s=fields.number("within_s"),
        of_last=fields.whole("of_last"),
        do=fields.choice("do", Action),
        severity=fields.choice("severity", Severity),
        every_s=fields.number("every_s"),
        quiet=_quiet(fields.part("quiet")) if fields.has("quiet") else None,
        in_quiet=fields.choice("in_quiet", InQuiet),
        tells_over=fields.flag("tells_over"),
    )


def _quiet(fields: Fields) -> Quiet:
    try:
        begin, end = time.fromisoformat(fields.text("begin")), time.fromisoformat(fields.text("end"))
    except ValueError as error:
        raise StoreUnreadableError(
            "a quiet time in the alerts is no time of day", hint="crawlctl alerts apply"
        ) from error
    return Quiet(begin, end, fields.text("zone"))


def _secret(fields: Fields, name: str) -> Secret | None:
    text = fields.maybe_text(name)
    return None if text is None else Secret(text)


def told_of(hash_: Mapping[str, str]) -> dict[str, datetime]:
    """Return when each rule's last message went out, of the fields `told:<rule>` of a sink's hash."""
    return {name.removeprefix("told:"): moment(value) for name, value in hash_.items() if name.startswith("told:")}


def moment(ms: str | float) -> datetime:
    """Return the moment that Redis' milliseconds mean."""
    return datetime.fromtimestamp(float(ms) / 1000, UTC)
