"""Events as rows of a page: a sign and a tone, a sentence, and the page of what changed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from toolkit.model.events import Event
from toolkit.views.events import in_words

TONES = {
    "job.started": ("▸", "busy"),
    "job.finished": ("✓", "good"),
    "job.failed": ("✕", "bad"),
    "job.cancelled": ("⊘", "held"),
    "job.lost": ("?", "bad"),
    "job.requeued": ("↻", "wait"),
    "node.stale": ("◔", "wait"),
    "node.lost": ("✕", "bad"),
    "node.back": ("✓", "good"),
    "node.behind": ("◔", "wait"),
    "release.deployed": ("⇧", "good"),
    "release.rolled_back": ("⇩", "held"),
    "crawl.over": ("✓", "good"),
    "queue.growing": ("↗", "wait"),
    "queue.wedged": ("✕", "bad"),
    "queue.clear": ("✓", "good"),
    "cron.fired": ("▸", "busy"),
    "cron.skipped": ("↷", "held"),
    "cron.failed": ("✕", "bad"),
    "alert.firing": ("▲", "bad"),
    "alert.over": ("✓", "good"),
}
PAGES = {"job": "jobs", "node": "nodes", "crawl": "crawls", "cron": "crons", "release": "releases"}


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event as it is shown."""

    id: str
    at: datetime | None
    kind: str
    sign: str
    tone: str
    subject: str
    link: str | None
    told: str


def row_of(event: Event) -> EventRow:
    """Show an event."""
    kind = event.kind.value
    sign, tone = TONES.get(kind, ("●", "held"))
    return EventRow(event.id, event.at, kind, sign, tone, event.subject, _link(event), in_words(event))


def _link(event: Event) -> str | None:
    place = PAGES.get(event.kind.value.partition(".")[0])
    if place is None or not event.subject:
        return None
    subject = event.subject.partition(" ")[0] if place == "releases" else event.subject
    return f"/{place}/{quote(subject, safe='')}"
