"""A job's log and items, as streams of bytes read from its node in parts, by HTTP or through the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from toolkit.cluster.reaching import NodeFiles
from toolkit.cluster.scrapyd import Excerpt
from toolkit.model.errors import NotFoundError
from toolkit.model.jobs import Job

LINE_GUESS_BYTES = 200
MAX_TAIL_BYTES = 1024 * 1024


def read_log(node: NodeFiles, job: Job, *, last_lines: int | None = None) -> Iterator[bytes]:
    """Yield the job's log in parts, whole lines first to last; `last_lines` keeps only the end.

    Raises:
        NotFoundError: the node keeps no log of the job (any more: stock Scrapyd keeps five a spider).

    """
    if last_lines is not None:
        yield log_tail(node, job, last_lines)[0]
        return
    for excerpt in log_parts(node, job, 0):
        yield excerpt.content


def item_parts(node: NodeFiles, job: Job, begin: int = 0) -> Iterator[Excerpt]:
    """Yield what the job's items file (JSON lines, in Scrapyd's `items_dir`) holds now from an offset on.

    Raises:
        NotFoundError: the node has no such file (yet: the first item makes it).

    """
    while True:
        excerpt = node.items(job, begin=begin)
        if excerpt is None:
            raise no_items(node, job)
        if not excerpt.content:
            return
        yield excerpt
        begin = excerpt.begins_at + len(excerpt.content)


class ItemLines:
    """Passes on the whole lines of a job's items file and counts them; an incomplete last line is kept back."""

    def __init__(self) -> None:
        self.count = 0
        self._rest = b""

    def of(self, parts: Iterable[Excerpt]) -> Iterator[bytes]:
        """Yield whole lines as the parts come. A part from offset 0 starts the count again."""
        for part in parts:
            if part.begins_at == 0:
                # A job that goes on at another node begins a new file there.
                self.count, self._rest = 0, b""
            whole, newline, self._rest = (self._rest + part.content).rpartition(b"\n")
            if newline:
                self.count += whole.count(b"\n") + 1
                yield whole + newline

    def missing(self, job: Job) -> list[str]:
        """Say what the file lacks. The job must have been read before the file, or after its end; pure."""
        told = []
        if job.items is not None and self.count < job.items:
            told.append(f"{job.id} counted {job.items:,} items, but its file on {job.node} has {self.count:,}")
            if not (job.is_queued or job.state.is_final):
                told.append("a stock node writes items in blocks of 8 kB while the job runs")
        if self._rest and job.state.is_final:
            told.append(f"the last line of the file is incomplete and was not printed ({len(self._rest):,} bytes)")
        return told


def log_parts(node: NodeFiles, job: Job, begin: int) -> Iterator[Excerpt]:
    """Yield what the log holds now from an offset on; what was not kept of it is told by a line in its place.

    Raises:
        NotFoundError: there is no log (any more).

    """
    while True:
        excerpt = node.log(job, begin=begin)
        if excerpt is None:
            raise no_log(node, job)
        if not excerpt.content:
            return
        if excerpt.begins_at > begin:
            content = left_out_line(excerpt.begins_at - begin) + excerpt.content
            yield replace(excerpt, content=content, begins_at=excerpt.begins_at + len(excerpt.content) - len(content))
        else:
            yield excerpt
        begin = excerpt.begins_at + len(excerpt.content)


def left_out_line(count: int) -> bytes:
    """Return the line that stands where bytes of a log were not kept."""
    return f"\n[... {count:,} bytes of the log were not kept ...]\n".encode()


def log_tail(node: NodeFiles, job: Job, lines: int) -> tuple[bytes, int]:
    """Return the last lines, and the offset in the log at which they end.

    Raises:
        NotFoundError: there is no log (any more).

    """
    wanted = _bytes_for(lines)
    while True:
        excerpt = node.log_end(job, most=wanted)
        if excerpt is None:
            raise no_log(node, job)
        is_all = excerpt.begins_at == 0 or len(excerpt.content) < wanted or wanted >= MAX_TAIL_BYTES
        if excerpt.content.count(b"\n") > lines or is_all:
            return _last_lines(excerpt.content, lines), excerpt.begins_at + len(excerpt.content)
        wanted = min(wanted * 4, MAX_TAIL_BYTES)


def log_on(node: NodeFiles, job: Job, begin: int | None, *, last_lines: int) -> Iterator[Excerpt]:
    """Yield what the log holds now from an offset on; without one, its last lines first.

    Raises:
        NotFoundError: there is no log (any more).

    """
    if begin is None:
        tail, begin = log_tail(node, job, last_lines)
        yield Excerpt(tail, begin - len(tail), begin)
    yield from log_parts(node, job, begin)


def _bytes_for(lines: int) -> int:
    return min(max(lines, 1) * LINE_GUESS_BYTES, MAX_TAIL_BYTES)


def _last_lines(content: bytes, lines: int) -> bytes:
    return b"".join(content.splitlines(keepends=True)[-lines:]) if lines else b""


def no_log(node: NodeFiles, job: Job) -> NotFoundError:
    """Say that there is none."""
    return NotFoundError(
        f"{node.name} keeps no log of {job.id}",
        hint="stock Scrapyd keeps the last jobs_to_keep logs of each spider (5 unless scrapyd.conf says otherwise)",
    )


def no_items(node: NodeFiles, job: Job) -> NotFoundError:
    """Say that there are none, and how many were counted."""
    counted = f", though it counted {job.items:,}" if job.items else ""
    return NotFoundError(
        f"{node.name} keeps no items of {job.id}{counted}",
        hint="set items_dir in the node's scrapyd.conf, or a FEEDS setting in the project",
    )
