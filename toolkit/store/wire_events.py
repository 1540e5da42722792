"""How an event looks at rest: three fields of a stream's entry, which the scripts of the queue write too.

What is told is plain JSON without a format version, since Lua writes it. A kind that this crawlctl does not know is a
newer one's: such an event is left out, so that it keeps nobody from the ones behind it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from toolkit.model.events import Event, EventKind

KIND, SUBJECT, ABOUT = "kind", "subject", "about"


def write_about(about: Mapping[str, str]) -> str:
    """Return what an event tells, as JSON."""
    return json.dumps(dict(about), separators=(",", ":"), ensure_ascii=False)


def read_event(event_id: str, fields: Mapping[str, str]) -> Event | None:
    """Return the event that a stream's entry describes; `None`: of a kind that is not known here."""
    try:
        kind = EventKind(fields.get(KIND, ""))
    except ValueError:
        return None
    at = datetime.fromtimestamp(int(event_id.partition("-")[0]) / 1000, UTC)
    return Event(kind, fields.get(SUBJECT, ""), _about(fields.get(ABOUT, "")), at=at, id=event_id)


def _about(body: str) -> dict[str, str]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return {name: value for name, value in told.items() if isinstance(value, str)} if isinstance(told, dict) else {}
