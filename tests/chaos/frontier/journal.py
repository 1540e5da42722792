"""Reads what the workers wrote of themselves: which pages they processed, and how they ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Ending:
    """A worker's own word on its end: Scrapy's finish reason."""

    worker: str
    reason: str
    at: float
    stats: Mapping[str, Any] = field(default_factory=dict)


class Journal:
    """The file that all workers append to, read further at each look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.processed: Counter[int] = Counter()
        self.endings: dict[str, Ending] = {}
        self.last_page_at = 0.0
        self._read_bytes = 0

    def look(self) -> None:
        """Read what has been written since the last look."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read_bytes)
            # What follows the last line's end is being written just now.
            whole, end, _ = file.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(end)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, told: Mapping[str, Any]) -> None:
        if "page" in told:
            self.processed[told["page"]] += 1
            self.last_page_at = max(self.last_page_at, told["at"])
        else:
            self.endings[told["worker"]] = Ending(told["worker"], told["reason"], told["at"], told["stats"])
