"""Work that several threads ask for at once is done by one of them, and the others get what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Once(Generic[K, T]):
    """Whoever asks while the same is under way waits for that; whoever asks afterwards has it done anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[K, Future[T]] = {}

    def do(self, key: K, work: Callable[[], T]) -> T:
        """Return what the work gives, or raise what it raises, to everybody who asked for the same meanwhile."""
        with self._lock:
            other = self._under_way.get(key)
            if other is None:
                ours = self._under_way[key] = Future()
        if other is not None:
            return other.result()
        try:
            found = work()
        except BaseException as error:
            ours.set_exception(error)
            raise
        else:
            ours.set_result(found)
            return found
        finally:
            with self._lock:
                del self._under_way[key]
