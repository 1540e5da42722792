"""A job's log on a page: its lines with their levels, and where the next part begins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job

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


def read_end(logs, job: Job) -> LogView:
    """Read the end of a job's log; where there is none, the view says why."""
    if job.node is None:
        return LogView(note="no node has run it yet, so there is no log")
    try:
        piece = logs.part(job, most=END_BYTES)
    except CrawlctlError as error:
        return LogView(note=error.message)
    lines = marked(piece.content)
    return LogView(lines, str(piece.cursor), piece.source, piece.left_out, piece.is_over)


def read_after(logs, job: Job, cursor: str, *, mark: str = "i") -> LogView:
    """Read what was written since; raises `CrawlctlError`."""
    from toolkit.cluster.job_log import LogCursor

    piece = logs.part(job, after=LogCursor.parse(cursor) if cursor else None, most=PART_BYTES)
    return LogView(marked(piece.content, mark=mark), str(piece.cursor), piece.source, 0, piece.is_over)


def marked(content: bytes, *, mark: str = "i") -> list[MarkedLine]:
    """Give each line its level; one that tells none has that of the line before, and the first has `mark`. Pure."""
    lines = []
    for line in content.decode("utf-8", "replace").splitlines():
        if found := _LEVEL.match(line):
            mark = _MARKS[found[1]]
        lines.append((mark, line[:MAX_LINE_CHARS]))
    return lines
