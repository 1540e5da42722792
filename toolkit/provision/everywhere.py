"""One piece of work on many hosts at once: bounded, a host's failure stays its own, and Ctrl-C ends all of it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from toolkit.cluster.fanout import INTERRUPTED, InterruptedFanOutError
from toolkit.model.errors import CrawlctlError, HostUnreachableError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.provision.remote import Remote

PARALLEL = 32
"""More connections than that at once only wait for this machine's processor."""
END_WITHIN_S = 5.0
_LOOK_S = 0.2

T = TypeVar("T")
R = TypeVar("R", bound=Remote)
OnStep = Callable[[NodeName, str], object]
Say = Callable[[str], None]


def everywhere(
    hosts: Sequence[Host],
    connect: Callable[[Host], R],
    act: Callable[[R, Say], T],
    *,
    parallel: int = PARALLEL,
    on_step: OnStep | None = None,
    on_done: Callable[[Outcome[T]], object] | None = None,
) -> Outcomes[T]:
    """Do the work on every host, at most `parallel` at once, and return an outcome each, in the order given.

    `act` gets the host's remote and a function that tells what it is at; `on_step` hears of that in the host's thread,
    one at a time; `on_done` hears of each end in the caller's. Remotes are closed when their host is done.

    Raises:
        InterruptedFanOutError: Ctrl-C came; connections were ended, and with them what ran over them. Its outcomes tell
            how far each host got.

    """
    work = _Work(hosts, connect, act, on_step)
    for _ in range(min(max(parallel, 1), len(hosts))):
        threading.Thread(target=work.go, daemon=True).start()
    try:
        work.wait(on_done)
    except KeyboardInterrupt:
        work.stop()
        raise InterruptedFanOutError(work.outcomes()) from None
    return work.outcomes()


class _Work(Generic[R, T]):
    """What the threads share; `_found` is written by the caller's thread only."""

    def __init__(
        self, hosts: Sequence[Host], connect: Callable[[Host], R], act: Callable[[R, Say], T], on_step: OnStep | None
    ) -> None:
        self._hosts = hosts
        self._connect = connect
        self._act = act
        self._on_step = on_step
        self._telling = threading.Lock()
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._news: queue.SimpleQueue[tuple[int, Outcome[T] | BaseException]] = queue.SimpleQueue()
        self._found: dict[int, Outcome[T]] = {}
        self._begun: dict[int, float] = {}
        self._remotes: dict[int, R] = {}
        self._is_stopped = False
        for index in range(len(hosts)):
            self._todo.put(index)

    def go(self) -> None:
        """Work until nothing is left to do."""
        while not self._is_stopped:
            try:
                index = self._todo.get_nowait()
            except queue.Empty:
                return
            try:
                self._news.put((index, self._outcome(index)))
            except BaseException as error:  # noqa: BLE001 - a bug must reach the caller, not die in this thread
                self._news.put((index, error))

    def wait(self, on_done: Callable[[Outcome[T]], object] | None) -> None:
        """Wait for every host, and tell of each as it ends."""
        while len(self._found) < len(self._hosts):
            if (outcome := self._next()) is not None and on_done is not None:
                on_done(outcome)

    def stop(self) -> None:
        """Begin nothing more, end the connections, and give what is under way a moment to notice."""
        self._is_stopped = True
        for remote in list(self._remotes.values()):
            threading.Thread(target=remote.close, daemon=True).start()
        ends_at = time.monotonic() + END_WITHIN_S
        while set(self._begun) - set(self._found) and time.monotonic() < ends_at:
            self._next()

    def outcomes(self) -> Outcomes[T]:
        """Return what is known of each host."""
        return Outcomes(tuple(self._found.get(index) or self._cut(index) for index in range(len(self._hosts))))

    def _next(self) -> Outcome[T] | None:
        try:
            index, result = self._news.get(timeout=_LOOK_S)
        except queue.Empty:
            return None
        if isinstance(result, BaseException):
            raise result
        self._found[index] = result
        return result

    def _cut(self, index: int) -> Outcome[T]:
        name = self._hosts[index].name
        if index not in self._begun:
            return Outcome(name, None, CrawlctlError(f"{name}: {INTERRUPTED}"))
        error = HostUnreachableError(name, "the work there", "interrupted; how far it got is not known")
        return Outcome(name, None, error, time.monotonic() - self._begun[index])

    def _outcome(self, index: int) -> Outcome[T]:
        host = self._hosts[index]
        begun = self._begun[index] = time.monotonic()

        def say(text: str) -> None:
            if self._on_step is not None:
                with self._telling:
                    self._on_step(host.name, text)

        value: Any = None
        error: CrawlctlError | None = None
        try:
            remote = self._remotes[index] = self._connect(host)
            try:
                value = self._act(remote, say)
            finally:
                remote.close()
        except CrawlctlError as failure:
            error = failure
        return Outcome(host.name, value, error, time.monotonic() - begun)
