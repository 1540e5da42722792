"""Samples: what a job, or the whole cluster, had done by a moment; two of them give a rate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class JobSample:
    """What one job had done by then; `None` is not known.

    Counts only rise while an attempt lasts: a smaller one says that another attempt had begun, from nothing.
    """

    at: datetime
    pages: int | None = None
    items: int | None = None
    errors: int | None = None
    memory_mb: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The cluster at a moment: what the queue and the nodes were, and what all jobs did a second since the last."""

    at: datetime
    pending: int = 0
    active: int = 0
    nodes_live: int = 0
    slots: int = 0
    pages_per_s: float = 0.0
    items_per_s: float = 0.0
    errors_per_s: float = 0.0
