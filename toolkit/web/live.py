"""Server-sent events: a tick when there is something to see, and the lines of a job's log as they are written.

The id of each event says where its browser stands: the newest event of the cluster, and the place in the log. After a
break the browser sends it back, and nothing of the log is missed or shown twice.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job
from toolkit.web.feed import Feed, Listener, Tick
from toolkit.web.log_view import LogView, read_after
from toolkit.web.lookout import Lookout, lookout_of
from toolkit.web.served import MAX_STREAMS, MAX_STREAMS_A_USER
from toolkit.web.visitor import Looking, Visitor

router = APIRouter(include_in_schema=False)

BEAT_S = 1.0
WELCOME_EVERY_S = 10.0
RETRY_MS = 2000
MARK = "~"
"""Between the two halves of an id, as no id of an event holds it."""
PLACE = r"^([0-9]{1,18}@[^\x00-\x1f\x7f]+)?$"
FULL_RETRY_S = 15
_SHARED_S = BEAT_S * 0.9
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get("/live")
async def live(
    request: Request,
    visitor: Looking,
    job: Annotated[str, Query(max_length=200)] = "",
    at: Annotated[str, Query(max_length=400, pattern=PLACE)] = "",
    last_event_id: Annotated[str, Header()] = "",
) -> Response:
    """Tell a browser what changes, and what a job writes into its log from a place on, until either goes away."""
    feed = feed_of(request, visitor)
    if feed.listeners >= MAX_STREAMS or feed.listeners_of(visitor.name) >= MAX_STREAMS_A_USER:
        headers = {"Retry-After": str(FULL_RETRY_S)}
        return PlainTextResponse(
            "too many pages are open on this server, or of this user", status_code=503, headers=headers
        )
    event, _, place = last_event_id.partition(MARK)
    course = _Course(lookout_of(request, visitor.desk), visitor, feed, job=job, event=event, place=place or at)
    return StreamingResponse(course.events(), media_type="text/event-stream", headers=_HEADERS)


def feed_of(request: Request, visitor: Visitor) -> Feed:
    """Return the server's feed, made when the first browser listens."""
    kept: Feed | None = getattr(request.app.state, "feed", None)
    if kept is None:
        kept = request.app.state.feed = Feed(lookout_of(request, visitor.desk), visitor.served.stopping)
    return kept


@dataclass(slots=True)
class _Course:
    """What one browser is told, and where it stands."""

    lookout: Lookout
    visitor: Visitor
    feed: Feed
    job: str
    event: str
    place: str
    mark: str = "i"
    is_log_over: bool = False
    ended: Job | None = None
    note: str | None = None

    async def events(self) -> AsyncIterator[str]:
        """Yield what the browser is told; the log is read beside the ticks, since its node may be slow."""
        listener = Listener(self.visitor.name)
        self.feed.join(listener)
        reading: asyncio.Task[LogView] | None = None
        try:
            yield f"retry: {RETRY_MS}\n\n" + self._tick(await run_in_threadpool(self._missed))
            asked_at_s = time.monotonic()
            while not self.visitor.served.stopping.is_set():
                if time.monotonic() - asked_at_s >= WELCOME_EVERY_S:
                    asked_at_s = time.monotonic()
                    try:
                        is_welcome = await run_in_threadpool(self.visitor.is_welcome)
                    except CrawlctlError:
                        # Whoever cannot be asked about is told nothing more; the browser asks again by itself.
                        return
                    if not is_welcome:
                        yield self._sent("bye", "{}")
                        return
                if self.job and not self.is_log_over and reading is None:
                    reading = asyncio.create_task(run_sync(self._log, limiter=self.feed.log_readers))
                if (tick := await listener.next(within_s=BEAT_S)) is not None:
                    yield self._tick(tick)
                if reading is not None and reading.done():
                    if (told := self._told(reading.result())) is not None:
                        yield told
                    reading = None
        finally:
            self.feed.leave(listener)
            if reading is not None:
                reading.cancel()

    def _missed(self) -> Tick:
        """Say what happened since the browser last heard of anything, or only that it is heard."""
        try:
            shared = self.lookout.desk.store.shared
            if shared is None:
                return Tick("0-0")
            if not self.event:
                return Tick(shared.events.newest())
            events = shared.events.after(self.event, limit=MAX_STREAMS)
            return Tick(events[-1].id if events else self.event, events)
        except CrawlctlError as error:
            return Tick(self.event, away=error.message)

    def _tick(self, tick: Tick) -> str:
        self.event = tick.id or self.event
        # A job that has ended may have been put back: that is looked for each time.
        self.is_log_over = False
        return self._sent("tick", tick.as_json())

    def _log(self) -> LogView:
        """Read on in the log; a view that says why, where it cannot be read."""
        try:
            job = self.lookout.glances.get(("job", self.job), lambda: self.lookout.desk.job(self.job))
            if job == self.ended:
                return LogView(cursor=self.place, is_over=True)
            part = self._read_log(job)
        except CrawlctlError as error:
            return LogView(cursor=self.place, note=error.message)
        self.ended = job if part.is_over and not part.lines else None
        return part

    def _told(self, part: LogView) -> str | None:
        """Return what the browser is told of a part; what keeps the log from being read, and that it is over, once.

        Only now the part counts as told: an id that was sent before must not lead behind it.
        """
        self.place, self.is_log_over = part.cursor, part.is_over and not part.lines
        before, self.note = self.note, part.note or ""
        if part.lines:
            self.mark = part.lines[-1][0]
            return self._sent("log", json.dumps(part.lines))
        return None if self.note == before else self._sent("note", json.dumps(self.note))

    def _read_log(self, job: Job) -> LogView:
        return self.lookout.glances.get(
            ("log", job.id, self.place, self.mark),
            lambda: read_after(self.lookout.logs, job, self.place, mark=self.mark),
            fresh_s=_SHARED_S,
        )

    def _sent(self, name: str, text: str) -> str:
        return f"id: {self.event}{MARK}{self.place}\nevent: {name}\ndata: {text}\n\n"
