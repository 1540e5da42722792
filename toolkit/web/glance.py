"""What was read a moment ago, shared by all who ask for it: however many browsers look, the cluster is read once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolkit.model.errors import CrawlctlError

T = TypeVar("T")

MAX_KEPT = 200
MAX_SLOW = 16
FRESH_S = 1.0


@dataclass(slots=True)
class _Reading:
    lock: threading.Lock = field(default_factory=threading.Lock)
    at_s: float = float("-inf")
    value: Any = None
    error: CrawlctlError | None = None


class Glances:
    """Keeps the newest readings. Any thread may ask; of several that ask for the same, one reads and the others wait.

    A failure is kept like a value, so that a Redis which is away is not asked by every browser in turn.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: dict[Hashable, _Reading] = {}
        self._slow: dict[Hashable, threading.Thread] = {}

    def get(self, key: Hashable, read: Callable[[], T], *, fresh_s: float = FRESH_S) -> T:
        """Return what is known under the key if it is not older than `fresh_s`, else read it."""
        reading = self._reading(key)
        with reading.lock:
            if self._clock() - reading.at_s > fresh_s:
                try:
                    reading.value, reading.error = read(), None
                except CrawlctlError as error:
                    reading.value, reading.error = None, error
                reading.at_s = self._clock()
            if reading.error is not None:
                raise reading.error
            value: T = reading.value
            return value

    def soon(self, key: Hashable, read: Callable[[], T], *, within_s: float, fresh_s: float = FRESH_S) -> T | None:
        """Return as `get` does what can be read in time, else nothing; the reading goes on, for whoever asks next.

        Of such readings at most sixteen are under way; beyond that nothing is returned at once.
        """
        with self._lock:
            reader = self._slow.get(key)
            if reader is None:
                if len(self._slow) >= MAX_SLOW:
                    return None
                reader = threading.Thread(target=self._read_slowly, args=(key, read, fresh_s), daemon=True)
                self._slow[key] = reader
                reader.start()
        reader.join(within_s)
        return None if reader.is_alive() else self.get(key, read, fresh_s=max(fresh_s, FRESH_S))

    def _read_slowly(self, key: Hashable, read: Callable[[], object], fresh_s: float) -> None:
        try:
            self.get(key, read, fresh_s=fresh_s)
        except CrawlctlError:
            pass  # It is kept, and raised to whoever asks.
        finally:
            with self._lock:
                del self._slow[key]

    def forget(self) -> None:
        """Let whatever is asked next be read anew: somebody has just changed the cluster."""
        with self._lock:
            self._readings.clear()

    def _reading(self, key: Hashable) -> _Reading:
        with self._lock:
            reading = self._readings.pop(key, None) or _Reading()
            self._readings[key] = reading
            while len(self._readings) > MAX_KEPT:
                del self._readings[next(iter(self._readings))]
            return reading
