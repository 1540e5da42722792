"""From the bytes of a job's log to entries: a line with its time, level and logger, and the lines that belong to it.

The format is Scrapy's default (`LOG_FORMAT`, `LOG_DATEFORMAT`); a line of any other shape belongs to the one before it.
Pure, and bounded: no entry grows without end, whatever a spider writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
MAX_LINE_BYTES = 64 * 1024
MAX_ENTRY_LINES = 400
"""A longer traceback is told in several entries, of the same time and level."""

_HEAD = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[,.]\d{1,6})? \[(?P<logger>[^\]]{1,200})\] "
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?: |$)"
)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What was logged at once. `at` is in UTC; it, `level` and `logger` are `None` of lines before the first entry.

    `text` is the message with the lines that belong to it, `lines` are all of them as they were written. Of the rest of
    an entry that came in pieces, time, level and logger are those of its begin.
    """

    lines: tuple[str, ...]
    text: str
    at: datetime | None = None
    level: str | None = None
    logger: str | None = None


class LogReader:
    """Reads one log, piece by piece. `offset` is how far the node's clock is ahead of UTC."""

    def __init__(self, *, offset: timedelta = timedelta()) -> None:
        self.offset = offset
        self._rest = b""
        self._head = LogEntry((), "")
        self._lines: list[str] = []
        self._message_at = 0

    @property
    def last_at(self) -> datetime | None:
        """The time of the entry that was read last."""
        return self._head.at

    def feed(self, content: bytes) -> list[LogEntry]:
        """Take in what follows; return the entries that are surely whole, since another has begun after them."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        entries: list[LogEntry] = []
        for line in lines:
            entries += self._take(line[:MAX_LINE_BYTES].decode("utf-8", "replace").removesuffix("\r"))
        return entries

    def settle(self, *, is_over: bool = False) -> list[LogEntry]:
        """Return what is left, since nothing follows for now; a line without its end waits, unless all `is_over`."""
        entries: list[LogEntry] = []
        if is_over and self._rest:
            entries += self._take(self._rest.decode("utf-8", "replace"))
            self._rest = b""
        return entries + self._taken()

    def begin_anew(self, *, offset: timedelta | None = None) -> None:
        """Read another log from here on: nothing belongs to what came before."""
        self._rest, self._head, self._lines, self._message_at = b"", LogEntry((), ""), [], 0
        self.offset = self.offset if offset is None else offset

    def _take(self, line: str) -> list[LogEntry]:
        head = _HEAD.match(line)
        at = None if head is None else _moment(head["at"], self.offset)
        if head is None or at is None:
            self._lines.append(line)
            return self._taken() if len(self._lines) >= MAX_ENTRY_LINES else []
        entries = self._taken()
        self._head = LogEntry((), "", at, head["level"], head["logger"])
        self._lines, self._message_at = [line], head.end()
        return entries

    def _taken(self) -> list[LogEntry]:
        if not self._lines:
            return []
        head, lines = self._head, tuple(self._lines)
        text = "\n".join(lines)[self._message_at :]
        self._lines, self._message_at = [], 0
        return [LogEntry(lines, text, head.at, head.level, head.logger)]


def _moment(text: str, offset: timedelta) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) - offset
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries are wanted: of this level or a higher one, with this text in them, not older than `since`."""

    level: str | None = None
    pattern: re.Pattern[str] | None = None
    since: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Every entry passes that is young enough."""
        return self.level is None and self.pattern is None

    def admits(self, entry: LogEntry) -> bool:
        """Tell whether an entry is wanted."""
        if self.since is not None and entry.at is not None and entry.at < self.since:
            return False
        if self.level is not None and (entry.level is None or LEVELS.index(entry.level) < LEVELS.index(self.level)):
            return False
        return self.pattern is None or self.pattern.search("\n".join(entry.lines)) is not None
