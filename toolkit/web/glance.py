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
