"""The log of one job, read on from where it was read to."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.cluster.desk import Desk
from toolkit.cluster.reaching import NodeFiles
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName

TAIL_BYTES = 65_536


class LogTail:
    """Reads one job's log: its end first, then what is appended. Not for two threads at a time."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._files: NodeFiles | None = None
        self._owner: tuple[NodeName | None, int | None] | None = None
        self._position = 0
        self._rest = b""
        self.is_over = False

    def more(self, job: Job) -> Sequence[str]:
        """Return the lines that were not read yet; of another attempt all that its log has.

        Raises:
            CrawlctlError: the log cannot be read; the next call tries again.

        """
        if job.state is JobState.PENDING:
            return ()
        if self._owner != (job.node, job.attempt) or self._files is None:
            self._files = self._desk.files_of(job)
            self._owner, self._position, self._rest = (job.node, job.attempt), -1, b""
        if self._position < 0:
            excerpt = self._files.log_end(job, most=TAIL_BYTES)
        else:
            excerpt = self._files.log(job, begin=self._position)
        if excerpt is None:
            return ()
        is_cut = self._position < 0 and excerpt.begins_at > 0
        self._position = excerpt.begins_at + len(excerpt.content)
        self.is_over = job.state.is_final and not excerpt.content
        content = self._rest + excerpt.content
        if is_cut:
            content = content.partition(b"\n")[2]
        *whole, self._rest = content.split(b"\n")
        if self.is_over and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        return [line.decode("utf-8", "replace").removesuffix("\r") for line in whole]
