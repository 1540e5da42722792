"""How events are shown, and what each says in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from toolkit.model.events import Event, EventKind
from toolkit.views.contract import time_text
from toolkit.views.contract_events import event_row
from toolkit.views.harmless import visible
from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from rich.text import Text

KIND_WIDTH = max(map(len, EventKind))
_BAD = frozenset({"failed", "lost", "wedged", "firing"})
_DOUBTFUL = frozenset({"stale", "behind", "growing", "requeued", "rolled_back", "skipped", "cancelled"})
_GOOD = frozenset({"finished", "back", "deployed", "over", "clear"})


def events_view(events: Sequence[Event], *, cluster: str) -> View:
    """Show events in the order in which they are given; what each says is the one column that is folded."""
    rows = [(time_text(event.at), Styled(event.kind.value, style_of(event.kind)), _told(event)) for event in events]
    columns = ("AT", "KIND", "SUBJECT")
    data = [event_row(event, cluster=cluster) for event in events]
    return View(data, lambda: plain_table(*columns, rows=rows))


def event_view(event: Event, *, cluster: str) -> View:
    """Show one event as a line, as it comes."""
    return View(event_row(event, cluster=cluster), lambda: _line(event))


def style_of(kind: EventKind) -> str:
    """Return how bad the news is, as one of rich's colours. Pure."""
    change = kind.value.partition(".")[2]
    for words, style in ((_BAD, "red"), (_DOUBTFUL, "yellow"), (_GOOD, "green")):
        if change in words:
            return style
    return "cyan"


def in_words(event: Event) -> str:
    """Say what an event tells, without its kind and subject. Pure."""
    about = event.about
    form = _FORMS.get(event.kind) or _FORMS_OF_SUBJECTS.get(event.kind.value.partition(".")[0])
    words = form(about) if form is not None else None
    return words or " ".join(f"{name}={value}" for name, value in sorted(about.items()))


def _line(event: Event) -> Text:
    from rich.text import Text

    kind = Text(event.kind.value.ljust(KIND_WIDTH), style=style_of(event.kind))
    return Text.assemble(str(time_text(event.at)), "  ", kind, "  ", visible(_told(event)))


def _told(event: Event) -> str:
    words = in_words(event)
    return f"{event.subject}: {words}" if words else event.subject


def _job(about: Mapping[str, str]) -> str:
    words = f"{about.get('spider', '?')} of {about.get('project', '?')} {about.get('version', '')}".rstrip()
    if "node" in about:
        words += f" on {about['node']}"
    if about.get("attempt", "1") != "1":
        words += f", attempt {about['attempt']}"
    return f"{words}: {about['reason']}" if about.get("reason") else words


def _silent(about: Mapping[str, str]) -> str:
    words = f"no sign of life for {about.get('silent_s', '?')} s"
    running = about.get("running", "0")
    return words if running == "0" else f"{words}; it ran {running} job(s)"


def _back(about: Mapping[str, str]) -> str:
    was = about.get("was", "new")
    return "it is new" if was == "new" else f"it lives again, and was {was}"


def _behind(about: Mapping[str, str]) -> str:
    words = f"it does not hold {about.get('releases', '?')}"
    return f"{words}: {about['reason']}" if about.get("reason") else words


def _release(about: Mapping[str, str]) -> str:
    words = f"by {about.get('by', '?')}, held by {about.get('nodes', '?')} node(s)"
    return f"{words}; before it was {about['was']}" if about.get("was") else words


def _crawl(about: Mapping[str, str]) -> str:
    counts = f"{about.get('pages', '?')} pages, {about.get('items', '?')} items"
    return f"{about.get('spider', '?')} of {about.get('project', '?')}: {counts}"


def _growing(about: Mapping[str, str]) -> str:
    before = f", {about['before']} of them {about.get('window_s', '?')} s ago" if "before" in about else ""
    return f"{about.get('pending', '?')} jobs wait{before}; all {about.get('slots', '?')} slots are taken"


def _wedged(about: Mapping[str, str]) -> str:
    return f"{about.get('pending', '?')} jobs wait; {about.get('reason', '?')}: {about.get('lines', '?')}"


def _clear(about: Mapping[str, str]) -> str:
    return f"{about.get('pending', '?')} jobs wait; it was {about.get('was', '?')}"


def _cron(about: Mapping[str, str]) -> str:
    words = " of ".join(about[name] for name in ("spider", "project") if name in about)
    jobs = about.get("jobs", "").replace(" ", ", ")
    told = [
        words,
        f"job {jobs}" if jobs else "",
        f"by {about['by']}" if about.get("by") else "",
        about.get("reason", ""),
    ]
    return ": ".join(filter(None, told))


def _alert(about: Mapping[str, str]) -> str:
    words = " of ".join(about[name] for name in ("spider", "project") if name in about)
    where = f"{words} on {about['node']}" if words and "node" in about else words
    return ": ".join(filter(None, (where, about.get("reason", ""))))


_FORMS_OF_SUBJECTS = {"job": _job, "release": _release, "crawl": _crawl, "cron": _cron, "alert": _alert}
_FORMS = {
    EventKind.NODE_STALE: _silent,
    EventKind.NODE_LOST: _silent,
    EventKind.NODE_BACK: _back,
    EventKind.NODE_BEHIND: _behind,
    EventKind.QUEUE_GROWING: _growing,
    EventKind.QUEUE_WEDGED: _wedged,
    EventKind.QUEUE_CLEAR: _clear,
}
