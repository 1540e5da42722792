"""What was read a moment ago, shared by all who ask for it: however many browsers look, the cluster is read once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

MAX_KEPT = 200
FRESH_S = 1.0
PATIENCE_S = 0.6
"""A reading that takes longer is not waited for where an older one will do; it goes on for whoever asks next."""
STALE_S = 30.0
"""No older one will do."""


@dataclass(slots=True)
class _Reading:
    at_s: float = float("-inf")
    value: Any = None
    error: BaseException | None = None
    is_known: bool = False
    under_way: threading.Event | None = None


class Glances:
    """Keeps the newest readings. Any thread may ask; of several that ask for the same, one reads and the others wait.

    A failure is kept like a value, so that a Redis which is away is not asked by every browser in turn.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, patience_s: float = PATIENCE_S) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._readings: dict[Hashable, _Reading] = {}

    def get(self, key: Hashable, read: Callable[[], T], *, fresh_s: float = FRESH_S) -> T:
        """Return what is known under the key if it is not older than `fresh_s`, else read it.

        Where that takes long, as when a node does not answer, what was known half a minute ago at most is returned.
        """
        reading, under_way = self._begun(key, read, fresh_s)
        if under_way is not None and not under_way.wait(self._patience_s):
            if reading.is_known and self._clock() - reading.at_s <= STALE_S:
                value: T = reading.value
                return value
            under_way.wait()
        result: T = self._result(reading)
        return result

    def soon(self, key: Hashable, read: Callable[[], T], *, fresh_s: float = FRESH_S) -> T | None:
        """Return as `get` does what can be read at once, else nothing; nobody waits for the rest."""
        reading, under_way = self._begun(key, read, fresh_s)
        if under_way is not None and not under_way.wait(self._patience_s):
            return None
        result: T = self._result(reading)
        return result

    def forget(self) -> None:
        """Let whatever is asked next be read anew: somebody has just changed the cluster."""
        with self._lock:
            self._readings.clear()

    def _begun(
        self, key: Hashable, read: Callable[[], object], fresh_s: float
    ) -> tuple[_Reading, threading.Event | None]:
        """Return what is known, and what to wait for if that is not fresh."""
        with self._lock:
            reading = self._readings.pop(key, None) or _Reading()
            self._readings[key] = reading
            while len(self._readings) > MAX_KEPT:
                del self._readings[next(iter(self._readings))]
            if reading.under_way is None and self._clock() - reading.at_s > fresh_s:
                reading.under_way = threading.Event()
                threading.Thread(target=self._read, args=(reading, read, reading.under_way), daemon=True).start()
            return reading, reading.under_way

    def _read(self, reading: _Reading, read: Callable[[], object], under_way: threading.Event) -> None:
        value, error = None, None
        try:
            value = read()
        except BaseException as raised:  # noqa: BLE001 - it is raised where somebody waits for the value
            error = raised
        with self._lock:
            reading.value, reading.error, reading.at_s = value, error, self._clock()
            reading.is_known = error is None
            reading.under_way = None
        under_way.set()

    def _result(self, reading: _Reading) -> Any:
        with self._lock:
            value, error = reading.value, reading.error
        if error is not None:
            raise error
        return value
