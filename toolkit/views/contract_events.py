"""The JSON contract of events. A field once shipped keeps its name and meaning."""

from __future__ import annotations

from typing import Any

from toolkit.model.events import Event
from toolkit.views.contract import time_text


def event_row(event: Event, *, cluster: str) -> dict[str, Any]:
    """Show one event; `key` is the same wherever and however often the event is told."""
    return {
        "id": event.id,
        "key": event_key(event, cluster=cluster),
        "at": time_text(event.at),
        "kind": event.kind.value,
        "subject": event.subject,
        "about": dict(event.about),
    }


def event_key(event: Event, *, cluster: str) -> str:
    """Return what an event is known by for good: who has heard of it may leave it out."""
    return f"{cluster}/{event.id}"
