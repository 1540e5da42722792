"""What a cluster counts and measures of itself: for those who graph it, and for those who judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.model.jobs import JobState
from toolkit.model.names import CrawlId, ProjectName
from toolkit.model.redis_health import RedisHealth
from toolkit.model.samples import ClusterSample

CLAIM_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""The upper bounds by which claims are counted; what took longer is counted beyond the last."""


@dataclass(frozen=True, slots=True)
class CrawlSizes:
    """How large one crawl is, and what it has done since it began; read without looking at a single entry."""

    crawl: CrawlId
    pending: int = 0
    in_flight: int = 0
    suspects: int = 0
    dead: int = 0
    blocked: int = 0
    seeds: int = 0
    seen: int = 0
    workers: int = 0
    """Those whose leases have not lapsed."""
    pages: int = 0
    items: int = 0
    duplicates: int = 0
    commits: int = 0
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Measures:
    """One reading. Counts only rise, unless Redis came back older; they begin when the cluster's first job does.

    `claims` are counted by the bound that each was the first within (`CLAIM_BOUNDS_S`; beyond all: `inf`): how long a
    job had waited, from when it might be taken until a node took it, `claims_waited_s` in all. `started` counts
    processes begun, so all attempts. `pages`, `items` and `errors` are those of all jobs ever, up to the last sample.
    `oldest_waiting_s` is the longest that a job has waited which is the next in its line; `None`: none waits.
    `crons_late` are those that should have fired more than a minute ago.
    """

    at: datetime
    claims: Mapping[float, int] = field(default_factory=dict)
    claims_waited_s: float = 0.0
    started: int = 0
    requeued: int = 0
    leases_lost: int = 0
    ended: Mapping[tuple[ProjectName, JobState], int] = field(default_factory=dict)
    pages: int = 0
    items: int = 0
    errors: int = 0
    oldest_waiting_s: float | None = None
    sample: ClusterSample | None = None
    crons: int = 0
    crons_late: int = 0
    next_cron_at: datetime | None = None
    crawls: tuple[CrawlSizes, ...] = ()
    redis: RedisHealth | None = None
