"""The log of one job, read on from where it was read to, wherever it lies by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.cluster.job_log import JobLogs, LogCursor
from toolkit.model.jobs import Job, JobState


@dataclass(frozen=True, slots=True)
class LogNews:
    """Lines that were not read before, and from where they come."""

    lines: Sequence[str] = ()
    source: str = ""


class LogTail:
    """Reads one job's log: its end first, then what is appended. Not for two threads at a time."""

    def __init__(self, logs: JobLogs) -> None:
        self._logs = logs
        self._cursor: LogCursor | None = None
        self._rest = b""
        self.is_over = False

    def more(self, job: Job) -> LogNews:
        """Return what was not read yet; a line whose end is not there yet comes with the next call.

        Raises:
            CrawlctlError: the log cannot be read; the next call tries again.

        """
        if job.state is JobState.PENDING:
            return LogNews(source="it waits for a node")
        piece = self._logs.part(job, after=self._cursor)
        told: list[str] = []
        if piece.has_moved:
            told.append(f"··· from here on: {piece.source} ···")
            self._rest = b""
        if piece.left_out:
            told.append(f"··· {piece.left_out:,} bytes are not there any more ···")
        self._cursor, self.is_over = piece.cursor, piece.is_over
        *whole, self._rest = (self._rest + piece.content).split(b"\n")
        if self.is_over and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        lines = [line.decode("utf-8", "replace").removesuffix("\r") for line in whole]
        return LogNews((*told, *lines), "" if piece.source == job.node else piece.source)
