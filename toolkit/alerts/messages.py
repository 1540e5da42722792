"""How a message reads: as a sentence, as the JSON of webhooks and commands, as Slack's text, as a mail. Pure.

What a crawl found may stand in an event (a reason, a name), so nothing of it is taken for markup or for a header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any

from toolkit.model.alerts import Message, Severity, Sink
from toolkit.model.events import Event, EventKind

MAX_LINES = 20
"""How many events are spelled out where people read; the JSON has them all."""

MAX_CHARS = 500
_SIGNS = {Severity.INFO: "info", Severity.WARNING: "WARNING", Severity.CRITICAL: "CRITICAL"}
_WORDS: Mapping[EventKind, str] = {
    EventKind.JOB_STARTED: "job {subject} has started",
    EventKind.JOB_FINISHED: "job {subject} has finished",
    EventKind.JOB_FAILED: "job {subject} has failed",
    EventKind.JOB_CANCELLED: "job {subject} was cancelled",
    EventKind.JOB_LOST: "job {subject} is lost",
    EventKind.JOB_REQUEUED: "job {subject} is pending again",
    EventKind.NODE_STALE: "node {subject} is stale",
    EventKind.NODE_LOST: "node {subject} is lost",
    EventKind.NODE_BACK: "node {subject} is there",
    EventKind.NODE_BEHIND: "node {subject} is behind",
    EventKind.RELEASE_DEPLOYED: "{subject} was deployed",
    EventKind.RELEASE_ROLLED_BACK: "{subject} is active again",
    EventKind.CRAWL_OVER: "crawl {subject} is over",
    EventKind.QUEUE_GROWING: "the queue grows",
    EventKind.QUEUE_WEDGED: "jobs wait, and no live node may take them",
    EventKind.QUEUE_CLEAR: "the queue is clear again",
    EventKind.CRON_FIRED: "cron {subject} has fired",
    EventKind.CRON_SKIPPED: "cron {subject} was skipped",
    EventKind.CRON_FAILED: "cron {subject} could not fire",
    EventKind.ALERT_FIRING: "{subject} fires",
    EventKind.ALERT_OVER: "{subject} is over",
}


def sentence(event: Event) -> str:
    """Tell an event in one line."""
    about = event.about
    said = _WORDS.get(event.kind, "{kind} {subject}").replace("{kind}", event.kind.value)
    said = said.replace("{subject}", event.subject)
    what = " ".join(about[name] for name in ("project", "spider") if about.get(name))
    is_named = event.kind.value.startswith("release.") or not what
    where = f" on {about['node']}" if about.get("node") and about["node"] != event.subject else ""
    why = f": {about['reason']}" if about.get("reason") else ""
    return _one_line(f"{said}{'' if is_named else f' ({what})'}{where}{why}")


def headline(message: Message) -> str:
    """Tell a message in one line, with its severity and the cluster."""
    more = f", and {len(message.events) - 1} more" if len(message.events) > 1 else ""
    return f"[{_SIGNS[message.severity]}] {message.cluster}: {sentence(message.events[-1])}{more}"


def json_body(message: Message) -> bytes:
    """Return the message as JSON, the same bytes for each attempt."""
    body: dict[str, Any] = {
        "key": message.key,
        "cluster": message.cluster,
        "severity": message.severity.value,
        "rules": list(message.rules),
        "text": headline(message),
        "events": [event_body(event) for event in message.events],
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def event_body(event: Event) -> dict[str, Any]:
    """Return what JSON says of an event."""
    at = None if event.at is None else event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"id": event.id, "kind": event.kind.value, "subject": event.subject, "at": at, "about": dict(event.about)}


def slack_body(message: Message) -> bytes:
    """Return the message as Slack's incoming webhooks take it; nobody is mentioned by what an event says."""
    return json.dumps({"text": _escaped("\n".join(_lines(message)))}, ensure_ascii=False).encode(errors="replace")


def mail(message: Message, sink: Sink) -> EmailMessage:
    """Return the message as a mail; its Message-ID is the same for each attempt, so that mailboxes see it once."""
    mail = EmailMessage()
    mail["Subject"] = headline(message)
    mail["From"] = sink.sender
    mail["To"] = ", ".join(sink.recipients)
    mail["Message-ID"] = f"<{message.key.replace('/', '.')}@{_domain(sink.sender)}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Crawlctl-Event"] = message.key
    mail.set_content("\n".join([*_lines(message), "", *_details(message.events[-1]), ""]))
    return mail


def _lines(message: Message) -> list[str]:
    shown = message.events[-MAX_LINES:]
    left = len(message.events) - len(shown)
    if len(message.events) == 1:
        return [headline(message), *_by(message)]
    older = [f"and {left} before them"] if left else []
    return [headline(message), *(f"- {sentence(event)}" for event in reversed(shown)), *older, *_by(message)]


def _by(message: Message) -> list[str]:
    return [f"by the rule {', '.join(message.rules)}"] if message.rules else []


def _details(event: Event) -> list[str]:
    at = None if event.at is None else event.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"kind": event.kind.value, "subject": event.subject, "at": at, **event.about}
    return [_one_line(f"{name}: {value}") for name, value in told.items() if value]


def _one_line(text: str) -> str:
    line = "".join(each if each.isprintable() else " " for each in text)
    return line if len(line) <= MAX_CHARS else f"{line[: MAX_CHARS - 1]}…"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _domain(address: str) -> str:
    domain = address.rpartition("@")[2].strip("<> ")
    return domain if domain.isascii() and domain else "crawlctl"
