"""A job's log and items, as streams of bytes read from its node in parts, by HTTP or through the store."""

from __future__ import annotations

import time
from collections.abc import Iterator

from toolkit.cluster.reaching import NodeFiles
from toolkit.cluster.scrapyd import Excerpt
from toolkit.model.errors import NodeError, NotFoundError
from toolkit.model.jobs import Job

FOLLOW_PAUSE_S = 0.5
LINE_GUESS_BYTES = 200
MAX_TAIL_BYTES = 1024 * 1024


def read_log(node: NodeFiles, job: Job, *, last_lines: int | None = None) -> Iterator[bytes]:
    """Yield the job's log in parts, whole lines first to last; `last_lines` keeps only the end.

    Raises:
        NotFoundError: the node keeps no log of the job (any more: stock Scrapyd keeps five a spider).

    """
    if last_lines is not None:
        yield _tail(node, job, last_lines)[0]
        return
    yield from _parts(node, job, 0)


def follow_log(node: NodeFiles, job: Job, *, last_lines: int) -> Iterator[bytes]:
    """Yield the end of the log and then what is appended, until the job has ended; a job that waits is waited for."""
    while node.log(job, most=1) is None:
        _must_be_alive(node, job)
        time.sleep(FOLLOW_PAUSE_S)
    begin, position = _tail(node, job, last_lines)
    yield begin
    while True:
        # The state is read before the log: what was written until the end is then surely in the last part.
        is_over = _is_over(node, job)
        for part in _parts(node, job, position):
            position += len(part)
            yield part
        if is_over:
            return
        time.sleep(FOLLOW_PAUSE_S)


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


def _parts(node: NodeFiles, job: Job, begin: int) -> Iterator[bytes]:
    while True:
        excerpt = node.log(job, begin=begin)
        if excerpt is None:
            raise _no_log(node, job)
        if not excerpt.content:
            return
        yield excerpt.content
        begin += len(excerpt.content)


def _tail(node: NodeFiles, job: Job, lines: int) -> tuple[bytes, int]:
    """Return the last lines, and the position in the log at which they end."""
    wanted = _bytes_for(lines)
    while True:
        excerpt = node.log_end(job, most=wanted)
        if excerpt is None:
            raise _no_log(node, job)
        if excerpt.content.count(b"\n") > lines or excerpt.begins_at == 0 or wanted >= MAX_TAIL_BYTES:
            return _last_lines(excerpt.content, lines), excerpt.begins_at + len(excerpt.content)
        wanted = min(wanted * 4, MAX_TAIL_BYTES)


def _bytes_for(lines: int) -> int:
    return min(max(lines, 1) * LINE_GUESS_BYTES, MAX_TAIL_BYTES)


def _last_lines(content: bytes, lines: int) -> bytes:
    return b"".join(content.splitlines(keepends=True)[-lines:]) if lines else b""


def _must_be_alive(node: NodeFiles, job: Job) -> None:
    if _is_over(node, job) and not _has_log(node, job):
        raise _no_log(node, job)


def _is_over(node: NodeFiles, job: Job) -> bool:
    state = node.state_of(job.id)
    return state is None or state.is_final


def _has_log(node: NodeFiles, job: Job) -> Excerpt | None:
    try:
        return node.log(job, most=1)
    except NodeError:
        return None


def _no_log(node: NodeFiles, job: Job) -> NotFoundError:
    return NotFoundError(
        f"{node.name} keeps no log of {job.id}",
        hint="stock Scrapyd keeps the last jobs_to_keep logs of each spider (5 unless scrapyd.conf says otherwise)",
    )
