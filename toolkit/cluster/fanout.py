"""One call to many nodes at once: bounded, in the nodes' own time, and one node's failure stays its own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from toolkit.model.errors import CrawlctlError, NodeTimeoutError
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcome, Outcomes

FIRST_THREADS = 64
MAX_THREADS = 1024
STUCK_AFTER_S = 0.1
INTERRUPTED = "interrupted before it began"

T = TypeVar("T")


class Named(Protocol):
    """Anything with a node's name."""

    @property
    def name(self) -> NodeName:
        """The node's name."""


N = TypeVar("N", bound=Named)


class InterruptedFanOutError(KeyboardInterrupt):
    """Ctrl-C came; `outcomes` holds what was done until then, each call either whole or not begun."""

    def __init__(self, outcomes: Outcomes[Any]) -> None:
        super().__init__()
        self.outcomes = outcomes


def fan_out(
    nodes: Sequence[N],
    call: Callable[[N], T],
    *,
    deadline_s: Callable[[N], float] | None = None,
    on_done: Callable[[Outcome[T]], None] | None = None,
    finish_begun: bool = False,
    on_stop: Callable[[], object] | None = None,
) -> Outcomes[T]:
    """Call every node and return one outcome each, in the order given; `on_done` hears of each as it comes.

    Every call that is stuck gets a thread in its place, so nodes that hang delay nobody else. A call that outlives its
    `deadline_s` (seconds from its own begin) counts as timed out and is left behind. Ctrl-C ends the wait at once;
    with `finish_begun`, calls under way are waited for first and `InterruptedFanOutError` tells what they did; a
    second Ctrl-C ends that wait too. `on_stop` hears of the first one, to hasten them.
    """
    run = _FanOut(nodes, call)
    while True:
        try:
            run.finish(deadline_s, on_done)
        except KeyboardInterrupt:
            if run.is_stopped or not finish_begun:
                raise
            run.is_stopped = True
            if on_stop is not None:
                on_stop()
        else:
            break
    if run.is_stopped:
        raise InterruptedFanOutError(run.outcomes())
    return run.outcomes()


class _FanOut(Generic[N, T]):
    """What the threads of one call share: they write `_begun` and `_ended`, only the caller's thread `_found`."""

    def __init__(self, nodes: Sequence[N], call: Callable[[N], T]) -> None:
        self.is_stopped = False
        self._nodes = nodes
        self._call = call
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._begun: dict[int, float] = {}
        self._ended: dict[int, Outcome[T] | BaseException] = {}
        self._news: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._found: dict[int, Outcome[T]] = {}
        self._threads = 0
        self._most_threads = MAX_THREADS
        self._next_look = 0.0
        for index in range(len(nodes)):
            self._todo.put(index)

    def finish(self, deadline_s: Callable[[N], float] | None, on_done: Callable[[Outcome[T]], None] | None) -> None:
        """Go on until every node has its outcome; may be called again after an interruption."""
        while len(self._found) < len(self._nodes):
            for outcome in self._next_outcomes(deadline_s):
                if on_done is not None:
                    on_done(outcome)

    def outcomes(self) -> Outcomes[T]:
        return Outcomes(tuple(self._found[index] for index in range(len(self._nodes))))

    def _next_outcomes(self, deadline_s: Callable[[N], float] | None) -> list[Outcome[T]]:
        """Wait a moment for the next result; now and then replace what is stuck and give up what is overdue."""
        wait_s = self._next_look - time.monotonic()
        if wait_s > 0:
            try:
                return self._take(self._news.get(timeout=wait_s))
            except queue.Empty:
                pass
        self._replace_stuck()
        self._next_look = time.monotonic() + STUCK_AFTER_S
        # An interruption may have come between hearing of a result and taking it.
        missed = [index for index in list(self._ended) if index not in self._found]
        return [outcome for index in missed for outcome in self._take(index)] + self._overdue(deadline_s)

    def _take(self, index: int) -> list[Outcome[T]]:
        if index in self._found:  # it answered after all, but was given up before
            return []
        result = self._ended[index]
        if isinstance(result, BaseException):
            raise result
        self._found[index] = result
        return [result]

    def _overdue(self, deadline_s: Callable[[N], float] | None) -> list[Outcome[T]]:
        late: list[Outcome[T]] = []
        now = time.monotonic()
        for index, begun in list(self._begun.items()):
            node = self._nodes[index]
            if deadline_s is not None and index not in self._found and now - begun > deadline_s(node):
                error = NodeTimeoutError(node.name, "the whole call", f"no end after {deadline_s(node):g} s")
                self._found[index] = Outcome(node.name, None, error, now - begun)
                late.append(self._found[index])
        return late

    def _replace_stuck(self) -> None:
        """Have as many threads at work beside those whose call has been under way for a while."""
        long_ago = time.monotonic() - STUCK_AFTER_S
        stuck = sum(begun < long_ago and index not in self._ended for index, begun in list(self._begun.items()))
        wanted = min(FIRST_THREADS + stuck, self._most_threads) - self._threads
        for _ in range(min(wanted, self._todo.qsize())):
            try:
                threading.Thread(target=self._work, daemon=True).start()
            except RuntimeError:
                if self._threads == 0:
                    raise
                self._most_threads = self._threads  # this machine allows no more; those that run do the work
                return
            self._threads += 1

    def _work(self) -> None:
        while True:
            try:
                index = self._todo.get_nowait()
            except queue.Empty:
                return
            try:
                self._ended[index] = self._outcome(index)
            except BaseException as error:  # noqa: BLE001 - a bug must reach the caller, not die in this thread
                self._ended[index] = error
            self._news.put(index)

    def _outcome(self, index: int) -> Outcome[T]:
        node = self._nodes[index]
        if self.is_stopped:
            return Outcome(node.name, None, CrawlctlError(f"{node.name}: {INTERRUPTED}"))
        started = self._begun[index] = time.monotonic()
        try:
            return Outcome(node.name, self._call(node), None, time.monotonic() - started)
        except CrawlctlError as error:
            return Outcome(node.name, None, error, time.monotonic() - started)
