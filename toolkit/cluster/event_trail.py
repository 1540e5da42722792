"""Reading the events: those that pass a filter, page by page, and as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from toolkit.model.errors import StoreUnreachableError, UsageError
from toolkit.model.events import Event, EventKind
from toolkit.store.interfaces_watch import Events

PAGE = 1000
LOOK_S = 0.25
"""How long to wait before looking whether there is more."""

AGAIN_S = 1.0
"""How long to wait for a Redis that is away."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events to show; an empty field lets every one through.

    `kinds` are kinds or patterns of them (`node.*`). `subject` is a subject, a pattern, the begin of one (as of a job's
    id), or one of its words.
    """

    since: datetime | None = None
    until: datetime | None = None
    kinds: tuple[str, ...] = ()
    subject: str | None = None

    def admits(self, event: Event) -> bool:
        """Tell whether the event is of these kinds and this subject."""
        return (not self.kinds or any(fnmatchcase(event.kind, kind) for kind in self.kinds)) and (
            self.subject is None
            or event.subject.startswith(self.subject)
            or self.subject in event.subject.split()
            or fnmatchcase(event.subject, self.subject)
        )


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds, or say which is none.

    Raises:
        UsageError: one is no kind, and a pattern of none.

    """
    for kind in kinds:
        if not any(fnmatchcase(each, kind) for each in EventKind):
            known = ", ".join(sorted({f"{each.value.partition('.')[0]}.*" for each in EventKind}))
            raise UsageError(f"{kind!r} is no kind of event", hint=f"crawlctl docs events lists them: {known}")
    return tuple(kinds)


def event_trail(events: Events, wanted: EventFilter, *, limit: int) -> Sequence[Event]:
    """Return the newest events that pass the filter, newest first."""
    found: list[Event] = []
    # An id's first part is its time in milliseconds; what is asked for is older.
    before = None if wanted.until is None else f"{max(0, int(wanted.until.timestamp() * 1000) + 1)}-0"
    is_plain = not wanted.kinds and wanted.subject is None
    size = min(limit, PAGE) if is_plain else PAGE
    while len(found) < limit:
        page = events.entries(limit=size, since=wanted.since, before=before)
        found += [event for event in page if wanted.admits(event)]
        if len(page) < size:
            break
        before = page[-1].id
    return found[:limit]


def follow(
    events: Events,
    wanted: EventFilter,
    *,
    limit: int,
    on_away: Callable[[StoreUnreachableError], object],
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[Event]:
    """Yield the last events that pass the filter, oldest first, and then those that come, for ever, each once.

    While Redis is away `on_away` hears of it, once; afterwards it goes on where it was.

    Raises:
        StoreUnreachableError: Redis was never there.

    """
    newest = events.newest()
    trail = event_trail(events, wanted, limit=limit) if limit else ()
    yield from reversed(trail)
    # What came between the two looks is in the trail, if it is wanted.
    place = max([newest, *(event.id for event in trail[:1])], key=_order)
    is_away = False
    while True:
        try:
            page = events.after(place, limit=PAGE)
            is_away = False
        except StoreUnreachableError as error:
            if not is_away:
                on_away(error)
            is_away = True
            wait(AGAIN_S)
            continue
        yield from (event for event in page if wanted.admits(event))
        place = page[-1].id if page else place
        if not page:
            wait(LOOK_S)


def _order(event_id: str) -> tuple[int, int]:
    at_ms, _, number = event_id.partition("-")
    return int(at_ms), int(number)
