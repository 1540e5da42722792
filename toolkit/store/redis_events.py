"""The stream of what changed, in Redis, and who takes the cluster's next turn at a duty."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from toolkit.model.events import Change, Event
from toolkit.store import refusals
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.interfaces_watch import MAX_EVENTS
from toolkit.store.keys import Keys
from toolkit.store.ordering import ttl_ms
from toolkit.store.wire_events import ABOUT, KIND, SUBJECT, read_event, write_about

NONE_YET = "0-0"
CHANGES_A_CALL = 500
SILENCE = 0.6
"""After so much of a lease in which nobody looked at the leases, all get a full term anew: as in the script."""

_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


class RedisEvents:
    """Keeps what `Events` promises."""

    def __init__(self, door: RedisDoor, keys: Keys, *, max_events: int = MAX_EVENTS) -> None:
        self._door = door
        self._keys = keys
        self._max_events = max_events

    def newest(self) -> str:
        """See `Events.newest`."""
        found = self._door.ask("XREVRANGE", self._keys.events, "+", "-", "COUNT", 1)
        return str(found[0][0]) if found else NONE_YET

    def after(self, event_id: str, *, limit: int = 1000) -> Sequence[Event]:
        """See `Events.after`."""
        found: list[Event] = []
        begin = _checked(event_id)
        while limit > len(found):
            entries = self._door.ask("XRANGE", self._keys.events, f"({begin}", "+", "COUNT", limit - len(found))
            if not entries:
                break
            found += _events(entries)
            begin = entries[-1][0]
        return tuple(found)

    def entries(self, *, limit: int = 100, since: datetime | None = None, before: str | None = None) -> Sequence[Event]:
        """See `Events.entries`."""
        found: list[Event] = []
        newest = "+" if before is None else f"({_checked(before)}"
        oldest = "-" if since is None else str(max(0, math.ceil(since.timestamp() * 1000)))
        while limit > len(found):
            entries = self._door.ask("XREVRANGE", self._keys.events, newest, oldest, "COUNT", limit - len(found))
            if not entries:
                break
            found += _events(entries)
            newest = f"({entries[-1][0]}"
        return tuple(found)

    def note(self, event: Event) -> str:
        """See `Events.note`."""
        told = (KIND, event.kind.value, SUBJECT, event.subject, ABOUT, write_about(event.about))
        return str(self._door.ask("XADD", self._keys.events, "MAXLEN", "~", self._max_events, "*", *told))

    def turn(self, watched: str, state: str, event: Event | None = None) -> bool:
        """See `Events.turn`."""
        return self.turns((Change(watched, state, event),)) == (True,)

    def turns(self, changes: Sequence[Change]) -> Sequence[bool]:
        """See `Events.turns`."""
        found: list[bool] = []
        for begin in range(0, len(changes), CHANGES_A_CALL):
            arguments: list[Argument] = [self._max_events]
            for change in changes[begin : begin + CHANGES_A_CALL]:
                arguments += _arguments(change)
            found += map(bool, self._door.run("turn", keys=[self._keys.watched, self._keys.events], args=arguments))
        return tuple(found)

    def states(self) -> Mapping[str, str]:
        """See `Events.states`."""
        return dict(self._door.ask("HGETALL", self._keys.watched))

    def unwatch(self, watched: Collection[str]) -> None:
        """See `Events.unwatch`."""
        if watched:
            self._door.ask("HDEL", self._keys.watched, *watched)


class RedisDuties:
    """Keeps what `Duties` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def take(self, duty: str, *, for_s: float) -> bool:
        """See `Duties.take`."""
        return bool(self._door.ask("SET", self._keys.duty(duty), "1", "NX", "PX", ttl_ms(for_s)))

    def is_in_grace(self) -> bool:
        """See `Duties.is_in_grace`. What tells is kept by `lua/requeue_expired.lua`, whose grace this is."""
        clock, (seconds, microseconds) = self._door.ask_together(
            ("HMGET", self._keys.clock, "asked_ms", "grace_ms", "lease_ms"), ("TIME",)
        )
        asked_ms, grace_ms, lease_ms = (int(number or 0) for number in clock)
        now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        return now_ms < grace_ms or now_ms - asked_ms > lease_ms * SILENCE


def _arguments(change: Change) -> list[Argument]:
    was = "" if change.was is None else change.was or "-"
    if change.event is None:
        return [change.watched, change.state, was, "", "", ""]
    event = change.event
    return [change.watched, change.state, was, event.kind.value, event.subject, write_about(event.about)]


def _events(entries: Iterable[tuple[str, Sequence[str] | Mapping[str, str]]]) -> list[Event]:
    read = (read_event(event_id, dict(fields)) for event_id, fields in entries)  # type: ignore[arg-type]
    return [event for event in read if event is not None]


def _checked(event_id: str) -> str:
    if not _ID.fullmatch(event_id):
        raise refusals.no_event_id(event_id)
    return event_id
