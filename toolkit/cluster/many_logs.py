"""The logs of many jobs of many nodes as one: those that are there, those that begin meanwhile, until all have ended.

Bounded: at most `MAX_STREAMS` logs are read at a time by at most `READERS` threads, and of all that is read ahead no
more than `AHEAD_BYTES` are held, beside the entries that wait for their order (`log_merge.py`).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, Self

from toolkit.cluster.job_log import JobLogs
from toolkit.cluster.log_merge import JobEntry, Reorder, merged
from toolkit.cluster.log_stream import JobStream, LogWish
from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job
from toolkit.model.names import JobId, NodeName

MAX_STREAMS = 1_000
READERS = 32
AHEAD_BYTES = 8 * 1024 * 1024
PIECE_BYTES = (4 * 1024, 64 * 1024)
"""The smallest and largest piece of a log that is read at a time."""

MAX_TOLD = 5
"""Of more logs that cannot be read than this, only the first is told, and how many they are."""

TICK_S = 0.1
POLL_S = 0.5
"""How often a log is looked at while it is followed, by one thread a node; more rarely where there are many."""

S_A_STREAM = 0.005
LIST_S = 2.0
"""How often it is looked which jobs have begun, moved or ended."""


class JobsSeen(Protocol):
    """Who knows the jobs: those that are wanted, and what became of those that are followed."""

    def wanted(self) -> Sequence[Job]:
        """Return the jobs that are to be followed now, those that have ended since the begin among them."""

    def fresh(self, jobs: Sequence[Job]) -> Mapping[JobId, Job]:
        """Return these jobs as they are now; one that is left out is as it was."""


class ManyLogs:
    """Reads the logs of several jobs. `say` hears of each log that cannot be read, once.

    `unread` says why some of those that were to be there could not be read.
    """

    def __init__(
        self,
        logs: JobLogs,
        wish: LogWish,
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = logs
        self._wish = wish
        self._say = say
        self._clock = clock
        self._streams: dict[JobId, JobStream] = {}
        self._over: set[JobId] = set()
        self._said: set[str] = set()
        self.unread: list[CrawlctlError] = []

    def past(self, jobs: Sequence[Job]) -> Iterator[JobEntry]:
        """Yield what is there of these jobs' logs, ordered by time."""
        for job in jobs[:MAX_STREAMS]:
            self._streams[job.id] = JobStream(self._logs, job, self._wish, piece_bytes=_piece_bytes(len(jobs)))
        with _Readers(READERS) as readers:
            readers.all([stream.open for stream in self._streams.values()])
        yield from merged([stream.past() for stream in self._streams.values()])
        self.unread = [stream.problem for stream in self._streams.values() if stream.problem is not None]
        if len(self.unread) > MAX_TOLD:
            self._tell(f"{len(self.unread)} of {len(jobs)} logs cannot be read, among them: {self.unread[0].message}")
            self._said |= {problem.message for problem in self.unread}
        self._tell_problems()

    def follow(self, jobs: Sequence[Job], seen: JobsSeen, *, goes_on: bool = False) -> Iterator[JobEntry]:
        """Yield what is there, and then what comes, also of jobs that begin meanwhile, until all have ended.

        When it `goes_on`, it never ends: it waits for jobs that are still to come.
        """
        yield from self.past(jobs)
        reorder, listed_at = Reorder(), self._clock()
        with _Readers(READERS) as readers:
            polls = _Polls(readers)
            while True:
                if self._clock() - listed_at >= LIST_S:
                    self._list(seen)
                    listed_at = self._clock()
                self._close(reorder)
                if not self._streams and not goes_on:
                    # Perhaps more have come since.
                    self._list(seen)
                    if not self._streams:
                        break
                polls.begin(self._by_node(), every_s=max(POLL_S, len(self._streams) * S_A_STREAM), now=self._clock())
                for entry in polls.results(wait_s=TICK_S):
                    reorder.push(entry, now_s=self._clock())
                yield from reorder.ready(now_s=self._clock())
                self._tell_problems()
            yield from reorder.ready(now_s=self._clock(), is_over=True)

    def _list(self, seen: JobsSeen) -> None:
        try:
            self._look(seen)
        except CrawlctlError as error:
            self._tell(f"{error.message}; what is followed already goes on")

    def _look(self, seen: JobsSeen) -> None:
        fresh = seen.fresh([stream.job for stream in self._streams.values()])
        for job_id, job in fresh.items():
            stream = self._streams.get(job_id)
            if stream is not None and job != stream.job:
                stream.learn(job)
        for job in seen.wanted():
            is_new = job.id not in self._streams and (job.id not in self._over or not job.state.is_final)
            if is_new and len(self._streams) < MAX_STREAMS:
                stream = JobStream(self._logs, job, self._wish, piece_bytes=_piece_bytes(len(self._streams) + 1))
                self._streams[job.id] = stream
            elif is_new:
                self._tell(f"more than {MAX_STREAMS} jobs run: of the others nothing is shown until some of these end")

    def _close(self, reorder: Reorder) -> None:
        for job_id in [job_id for job_id, stream in self._streams.items() if not stream.is_open]:
            self._tell_problem(self._streams.pop(job_id))
            self._over.add(job_id)
            reorder.forget(job_id)

    def _by_node(self) -> Mapping[NodeName | None, Sequence[JobStream]]:
        groups: dict[NodeName | None, list[JobStream]] = {}
        for stream in self._streams.values():
            groups.setdefault(stream.job.node, []).append(stream)
        return groups

    def _tell_problems(self) -> None:
        for stream in self._streams.values():
            self._tell_problem(stream)

    def _tell_problem(self, stream: JobStream) -> None:
        if stream.problem is not None:
            self._tell(stream.problem.message)

    def _tell(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def _piece_bytes(count: int) -> int:
    smallest, largest = PIECE_BYTES
    return max(smallest, min(largest, AHEAD_BYTES // max(1, count)))


class _Polls:
    """The looks at the logs, all of one node by one thread, so that a node that hangs keeps only its own waiting."""

    def __init__(self, readers: _Readers) -> None:
        self._readers = readers
        self._under_way: set[NodeName | None] = set()
        self._polled_at: dict[NodeName | None, float] = {}
        self._done: queue.SimpleQueue[tuple[NodeName | None, list[JobEntry] | BaseException]] = queue.SimpleQueue()

    def begin(self, groups: Mapping[NodeName | None, Sequence[JobStream]], *, every_s: float, now: float) -> None:
        for node, streams in groups.items():
            if node in self._under_way or now - self._polled_at.get(node, float("-inf")) < every_s:
                continue
            self._under_way.add(node)
            self._polled_at[node] = now
            self._readers.put(lambda node=node, streams=tuple(streams): self._poll(node, streams))  # type: ignore[misc]

    def results(self, *, wait_s: float) -> Iterator[JobEntry]:
        """Yield what was read; wait a moment for the first."""
        try:
            node, found = self._done.get(timeout=wait_s)
            while True:
                if isinstance(found, BaseException):
                    raise found
                yield from found
                if node in self._under_way and found == []:
                    self._under_way.discard(node)
                node, found = self._done.get_nowait()
        except queue.Empty:
            return

    def _poll(self, node: NodeName | None, streams: Sequence[JobStream]) -> None:
        try:
            for stream in streams:
                if stream.is_open and (entries := stream.poll()):
                    self._done.put((node, entries))
            self._done.put((node, []))
        except BaseException as error:  # noqa: BLE001 - a bug must reach the caller, not die in this thread
            self._done.put((node, error))


class _Readers:
    """Threads that do not keep the process from ending, at most so many, begun as they are needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._todo: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _each in range(self._threads):
            self._todo.put(None)

    def put(self, work: Callable[[], object]) -> None:
        """Have it done."""
        with self._lock:
            self._open += 1
            needs_one = self._threads < min(self._open, self._most)
            self._threads += needs_one
        self._todo.put(work)
        if needs_one:
            threading.Thread(target=self._work, name="crawlctl-logs", daemon=True).start()

    def all(self, works: Sequence[Callable[[], object]]) -> None:
        """Have all of it done, and return when it is."""
        done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def doing(work: Callable[[], object]) -> Callable[[], None]:
            def do() -> None:
                try:
                    work()
                except BaseException as error:  # noqa: BLE001 - likewise
                    done.put(error)
                else:
                    done.put(None)

            return do

        for work in works:
            self.put(doing(work))
        for _ in works:
            if (error := done.get()) is not None:
                raise error

    def _work(self) -> None:
        while (work := self._todo.get()) is not None:
            work()
            with self._lock:
                self._open -= 1
