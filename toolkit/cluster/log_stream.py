"""One job's log as a stream of entries: from where a reader wants it, on to the end of what is there, and what follows.

A stream is worked on by one thread at a time; a second one finds nothing to do. It holds one piece of its log, whose
size its maker bounds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from toolkit.cluster import joblog
from toolkit.cluster.files import left_out_line, log_tail
from toolkit.cluster.job_log import JobLogs, LogCursor, LogPiece
from toolkit.cluster.log_lines import EntryFilter, LogEntry, LogReader
from toolkit.cluster.log_merge import JobEntry
from toolkit.model.errors import CrawlctlError, NotFoundError
from toolkit.model.jobs import Job
from toolkit.model.names import NodeName

LOOK_BYTES = 16 * 1024
"""So much is read to see of which time a place in a log is."""

PIECES_A_POLL = 4
"""So many pieces of one log are read at a time while it is followed, then others have their turn."""


@dataclass(frozen=True, slots=True)
class LogWish:
    """What is wanted of each log: its last lines (with a filter: entries that pass it), and only what passes."""

    filter: EntryFilter = field(default_factory=EntryFilter)
    last: int | None = None


class JobStream:
    """The log of one job. `is_open` until all of it is read after the job has ended; `problem` says why it cannot be.

    `job` is what is known of the job by now; whoever sees it move or end says so by `learn`.
    """

    def __init__(self, logs: JobLogs, job: Job, wish: LogWish, *, piece_bytes: int) -> None:
        self.job = job
        self.is_open = True
        self.problem: CrawlctlError | None = None
        self._logs = logs
        self._wish = wish
        self._piece_bytes = piece_bytes
        self._reader = LogReader()
        self._cursor: LogCursor | None = None
        self._next: Job | None = None
        self._first = b""
        self._kept: deque[JobEntry] | None = None
        self._end: LogCursor | None = None
        self._offset_of: NodeName | None = None
        self._lock = threading.Lock()

    def learn(self, job: Job) -> None:
        """Take in what became of the job; the next poll goes by it."""
        self._next = job

    def open(self) -> None:
        """Look where to begin; nothing of it is an error while the job has no log."""
        if self.job.node is None:
            return
        try:
            end = self._logs.part(self.job, most=LOOK_BYTES)
            self._note_offset(end)
            self._cursor, self._first = self._begin(end)
            self._end = end.cursor
            if self._wish.last is not None and not self._wish.filter.is_open:
                # Only who has read all of it knows the last that pass.
                self._kept = deque(self._whole(), maxlen=self._wish.last)
        except NotFoundError as error:
            # Of a job that has not ended, there is none yet.
            self.problem, self.is_open = (error, False) if self.job.state.is_final else (None, True)
        except CrawlctlError as error:
            self.problem, self.is_open = error, not self.job.state.is_final

    def past(self) -> Iterator[JobEntry]:
        """Yield what was there when it was opened."""
        if self._kept is None:
            yield from self._whole()
            return
        yield from self._kept
        self._kept.clear()

    def _whole(self) -> Iterator[JobEntry]:
        if self._cursor is None or self._end is None:
            return
        yield from self._wanted(self._reader.feed(self._first))
        self._first = b""
        while self._cursor.offset < self._end.offset:
            try:
                piece = self._logs.part(self.job, after=self._cursor, most=self._piece_bytes)
            except CrawlctlError as error:
                self.problem = error
                break
            yield from self._wanted(self._read(piece))
            if not piece.content or piece.has_moved:
                break
        yield from self._wanted(self._reader.settle(is_over=self.job.state.is_final))
        if self.job.state.is_final:
            self.is_open = False

    def poll(self) -> list[JobEntry]:
        """Return what has come since; go on to another node, or to the end, where that was learnt."""
        if not self._lock.acquire(blocking=False):
            return []
        try:
            return self._poll()
        finally:
            self._lock.release()

    def _poll(self) -> list[JobEntry]:
        entries: list[JobEntry] = []
        fresh, self._next = self._next, None
        if fresh is not None:
            if self.job.node is not None and fresh.node not in {None, self.job.node}:
                # What the old node still has of it; it may be gone, with its last words.
                entries += self._polled(self.job, is_last=True)
                self._reader.begin_anew()
                self._cursor, self.problem, self.is_open = None, None, True
            self.job = fresh
        if self.job.node is None:
            self.is_open = not self.job.state.is_final
            return entries
        return entries + self._polled(self.job)

    def _polled(self, job: Job, *, is_last: bool = False) -> list[JobEntry]:
        entries: list[JobEntry] = []
        try:
            for _ in range(PIECES_A_POLL):
                if self._cursor is None and job.node is not None:
                    self._cursor = LogCursor(job.node, 0)
                piece = self._logs.part(job, after=self._cursor, most=self._piece_bytes)
                entries += self._wanted(self._read(piece))
                self.problem = None
                if piece.is_over:
                    self.is_open = False
                if piece.is_over or not piece.content:
                    break
            else:
                return entries
        except NotFoundError as error:
            self.problem, self.is_open = (error, False) if job.state.is_final else (None, True)
        except CrawlctlError as error:
            self.problem = error
            self.is_open = not job.state.is_final
        return entries + self._wanted(self._reader.settle(is_over=is_last or not self.is_open))

    def _read(self, piece: LogPiece) -> list[LogEntry]:
        entries: list[LogEntry] = []
        if piece.has_moved:
            entries += self._reader.settle(is_over=True)
            self._reader.begin_anew()
        if piece.left_out:
            entries += self._reader.feed(left_out_line(piece.left_out))
        self._know_offset(piece)
        self._cursor = piece.cursor
        return entries + self._reader.feed(piece.content)

    def _wanted(self, entries: list[LogEntry]) -> list[JobEntry]:
        node = self._cursor.node if self._cursor is not None else self.job.node
        if node is None:
            return []
        return [JobEntry(self.job.id, node, entry) for entry in entries if self._wish.filter.admits(entry)]

    def _note_offset(self, piece: LogPiece) -> None:
        """Learn how far the node's clock is from UTC, of a piece that reaches the log's end."""
        found = joblog.utc_offset(piece.content.decode("utf-8", "replace"), piece.written_at)
        if found is not None:
            self._reader.offset = self._logs.offsets[piece.cursor.node] = found
        self._offset_of = piece.cursor.node if found is not None else self._offset_of

    def _know_offset(self, piece: LogPiece) -> None:
        """Have the offset of the node that a piece is of before the first of its lines is read."""
        node = piece.cursor.node
        if piece.written_at is not None:
            self._note_offset(piece)
        if self._offset_of == node or not piece.content:
            return
        if piece.written_at is None:
            self._note_offset(self._logs.part(self.job, most=LOOK_BYTES))
        if self._offset_of != node:
            # Nothing is told by this log yet; another of the same node may have told it.
            self._reader.offset = self._logs.offsets.get(node, timedelta())

    def _begin(self, end: LogPiece) -> tuple[LogCursor, bytes]:
        """Return where to read on from, and what was read before that already."""
        node, wish = end.cursor.node, self._wish
        begin = 0 if wish.filter.since is None else self._begin_since(node, end.cursor.offset, wish.filter.since)
        if wish.last is None or not wish.filter.is_open:
            return LogCursor(node, begin), b""
        tail, position = log_tail(self._logs.files(self.job), self.job, wish.last)
        tail_begin = position - len(tail)
        return (LogCursor(node, position), tail) if tail_begin >= begin else (LogCursor(node, begin), b"")

    def _begin_since(self, node: NodeName, size: int, since: datetime) -> int:
        """Return an offset shortly before the first entry that is not older; a log's times rise, so it is bisected."""
        low, high = 0, size
        while high - low > LOOK_BYTES:
            middle = (low + high) // 2
            at = self._first_time(LogCursor(node, middle))
            if at is None or at >= since:
                high = middle
            else:
                low = middle
        return low

    def _first_time(self, cursor: LogCursor) -> datetime | None:
        reader = LogReader(offset=self._reader.offset)
        piece = self._logs.part(self.job, after=cursor, most=LOOK_BYTES)
        entries = reader.feed(piece.content) + reader.settle()
        return next((entry.at for entry in entries if entry.at is not None), None)
