"""One reader behind all live pages: a thread that asks the cluster what changed, and tells every browser that listens.

It reads only while somebody listens. What a slow browser has not taken is left out: a tick says that there is something
to see, and the page shows all of it.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from anyio import CapacityLimiter

from toolkit.model.errors import CrawlctlError
from toolkit.model.events import Event
from toolkit.web.event_rows import row_of
from toolkit.web.lookout import Lookout

POLL_S = 1.0
TICK_S = 5.0
"""Without any event a tick comes so often: how far jobs are is told by none."""
MAX_WAITING = 8
MAX_TOLD = 3
EVENTS_A_LOOK = 200
MAX_LOG_READERS = 30


@dataclass(frozen=True, slots=True)
class Tick:
    """There is something to see. `away` says why the cluster cannot be asked, while that is so."""

    id: str
    events: Sequence[Event] = ()
    away: str | None = None

    def as_json(self) -> str:
        """Return what a browser is told: of the events, only those that are bad news."""
        rows = [row for row in map(row_of, self.events) if row.tone == "bad"]
        told = [{"kind": row.kind, "told": row.told, "subject": row.subject, "link": row.link} for row in rows]
        return json.dumps({"away": self.away, "news": told[-MAX_TOLD:]})


class Listener:
    """One browser that listens; belongs to the event loop in which it was made."""

    def __init__(self, user: str = "") -> None:
        self.user = user
        self._loop = asyncio.get_running_loop()
        self._ticks: asyncio.Queue[Tick] = asyncio.Queue(MAX_WAITING)

    async def next(self, *, within_s: float) -> Tick | None:
        """Return the next tick, or nothing when none came in time."""
        try:
            return await asyncio.wait_for(self._ticks.get(), within_s)
        except TimeoutError:
            return None

    def tell(self, tick: Tick) -> None:
        """Hand over a tick, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, tick)

    def _put(self, tick: Tick) -> None:
        if not self._ticks.full():
            self._ticks.put_nowait(tick)


class Feed:
    """Tells listeners of ticks until `stopping` is set. Any thread may call."""

    def __init__(self, lookout: Lookout, stopping: threading.Event) -> None:
        self._lookout = lookout
        self._stopping = stopping
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._reader: threading.Thread | None = None
        # A node that hangs keeps whoever reads logs from it, and nobody from any other page.
        self.log_readers = CapacityLimiter(MAX_LOG_READERS)

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    def listeners_of(self, user: str) -> int:
        """How many of a user's pages listen now."""
        with self._lock:
            return sum(listener.user == user for listener in self._listeners)

    def join(self, listener: Listener) -> None:
        """Tell this one too, from now on."""
        with self._lock:
            self._listeners.add(listener)
            if self._reader is None:
                self._reader = threading.Thread(target=self._read, name="crawlctl-feed", daemon=True)
                self._reader.start()

    def leave(self, listener: Listener) -> None:
        """Tell this one no more."""
        with self._lock:
            self._listeners.discard(listener)

    def _read(self) -> None:
        try:
            self._read_on()
        except BaseException:
            # A fault of ours is seen on the terminal; whoever listens next begins anew.
            with self._lock:
                self._reader = None
            raise

    def _read_on(self) -> None:
        last, told_at_s, was_away = "", float("-inf"), False
        while self._goes_on():
            tick = self._look(last)
            is_away = tick.away is not None
            # What was read before it went away is not what is there now.
            if was_away and not is_away:
                self._lookout.glances.forget()
            now_s = time.monotonic()
            if tick.events or is_away is not was_away or now_s - told_at_s >= TICK_S:
                self._tell(tick)
                told_at_s = now_s
            last, was_away = tick.id, is_away
            self._stopping.wait(POLL_S)

    def _goes_on(self) -> bool:
        with self._lock:
            if self._listeners and not self._stopping.is_set():
                return True
            self._reader = None
            return False

    def _look(self, last: str) -> Tick:
        try:
            shared = self._lookout.desk.store.shared
            if shared is None:
                return Tick(last)
            if not last:
                return Tick(shared.events.newest())
            events = shared.events.after(last, limit=EVENTS_A_LOOK)
            return Tick(events[-1].id if events else last, events)
        except CrawlctlError as error:
            return Tick(last, away=error.message)

    def _tell(self, tick: Tick) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.tell(tick)
