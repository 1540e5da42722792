"""What an event says in words, on a terminal and to programs."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from toolkit.model.events import Event, EventKind
from toolkit.views.events import event_view, events_view, in_words, style_of

AT = datetime(2026, 11, 21, 16, 48, 36, 500_000, tzinfo=UTC)
JOB = {"project": "shop", "spider": "books", "version": "v1", "node": "node-1", "attempt": "2", "reason": "it failed"}


def shown(event: Event, *, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(events_view([event], cluster="main").table())
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("kind", "about", "words"),
    [
        (EventKind.JOB_FAILED, JOB, "books of shop v1 on node-1, attempt 2: it failed"),
        (EventKind.JOB_CANCELLED, {"project": "shop", "spider": "books"}, "books of shop"),
        (EventKind.NODE_LOST, {"silent_s": "15.2", "running": "2"}, "no sign of life for 15.2 s; it ran 2 job(s)"),
        (EventKind.NODE_STALE, {"silent_s": "11.0", "running": "0"}, "no sign of life for 11.0 s"),
        (EventKind.NODE_BACK, {"was": "lost"}, "it lives again, and was lost"),
        (EventKind.NODE_BACK, {"was": "new"}, "it is new"),
        (EventKind.NODE_BEHIND, {"releases": "shop v2", "reason": "no room"}, "it does not hold shop v2: no room"),
        (
            EventKind.RELEASE_DEPLOYED,
            {"by": "ann", "nodes": "3", "was": "v1"},
            "by ann, held by 3 node(s); before it was v1",
        ),
        (
            EventKind.CRAWL_OVER,
            {"project": "shop", "spider": "books", "pages": "7", "items": "0"},
            "books of shop: 7 pages, 0 items",
        ),
        (
            EventKind.QUEUE_GROWING,
            {"pending": "9", "before": "4", "window_s": "60", "slots": "2"},
            "9 jobs wait, 4 of them 60 s ago; all 2 slots are taken",
        ),
        (
            EventKind.QUEUE_WEDGED,
            {"pending": "9", "reason": "no node may take them", "lines": "a"},
            "9 jobs wait; no node may take them: a",
        ),
        (EventKind.QUEUE_CLEAR, {"pending": "0", "was": "wedged"}, "0 jobs wait; it was wedged"),
        (
            EventKind.CRON_FIRED,
            {"project": "shop", "spider": "books", "jobs": "a b", "due": "12:00"},
            "books of shop: job a, b",
        ),
        (EventKind.CRON_SKIPPED, {"spider": "books", "by": "ann", "reason": "it runs"}, "books: by ann: it runs"),
        (
            EventKind.ALERT_FIRING,
            {"rule": "r", "project": "shop", "spider": "books", "node": "node-1", "reason": "7 errors"},
            "books of shop on node-1: 7 errors",
        ),
        (EventKind.ALERT_OVER, {"rule": "r"}, "rule=r"),
    ],
)
def test_an_event_says_what_happened(kind: EventKind, about: dict[str, str], words: str) -> None:
    assert in_words(Event(kind, "x", about)) == words


@pytest.mark.parametrize("kind", list(EventKind))
def test_an_event_that_says_little_can_still_be_shown(kind: EventKind) -> None:
    assert in_words(Event(kind, "x")) is not None
    assert style_of(kind) in {"red", "yellow", "green", "cyan"}


def test_events_are_read_on_eighty_columns() -> None:
    text = shown(Event(EventKind.RELEASE_ROLLED_BACK, "shop 20261121-164831-a0b0473", {"by": "ann"}, at=AT, id="1-0"))
    for word in ("2026-11-21T16:48:36Z", "release.rolled_back", "shop", "20261121-164831-a0b0473"):
        assert word in text


def test_what_a_spider_says_commands_no_terminal() -> None:
    event = Event(EventKind.JOB_FAILED, "a", {**JOB, "reason": "\x1b[2J[red]x"}, at=AT, id="1-0")
    out = io.StringIO()
    Console(file=out, width=200).print(event_view(event, cluster="main").table())
    assert "\x1b[2J" not in shown(event, width=200) + out.getvalue()
    assert "[red]x" in out.getvalue()
