"""A job's log on a page: its lines with their levels, and where the next part begins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.cluster.job_log import JobLogs, LogCursor
from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job
from toolkit.web.glance import Glances

LEVELS = ("all", "info", "warning", "error")
"""What a reader may choose: lines of this level and above."""
END_BYTES = 48_000
PART_BYTES = 64_000
MAX_LINE_CHARS = 4_000

_LEVEL = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[[^\]]*\] (DEBUG|INFO|WARNING|ERROR|CRITICAL): ")
_MARKS = {"DEBUG": "d", "INFO": "i", "WARNING": "w", "ERROR": "e", "CRITICAL": "e"}
_SHOWN = {"all": "diwe", "info": "iwe", "warning": "we", "error": "e"}

MarkedLine = tuple[str, str]
"""The mark of a line's level (`d`, `i`, `w`, `e`), and the line."""


@dataclass(frozen=True, slots=True)
class LogView:
    """A part of a log; `cursor` is what to ask with for the next part, `note` why there is nothing, if so."""

    lines: Sequence[MarkedLine] = ()
    cursor: str = ""
    source: str = ""
    left_out: int = 0
    is_over: bool = False
    note: str | None = None

    def at_least(self, level: str) -> list[MarkedLine]:
        """Return the lines of a level and above."""
        return [line for line in self.lines if line[0] in _SHOWN.get(level, _SHOWN["all"])]


def read_end(logs: JobLogs, job: Job) -> LogView:
    """Read the end of a job's log.

    Raises:
        CrawlctlError: it cannot be read, and why.

    """
    if job.node is None:
        return LogView(note="no node has run it yet, so there is no log")
    piece = logs.part(job, most=END_BYTES)
    begins_at = piece.cursor.offset - len(piece.content)
    return LogView(marked(piece.content), str(piece.cursor), piece.source, begins_at, piece.is_over)


def end_of(glances: Glances, logs: JobLogs, job: Job) -> LogView:
    """Return the end of a job's log, if it can be had at once; else a view without lines that says why.

    A node may take long to answer, or not answer at all: no page waits for that.
    """
    try:
        found = glances.soon(("log end", job.id), lambda: read_end(logs, job))
    except CrawlctlError as error:
        return LogView(note=error.message)
    return found or LogView(note=f"{job.node} has not given it yet; it comes by itself, or load the page again")


def read_after(logs: JobLogs, job: Job, cursor: str, *, mark: str = "i") -> LogView:
    """Read what was written since, whole lines only; without a cursor the end.

    Raises:
        CrawlctlError: it cannot be read, and why.

    """
    if not cursor:
        return read_end(logs, job)
    begin = LogCursor.parse(cursor)
    piece = logs.part(job, after=begin, most=PART_BYTES)
    content, end = piece.content, piece.cursor
    if not piece.is_over and len(content) < PART_BYTES and (rest := len(content) - content.rfind(b"\n") - 1):
        # Somebody is writing this line.
        content, end = content[:-rest], LogCursor(end.node, end.offset - rest)
    moved = [("w", f"— goes on at {end.node} —")] if piece.has_moved else []
    return LogView(moved + marked(content, mark=mark), str(end), piece.source, 0, piece.is_over)


def marked(content: bytes, *, mark: str = "i") -> list[MarkedLine]:
    """Give each line its level; one that tells none has that of the line before, and the first has `mark`. Pure."""
    lines = []
    for line in content.decode("utf-8", "replace").splitlines():
        if found := _LEVEL.match(line):
            mark = _MARKS[found[1]]
        lines.append((mark, line[:MAX_LINE_CHARS]))
    return lines
