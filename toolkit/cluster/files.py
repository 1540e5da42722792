"""A job's log and items, as streams of bytes read from its node in parts, by HTTP or through the store."""

from __future__ import annotations

from collections.abc import Iterator
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


def read_items(node: NodeFiles, job: Job) -> Iterator[bytes]:
    """Yield the job's items, JSON lines as Scrapyd's `items_dir` keeps them.

    Raises:
        NotFoundError: the node keeps none.

    """
    excerpt = node.items(job)
    if excerpt is None:
        raise NotFoundError(
            f"{node.name} keeps no items of {job.id}",
            hint="set items_dir in the node's scrapyd.conf, or a FEEDS setting in the project",
        )
    while excerpt is not None and excerpt.content:
        yield excerpt.content
        excerpt = node.items(job, begin=excerpt.begins_at + len(excerpt.content))


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
