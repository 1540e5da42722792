"""One job's log and items wherever they lie: on the node that runs it, on the next after a requeue, or shipped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from math import inf
from typing import Self, TypeVar

from toolkit.cluster import files
from toolkit.cluster.membership import registered
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.reaching import NodeFiles, reach
from toolkit.cluster.scrapyd import MAX_EXCERPT_BYTES, Excerpt
from toolkit.cluster.shipped import ShippedFiles, shipped_files
from toolkit.cluster.waiting import AWAY_PATIENCE_S
from toolkit.config.log_places import LogAddress
from toolkit.model.errors import (
    CrawlctlError,
    NodeError,
    NotFoundError,
    StoreUnreachableError,
    StoreUnreadableError,
    UsageError,
)
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.store.interfaces import Store

PIECE_BYTES = 64 * 1024
AWAY_S = 10.0
"""How long a node that did not answer is not asked again where its log was shipped."""

REGISTRY_S = 2.0
WAY_S = 60.0
"""How long the way to a node is remembered; then it is looked for anew."""

PATIENCE_S = 6.0
"""How long a node may take that is asked through the store; a woken one answers at once."""

FOLLOW_PAUSE_S = 0.5
END_PATIENCE_S = 30.0
"""How long the node of a job that has ended may be away before following its log or items fails."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogCursor:
    """How far somebody has read: an offset in the log that one node wrote."""

    node: NodeName
    offset: int

    def __str__(self) -> str:
        return f"{self.offset}@{self.node}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` gave.

        Raises:
            UsageError: it is none.

        """
        offset, separator, node = text.partition("@")
        if not separator or not offset.isascii() or not offset.isdecimal() or len(offset) > 18 or not node:  # noqa: PLR2004 - digits
            raise UsageError(f"{text[:60]!r} is no place in a log")
        return cls(NodeName(node), int(offset))


@dataclass(frozen=True, slots=True)
class LogPiece:
    """What follows a cursor, and the cursor behind it.

    `source` says where it comes from. `left_out` bytes before it were not kept. `has_moved`: it is of another node, or
    the log was begun anew. `is_over`: the job has ended, and this was the last of it. `written_at` is when the log was
    last written (`Last-Modified`), where the piece reaches its end.
    """

    content: bytes
    cursor: LogCursor
    source: str
    left_out: int = 0
    has_moved: bool = False
    is_over: bool = False
    written_at: str | None = None


class JobLogs:
    """The logs and items of a cluster's jobs. Any thread may call; ways to nodes are remembered.

    `place` is where logs lie that were shipped elsewhere than to Redis; `say` hears once of each node whose log comes
    by another way than HTTP; `patience_s` is how long a node may take that is asked through Redis. `offsets` is what
    readers found out of the nodes' time zones.
    """

    def __init__(
        self,
        nodes: Nodes,
        open_store: Callable[[], Store],
        *,
        place: LogAddress | None = None,
        say: Callable[[str], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._nodes = nodes
        self._open_store = open_store
        self._place = place
        self._say = say
        self._patience_s = patience_s
        self.offsets: dict[NodeName, timedelta] = {}
        self._said: set[str] = set()
        self._ways: dict[NodeName, tuple[float, NodeFiles]] = {}
        self._away: dict[NodeName, tuple[float, CrawlctlError]] = {}
        self._registry: tuple[float, Sequence[NodeRecord]] = (0.0, ())
        self._lock, self._registry_lock = threading.Lock(), threading.Lock()

    def files(self, job: Job) -> AnyFiles:
        """Return the log of a job on the node that has it now, or had it last.

        Raises:
            NotFoundError: no node has run it.

        """
        if job.node is None:
            raise NotFoundError(
                f"{job.id} is {job.state.value} and no node has run it, so there is nothing of it",
                hint=f"crawlctl why {job.id} tells more",
            )
        return AnyFiles(self, job, job.node)

    def part(self, job: Job, *, after: LogCursor | None = None, most: int = PIECE_BYTES) -> LogPiece:
        """Return what follows the cursor, nothing yet perhaps; without one the last whole lines, at most `most` bytes.

        Of a job that moved to another node, what follows is the begin of the log there.

        Raises:
            NotFoundError: there is no log of it anywhere.
            CrawlctlError: its node does not answer, and has not shipped the log.

        """
        if job.node is None:
            if after is None:
                raise NotFoundError(f"{job.id} is {job.state.value}: there is no log of it yet")
            return LogPiece(b"", after, after.node)
        there = self.files(job)
        begin = after.offset if after is not None and after.node == job.node else 0
        has_moved = after is not None and after.node != job.node
        excerpt = there.log_end(job, most=most) if after is None else there.log(job, begin=begin, most=most)
        if excerpt is not None and excerpt.size < begin:
            begin, has_moved = 0, True
            excerpt = there.log(job, begin=0, most=most)
        if excerpt is None:
            if job.state.is_final and after is None:
                raise files.no_log(there, job)
            return LogPiece(
                b"", LogCursor(job.node, begin), there.source, has_moved=has_moved, is_over=job.state.is_final
            )
        content, begins_at = excerpt.content, excerpt.begins_at
        if after is None and begins_at > 0:
            cut = content.find(b"\n") + 1
            content, begins_at = content[cut:], begins_at + cut
        end = begins_at + len(content)
        is_whole = end >= excerpt.size
        return LogPiece(
            content,
            LogCursor(job.node, end),
            there.source,
            left_out=0 if after is None else max(0, begins_at - begin),
            has_moved=has_moved,
            is_over=is_whole and job.state.is_final,
            written_at=excerpt.written_at if is_whole else None,
        )

    def follow(self, job: Job, *, last_lines: int) -> Iterator[bytes]:
        """Yield the end of the log and then what is appended, until the job has ended, on whatever nodes it runs.

        A node or a store that stops answering is waited for.

        Raises:
            NotFoundError: it has ended, and there is no log of it.

        """
        read = partial(files.log_on, last_lines=last_lines)
        return (excerpt.content for excerpt in self._follow(job, read))

    def follow_items(self, job: Job) -> Iterator[Excerpt]:
        """Yield the items file from its begin and what is appended, as `follow` does.

        Raises:
            NotFoundError: it has ended, and there is no such file.

        """
        return self._follow(job, lambda there, job, begin: files.item_parts(there, job, begin or 0))

    def _follow(self, job: Job, read: Callable[[AnyFiles, Job, int | None], Iterator[Excerpt]]) -> Iterator[Excerpt]:
        there = self.files(job)
        position: int | None = None
        answered, failing_since = False, None
        while True:
            fresh, error = None, None
            try:
                # The state is read before the file: what was written until the end is then surely in the last part.
                fresh = self._fresh(job, there)
                for excerpt in read(there, fresh, position):
                    position = excerpt.begins_at + len(excerpt.content)
                    yield excerpt
                answered, failing_since = True, None
            except (NodeError, NotFoundError, StoreUnreachableError) as caught:
                error, now = caught, time.monotonic()
                failing_since = failing_since or now
                if now - failing_since >= patience_s(caught, fresh, there.name, has_answered=answered):
                    raise
                self._tell_of_wait(caught, fresh)
            if fresh is not None and fresh.node is not None and fresh.node != there.name:
                self._say(f"{job.id} goes on at {fresh.node}")
                job, there, position, failing_since = fresh, self.files(fresh), 0, None
            elif fresh is not None and fresh.state.is_final and error is None:
                return
            else:
                job = fresh if fresh is not None and fresh.node is not None else job
                time.sleep(FOLLOW_PAUSE_S)

    def _tell_of_wait(self, error: CrawlctlError, job: Job | None) -> None:
        if isinstance(error, NodeError) and job is not None and job.is_queued and not job.state.is_final:
            self.tell(f"{error}; waiting for it, or for another node to take the job")
        elif job is None or not isinstance(error, NotFoundError):
            self.tell(f"{error}; waiting for it")

    def tell(self, text: str) -> None:
        """Say a thing, once."""
        with self._lock:
            if text in self._said:
                return
            self._said.add(text)
        self._say(text)

    def way(self, name: NodeName) -> NodeFiles:
        """Return the way to a node's files; one that did not answer lately raises what it raised then."""
        now = time.monotonic()
        with self._lock:
            failed, known = self._away.get(name), self._ways.get(name)
        if failed is not None and now < failed[0]:
            raise failed[1]
        if known is not None and now < known[0]:
            return known[1]
        found = reach(
            self._nodes,
            name,
            self._open_store,
            say=self.tell,
            patience_s=self._patience_s,
            records_of=self._records_of,
        )
        with self._lock:
            self._ways[name] = (now + WAY_S, found)
        return found

    def _records_of(self, store: Store) -> Sequence[NodeRecord]:
        """Return the registry as it was a moment ago: ways to hundreds of nodes may be looked for at once."""
        with self._registry_lock:
            if time.monotonic() >= self._registry[0]:
                self._registry = (time.monotonic() + REGISTRY_S, registered(store))
            return self._registry[1]

    def failed(self, name: NodeName, error: CrawlctlError) -> None:
        """Leave a node alone for a while."""
        with self._lock:
            self._ways.pop(name, None)
            self._away[name] = (time.monotonic() + AWAY_S, error)

    def shipped(self, job: Job, node: NodeName) -> ShippedFiles | None:
        """Return what the node has shipped of the job's log; `None` where nothing is known of it.

        Raises:
            NotFoundError: it lies where the inventory does not lead.

        """
        try:
            shared = self._open_store().shared
            return None if shared is None else shipped_files(shared, job, node=node, address=self._place)
        except StoreUnreachableError:
            return None

    def _fresh(self, job: Job, there: AnyFiles) -> Job:
        """Return the job as it is now: by the store, or where that is away or does not know, by its node."""
        if job.is_queued:
            try:
                return self._open_store().jobs.get(job.id) or replace(job, state=JobState.LOST)
            except StoreUnreachableError:
                pass
        state = there.state_of(job.id)
        return replace(job, state=JobState.FINISHED if state is None else state)


class AnyFiles:
    """One job's log on its node; where the node cannot give it, as that has shipped it. Serves as `NodeFiles`."""

    def __init__(self, logs: JobLogs, job: Job, name: NodeName) -> None:
        self._logs = logs
        self._job = job
        self._name = name
        self._shipped: ShippedFiles | None = None

    @property
    def name(self) -> NodeName:
        """The node's name."""
        return self._name

    @property
    def source(self) -> str:
        """Where the log comes from."""
        return self._name if self._shipped is None else self._shipped.words

    def state_of(self, job_id: JobId) -> JobState | None:
        """See `NodeFiles`."""
        return self._asked(lambda way: way.state_of(job_id))

    def log(self, job: Job, *, begin: int = 0, most: int = MAX_EXCERPT_BYTES) -> Excerpt | None:
        """See `NodeFiles`. From a shipped log it may begin later than asked for, where a part was not kept."""
        return self._log(
            lambda way: way.log(job, begin=begin, most=most), lambda there: there.log(begin=begin, most=most)
        )

    def log_end(self, job: Job, *, most: int) -> Excerpt | None:
        """See `NodeFiles`."""
        return self._log(lambda way: way.log_end(job, most=most), lambda there: there.log_end(most=most))

    def items(self, job: Job, *, begin: int = 0) -> Excerpt | None:
        """See `NodeFiles`: items are not shipped."""
        return self._asked(lambda way: way.items(job, begin=begin))

    def _log(
        self,
        on_node: Callable[[NodeFiles], Excerpt | None],
        elsewhere: Callable[[ShippedFiles], Excerpt | None],
    ) -> Excerpt | None:
        failure: CrawlctlError | None = None
        try:
            found = self._asked(on_node)
        except (NodeError, NotFoundError) as error:
            found, failure = None, error
        if found is not None:
            self._shipped = None
            return found
        if self._shipped is None:
            self._shipped = self._logs.shipped(self._job, self._name)
        if self._shipped is None:
            if failure is not None:
                raise failure
            return None
        why = str(failure) if failure is not None else f"{self._name} has no log of {self._job.id} any more"
        self._logs.tell(f"{why}; read from {self._shipped.words}")
        return elsewhere(self._shipped)

    def _asked(self, ask: Callable[[NodeFiles], T]) -> T:
        # Outside of the `try`: an error that is only repeated must not extend the time in which the node is left alone.
        way = self._logs.way(self._name)
        try:
            return ask(way)
        except NodeError as error:
            self._logs.failed(self._name, error)
            raise


def patience_s(error: CrawlctlError, job: Job | None, node: NodeName, *, has_answered: bool) -> float:
    """Return how long an error is tolerated while a job's file on a node is followed; pure.

    `job` is the job as it was just read, `None` if that failed. While it runs, or goes on at another node, every error
    is tolerated: its file may be there later. Otherwise only what has answered before is waited for.
    """
    if job is not None and not (job.state.is_final and job.node in {None, node}):
        return inf
    if not has_answered or isinstance(error, StoreUnreadableError):
        return 0.0
    if job is None:
        return AWAY_PATIENCE_S
    return 0.0 if isinstance(error, NotFoundError) else END_PATIENCE_S
