"""The shapes of what the HTTP API answers about crawls: exactly the rows of `views/contract_crawls.py`."""

from __future__ import annotations

from toolkit.cluster.crawls import CrawlState
from toolkit.model.jobs import JobState
from toolkit.web.shapes import Row


class CrawlRow(Row):
    """A crawl, as `crawlctl crawls list`."""

    id: str
    project: str
    spider: str
    arguments: str | None
    state: CrawlState
    pending: int
    in_flight: int
    seeds: int
    seen: int
    expected_loss: float
    pages: int
    items: int
    items_waiting: int
    duplicates: int
    pages_per_minute: float | None
    items_per_minute: float | None
    live_workers: int
    suspects: int
    dead: int
    blocked: int
    oldest_at: str | None
    created_at: str | None


class CrawlKeys(Row):
    """The names under which its Redis holds it."""

    requests: str
    seen: str
    seeds: str
    items: str


class ControlsRow(Row):
    """What is wished of all workers; null leaves it to the spider."""

    paused: bool
    concurrency: int | None
    delay_s: float | None
    blocks: list[str]


class LimitRow(Row):
    """The budget of a domain over all workers; `*` is each that has none of its own."""

    domain: str
    per_second: float | None
    concurrency: int | None


class HeldEntry(Row):
    """The entry that a worker has had in hand for longest; `url` is null where its body cannot be read."""

    id: str
    url: str | None
    taken_at: str | None


class WorkerRow(Row):
    """A worker; `job`, `node` and `state` are null where no job of the queue is behind it."""

    name: str
    job: str | None
    node: str | None
    state: JobState | None
    in_flight: int
    pages: int
    committed_at: str | None
    lease_left_s: float
    starting: bool
    oldest: HeldEntry | None


class Crawl(CrawlRow):
    """All that is known of a crawl, as `crawlctl crawls show`."""

    order: str
    seen_kind: str
    seeds_kind: str
    items_kind: str
    fingerprints: str
    persists: bool
    max_deliveries: int
    keys: CrawlKeys
    controls: ControlsRow
    limits: list[LimitRow]
    domains: dict[str, int]
    workers: list[WorkerRow]
    needs_migration: str | None


class Controls(ControlsRow):
    """What is wished of all workers of a crawl, as `crawlctl crawls tune`."""

    crawl: str


class Obeyed(Controls):
    """What was verified of a pause or a resume, as `crawlctl crawls pause`."""

    live_workers: int
    heard: int
    in_flight: int


class Counted(Row):
    """How many entries something was done to."""

    crawl: str
    action: str
    count: int | None
