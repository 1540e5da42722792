"""What a worker's exchange with the frontier needs of the crawl that it works for; the scheduler gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolkit.model.crawls import Controls
from toolkit.spider.leases import Lease
from toolkit.spider.outbox import Batch


class Side(Protocol):
    """What the exchange needs of the crawl it works for."""

    def free(self) -> int:
        """Return how many more requests the engine would take."""

    def is_taking(self) -> bool:
        """Tell whether the worker wants entries: it is neither paused nor closing."""

    def is_wanted(self) -> bool:
        """Tell whether the crawl still waits to begin."""

    def receive(self, leases: Sequence[Lease]) -> None:
        """Take what was leased."""

    def obey(self, controls: Controls) -> None:
        """Make the operator's wishes so."""

    def confirm(self, batch: Batch, duplicates: Sequence[int]) -> None:
        """Hear that Redis has what a batch brought, except for the pushes of these numbers, which it had before."""

    def forget(self) -> None:
        """Hear that Redis may have forgotten what it had."""

    def fingerprint(self, lease: Lease) -> bytes:
        """Return the fingerprint of an entry's request; empty when it has none."""

    def heed(self) -> None:
        """Hear that an answer has been dealt with; the exchange says what came of it."""

    def start_is_lost(self) -> None:
        """Hear that what `start()` has brought may be lost: whoever has that part runs it again."""

    def count(self, name: str, number: int = 1) -> None:
        """Add to a statistic."""

    def end(self) -> None:
        """Hear that the crawl has ended without this worker: nothing that comes of it is wanted any more."""

    def fail(self, error: Exception) -> None:
        """Hear that the frontier cannot be used any more."""
