"""What the shared store promises of jobs' logs that nodes have shipped: where they lie, and in Redis also the bytes.

As in `interfaces_watch.py`: one atomic step each, `StoreUnreachableError` from every one, any thread but a reactor's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from toolkit.model.names import JobId
from toolkit.model.shipped import LogPart, Shipment, ShippedLog


class Laid(StrEnum):
    """What became of a shipment."""

    DONE = "done"
    OTHER = "other"
    """What lies there is not what its bringer believes: he reads it again."""
    FULL = "full"
    """There is no room, and no log of an ended job is left to make some."""


@dataclass(frozen=True, slots=True)
class LogTerms:
    """How long a log is kept after its last shipment, and how many bytes the parts of all logs may take in Redis."""

    keep_s: float
    max_total_bytes: int


class ShippedLogs(Protocol):
    """The logs of jobs that their nodes have shipped, of each node that ran a job its own."""

    def of_job(self, job_id: JobId) -> Sequence[ShippedLog]:
        """Return what was shipped of a job, wherever it lies; the node that wrote last comes last."""

    def lay(
        self, job_id: JobId, log: ShippedLog, *, terms: LogTerms, shipment: Shipment | None = None, content: bytes = b""
    ) -> Laid:
        """Put `log` in the place of what is known of it under the revision before; with it the part of a shipment.

        Nothing is changed unless the answer is `DONE`, so that no byte is there twice and none is skipped, whoever
        crashed in between. Where there is no room, the oldest logs of ended jobs go first.
        """

    def read(self, job_id: JobId, log: ShippedLog, part: LogPart) -> bytes | None:
        """Return a part that lies in Redis; `None` when it lies there no more.

        Raises:
            StoreUnreadableError: it is not what its length says.

        """

    def drop_old(self, *, keep_s: float) -> int:
        """Take away the logs of which nothing was shipped for so long; return how many. Idempotent."""
