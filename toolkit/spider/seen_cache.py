"""Remembers fingerprints that Redis is known to have, so that a link on every page is asked for once. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class SeenCache:
    """At most `size` fingerprints, those met last; an older half is dropped at once when a newer one is full."""

    def __init__(self, size: int) -> None:
        self._half = size // 2
        self._newer: set[bytes] = set()
        self._older: set[bytes] = set()

    def __contains__(self, fingerprint: bytes) -> bool:
        if fingerprint in self._newer:
            return True
        if fingerprint in self._older:
            self.add((fingerprint,))
            return True
        return False

    def add(self, fingerprints: Iterable[bytes]) -> None:
        """Remember fingerprints."""
        if not self._half:
            return
        for fingerprint in fingerprints:
            self._newer.add(fingerprint)
            if len(self._newer) >= self._half:
                self._older, self._newer = self._newer, set()

    def clear(self) -> None:
        """Forget all: Redis may have forgotten some."""
        self._newer = set()
        self._older = set()
