"""The table of events: what changed in the cluster, the newest first, as it happens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from toolkit.model.events import Event
from toolkit.top.columns import Cell, Column, Sorting
from toolkit.top.jobs_tab import SHOWN_ID
from toolkit.top.seen import Tab
from toolkit.views.jobs import age_text

ENDINGS_STYLES = {
    "failed": "red",
    "lost": "bold red",
    "stale": "yellow",
    "behind": "yellow",
    "wedged": "bold red",
    "growing": "yellow",
    "requeued": "yellow",
    "skipped": "yellow",
    "cancelled": "magenta",
    "firing": "bold red",
    "back": "green",
    "finished": "green",
    "over": "green",
    "clear": "green",
    "deployed": "cyan",
    "rolled_back": "cyan",
}
ABOUT_FIRST = ("spider", "node", "reason", "version")


def _kind(row: Event, _now: datetime) -> Cell:
    return Cell(row.kind.value, ENDINGS_STYLES.get(row.kind.value.rpartition(".")[2], ""))


def _subject(row: Event, _now: datetime) -> str:
    return row.subject[:SHOWN_ID] if is_of_a_job(row) else row.subject


def about_text(event: Event) -> str:
    """Say in a line what an event tells besides its subject: first what people look for."""
    named = {name: value for name, value in event.about.items() if value}
    first = [named.pop(name) for name in ABOUT_FIRST if name in named]
    return "  ".join((*first, *(f"{name}={value}" for name, value in sorted(named.items()) if name != "project")))


COLUMNS: tuple[Column[Event], ...] = (
    Column(
        "AT UTC",
        8,
        lambda row, _: None if row.at is None else f"{row.at:%H:%M:%S}",
        lambda row: tuple(map(int, row.id.split("-"))) if row.id else (0, 0),
        falls=True,
    ),
    Column("AGO", 6, lambda row, now: age_text(row.at, now=now), lambda row: row.at, is_right=True, spare=1),
    Column("KIND", 16, _kind, lambda row: row.kind.value, most=19),
    Column("SUBJECT", 9, _subject, lambda row: row.subject, most=24),
    Column("ABOUT", 20, lambda row, _: about_text(row), about_text, most=120),
)


def is_of_a_job(event: Event) -> bool:
    """Tell whether the event's subject is a job."""
    return event.kind.value.startswith("job.")


def _texts(row: Event) -> Sequence[object]:
    return (row.kind.value, row.subject, *row.about.values())


TAB: Tab[Event] = Tab(
    name="events",
    columns=COLUMNS,
    sorting=Sorting("AT UTC", falls=True),
    rows=lambda seen: seen.events,
    key=lambda row: row.id,
    texts=_texts,
    empty="nothing has happened yet",
    empty_without_queue="events are kept in a Redis, and the inventory names none",
)
