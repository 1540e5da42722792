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
) -> Outcomes[T]:
    """Call every node and return one outcome each, in the order given; `on_done` hears of each as it comes.

    Threads grow while calls are stuck, so nodes that hang delay nobody else. A call that outlives its `deadline_s`
    (seconds from its own begin) counts as timed out and is left behind. Ctrl-C ends the wait at once; with
    `finish_begun`, calls under way are waited for first and `InterruptedFanOutError` tells what they did.
    """
    run = _FanOut(nodes, call)
    run.add_threads(FIRST_THREADS)
    while not run.is_over:
        try:
            for outcome in run.next_outcomes(deadline_s):
                if on_done is not None:
                    on_done(outcome)
        except KeyboardInterrupt:
            if run.is_stopped or not finish_begun:
                raise
            run.is_stopped = True
    if run.is_stopped:
        raise InterruptedFanOutError(run.outcomes())
    return run.outcomes()


class _FanOut(Generic[N, T]):
    """What the threads of one call share; only the caller's thread reads `found`."""

    def __init__(self, nodes: Sequence[N], call: Callable[[N], T]) -> None:
        self.is_stopped = False
        self._nodes = nodes
        self._call = call
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, Outcome[T] | BaseException]] = queue.SimpleQueue()
        self._begun: dict[int, float] = {}
        self._found: dict[int, Outcome[T]] = {}
        self._threads = 0
        for index in range(len(nodes)):
            self._todo.put(index)

    @property
    def is_over(self) -> bool:
        return len(self._found) == len(self._nodes)

    def outcomes(self) -> Outcomes[T]:
        return Outcomes(tuple(self._found[index] for index in range(len(self._nodes))))

    def add_threads(self, count: int) -> None:
        for _ in range(min(count, self._todo.qsize(), MAX_THREADS - self._threads)):
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()

    def next_outcomes(self, deadline_s: Callable[[N], float] | None) -> list[Outcome[T]]:
        """Wait a moment for the next result; when none comes, add threads and give up what is overdue."""
        try:
            index, result = self._done.get(timeout=STUCK_AFTER_S)
        except queue.Empty:
            self.add_threads(FIRST_THREADS)
            return self._overdue(deadline_s)
        if isinstance(result, BaseException):
            raise result
        return self._keep(index, result)

    def _keep(self, index: int, outcome: Outcome[T]) -> list[Outcome[T]]:
        if index in self._found:  # it answered after all, but was given up before
            return []
        self._found[index] = outcome
        return [outcome]

    def _overdue(self, deadline_s: Callable[[N], float] | None) -> list[Outcome[T]]:
        late: list[Outcome[T]] = []
        now = time.monotonic()
        for index, begun in list(self._begun.items()):
            node = self._nodes[index]
            if deadline_s is not None and index not in self._found and now - begun > deadline_s(node):
                error = NodeTimeoutError(node.name, "the whole call", f"no end after {deadline_s(node):g} s")
                late += self._keep(index, Outcome(node.name, None, error, now - begun))
        return late

    def _work(self) -> None:
        while True:
            try:
                index = self._todo.get_nowait()
            except queue.Empty:
                return
            try:
                self._done.put((index, self._outcome(index)))
            except BaseException as error:  # noqa: BLE001 - a bug must reach the caller, not die in this thread
                self._done.put((index, error))

    def _outcome(self, index: int) -> Outcome[T]:
        node = self._nodes[index]
        if self.is_stopped:
            return Outcome(node.name, None, CrawlctlError(f"{node.name}: {INTERRUPTED}"))
        started = self._begun[index] = time.monotonic()
        try:
            return Outcome(node.name, self._call(node), None, time.monotonic() - started)
        except CrawlctlError as error:
            return Outcome(node.name, None, error, time.monotonic() - started)
