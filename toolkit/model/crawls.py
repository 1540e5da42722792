"""The nouns of a crawl: what its workers hand to Redis and get back, and what an operator sees of it.

The commit is the one write of a worker (`Commit`), its answer the one read (`Answer`). Entries are named by eight bytes
that Redis gives out and never gives out again; nothing else of an entry is looked at on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from toolkit.model.names import CrawlId, WorkerName, crawl_of_digest

EntryId = NewType("EntryId", bytes)
"""Eight bytes, big-endian: the order in which entries came."""

DEFAULT_WORKER_LEASE_S = 30.0
"""How long a worker may be silent before what it holds goes back to the frontier."""

MAX_DELIVERIES = 5
"""A request that was in the hands of so many workers when they died goes to the dead list, unless set otherwise."""

SUSPECT_AFTER = 2
"""From so many deaths on, a request runs alone: the worker that has it holds nothing else."""

MAX_PUSHES = 500
"""How many pushes, endings or items one commit carries at most, so that no other worker waits longer than some ms."""


class QueueOrder(StrEnum):
    """In which order entries are taken; a crawl keeps the one it began with."""

    PRIORITY = "priority"
    """The greatest priority first, and of the same the one that came first."""
    FIFO = "fifo"
    LIFO = "lifo"


class SeenKind(StrEnum):
    """How the fingerprints of what was accepted are kept."""

    PACKED = "packed"
    """In sets of integers, 73 bits of each: about 9 bytes a URL."""
    SET = "set"
    """In one set of hexadecimal texts, as scrapy-redis does: about 84 bytes a URL."""
    BLOOM = "bloom"
    """In bitmaps that grow: about 6 bytes a URL, and one of a million may wrongly count as seen."""


class SeedsKind(StrEnum):
    """The type of the key that seeds are pushed to (`REDIS_START_URLS_AS_SET`, `REDIS_START_URLS_AS_ZSET`)."""

    LIST = "list"
    SET = "set"
    ZSET = "zset"


class ItemsKind(StrEnum):
    """The type of the key that items go to."""

    STREAM = "stream"
    """Each with a key of its own, `<entry>-<number>`, that tells a drain whether it has it already."""
    LIST = "list"
    """As scrapy-redis does, the item alone."""
    NONE = "none"
    """No items go through the frontier: whatever lies under their key is somebody else's."""


@dataclass(frozen=True, slots=True)
class CrawlKeys:
    """The names in Redis under which scrapy-redis' users know a crawl; all others are made of `requests`."""

    requests: str
    seen: str
    seeds: str
    items: str


@dataclass(frozen=True, slots=True)
class DomainLimit:
    """The budget of one domain, or of each that has none of its own (`*`), over all workers of a crawl."""

    domain: str
    per_second: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """What a worker knows of its crawl before it has asked Redis; all workers of a crawl must bring the same."""

    crawl: CrawlId
    spider: str
    project: str
    keys: CrawlKeys
    order: QueueOrder = QueueOrder.PRIORITY
    seen: SeenKind = SeenKind.PACKED
    bloom_error: float = 1e-6
    """The share of new URLs that a Bloom filter may wrongly take for seen ones."""
    seeds: SeedsKind = SeedsKind.LIST
    items: ItemsKind = ItemsKind.STREAM
    fingerprints: str = "scrapy"
    """Who made the fingerprints of the seen set: `scrapy`, `scrapy-redis`, or a fingerprinter's import path."""
    persists: bool = False
    """Whether the frontier is kept when the crawl is over (`SCHEDULER_PERSIST`)."""
    max_deliveries: int = MAX_DELIVERIES
    run: str = ""
    """What the jobs that were scheduled together share: one that comes when its crawl is over has nothing to do."""
    limits: tuple[DomainLimit, ...] = ()
    """The domains' budgets that a crawl without any begins with."""
    bot: str = ""
    """`BOT_NAME` of a worker whose project a node names; empty where there is no node, and `project` is that name."""
    digest: str = ""
    """What tells the spider's arguments from others (`digest_of`); empty where they are not known."""
    arguments: str = ""
    """The arguments for people (`shown_arguments`)."""
    is_named: bool = False
    """The worker was told which crawl to join, so it joins whatever the crawl's project and arguments are."""

    @property
    def is_called_by_arguments(self) -> bool:
        """Nobody chose the crawl's id: it was made of the spider's arguments, and each set of them makes another."""
        return bool(self.digest) and self.crawl == crawl_of_digest(self.spider, self.digest)


class Filter(StrEnum):
    """What the seen set has to do with a new entry."""

    SEEN = "f"
    """Dropped when it was seen; seen from now on."""
    START = "s"
    """From `start()`: dropped when `start()` has brought it before in this crawl; seen from now on."""
    REMEMBER = "k"
    """Never dropped; seen from now on: seeds."""
    NONE = "n"
    """Neither: `dont_filter`."""


@dataclass(frozen=True, slots=True)
class Push:
    """A new entry; `fingerprint` is 20 bytes, or empty with `Filter.NONE`."""

    body: bytes
    priority: int = 0
    fingerprint: bytes = b""
    filter: Filter = Filter.NONE


class Disposition(StrEnum):
    """What becomes of an entry that its worker lets go of."""

    ACKNOWLEDGED = "a"
    """Scrapy has finished with it; its items are delivered."""
    BACK = "b"
    """Unused: back to its old place, as if it had never been taken."""
    DEAD = "x"
    """It cannot be worked on: to the dead list, with a reason."""
    BLOCKED = "k"
    """Its domain or pattern is blocked: aside, until that is lifted."""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of one entry in a worker's hands; `items` go with an acknowledgement, `why` with a dead one."""

    entry: EntryId
    disposition: Disposition = Disposition.ACKNOWLEDGED
    items: tuple[bytes, ...] = ()
    why: str = ""
    ahead: int = 0
    """How many items of its page went before, in `Ahead`; all of them are delivered, or the page is done again."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Items of a page that has not ended: they wait in Redis, and are delivered once it is acknowledged."""

    entry: EntryId
    items: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """The worker's one atomic write. Carried out whole, or not at all.

    `pushes` are carried out before `ahead`, and both before `done`. Whoever sends a part of what was collected takes it
    from the front: the end of a page goes with or after all that the page brought.
    """

    worker: WorkerName
    token: int
    number: int
    """1 for the worker's first since it joined, then one more each time; the same again when no answer came."""
    ttl_s: float = DEFAULT_WORKER_LEASE_S
    want: int = 0
    """How many entries to lease."""
    pushes: tuple[Push, ...] = ()
    done: tuple[Done, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    loose_items: tuple[bytes, ...] = ()
    """Items that no page brought: from `start()`."""
    limits: tuple[DomainLimit, ...] = ()
    """Budgets that the worker learned, from robots.txt; each counts where the domain has none of its own."""
    controls_seen: int = 0
    """The version of the controls that the worker obeys."""
    has_more: bool = False
    """The worker holds back more of what it has collected: the crawl is not over."""
    start_is_done: bool = False
    """The worker has run `start()` to its end; said in every commit from then on, heard where it has that part."""


class Verdict(StrEnum):
    """What became of a commit."""

    DONE = "done"
    REPEATED = "repeated"
    """It had been carried out before, and its answer was lost: ask `held` what it leased."""
    LAPSED = "lapsed"
    """The worker's lease was over and all it held went back: nothing was carried out; join again, under a new token."""
    ROLLED_BACK = "rolled_back"
    """Redis has come back older than the worker: nothing was carried out; `known` says which commit it remembers."""


@dataclass(frozen=True, slots=True)
class Leased:
    """One entry in a worker's hands. `score` is its place in the queue, as Redis writes it."""

    entry: EntryId
    body: bytes
    is_seed: bool = False
    """The body is a seed as it was pushed, not a request."""
    deaths: int = 0
    """How many workers have died with it."""
    score: str = "0"


@dataclass(frozen=True, slots=True)
class Controls:
    """What the operator wishes of all workers; `None` leaves as it is. Live: it travels with the next answer."""

    version: int = 0
    is_paused: bool = False
    concurrency: int | None = None
    delay_s: float | None = None
    blocks: tuple[str, ...] = ()
    """Blocked domains (`example.com`, its subdomains too) and patterns for whole URLs (`*/calendar/*`)."""


class StartRole(StrEnum):
    """Whether a worker runs the spider's `start()`: of each crawl's workers exactly one does."""

    YOURS = "yours"
    WAIT = "wait"
    """Another does; it may still die."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Answer:
    """What Redis answers to a commit."""

    verdict: Verdict
    leased: tuple[Leased, ...] = ()
    duplicates: tuple[int, ...] = ()
    """Which of the commit's pushes, counted from 0, were dropped because they were seen."""
    refused: int = 0
    """How many endings named an entry that was not in the worker's hands; their items were not delivered."""
    pending: int = 0
    workers: int = 1
    start: StartRole = StartRole.DONE
    controls: Controls | None = None
    """Only when they are not those that the commit said it has seen."""
    again_s: float | None = None
    """When the next entry that waits for its domain's turn may be leased; `None` when none waits."""
    is_hungry: bool = False
    """Siblings wait for entries: what this worker finds should not wait with it."""
    is_over: bool = False
    """Nothing is pending, nothing is in flight, no seeds wait, and no worker holds anything back."""
    idle_s: float = 0.0
    """How long the crawl as a whole has had nothing to do."""
    known: int = 0
    """With `LAPSED` and `ROLLED_BACK`: the number of the last commit that Redis remembers, -1 when it knows nothing of
    the worker; else the number of this commit."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The worker's standing after it joined."""

    token: int
    pending: int
    """What was there already: more than nothing means that a crawl is resumed."""
    start: StartRole
    controls: Controls
    is_first: bool = False
    """No other worker was alive."""
    is_over: bool = False
    """The run that the plan names is over already: there is nothing to do, and nothing was changed."""
    again_s: float | None = None
    """Others may still work on the crawl that this worker would begin anew: it did not join, and asks again then."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An entry that a worker had leased before Redis came back older, and keeps; `fingerprint` may be empty."""

    leased: Leased
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker as the frontier knows it."""

    name: WorkerName
    in_flight: int
    committed_at: datetime | None
    lease_left_s: float
    """Negative when it has lapsed, and nobody has come yet to take back what the worker held."""
    pages: int = 0
    """How many entries it has acknowledged."""
    is_starting: bool = False
    oldest: EntryView | None = None
    """Of the entries in its hands the one that it has had for longest; `None` where nobody looked."""


@dataclass(frozen=True, slots=True)
class CrawlView:
    """One crawl, read at one moment."""

    plan: CrawlPlan
    now: datetime
    created_at: datetime | None = None
    pending: int = 0
    """Entries that wait, suspects and those of limited domains included; seeds not."""
    in_flight: int = 0
    suspects: int = 0
    dead: int = 0
    blocked: int = 0
    seeds: int = 0
    seen: int = 0
    expected_loss: float = 0.0
    """How many URLs a Bloom filter has wrongly taken for seen, by its arithmetic."""
    items_waiting: int = 0
    """How many items are in the stream or list now."""
    pages: int = 0
    """Entries acknowledged since the crawl began."""
    items: int = 0
    """Items delivered since the crawl began."""
    duplicates: int = 0
    pages_per_minute: float | None = None
    items_per_minute: float | None = None
    oldest_at: datetime | None = None
    """When the oldest pending entry came, of those that were looked at."""
    workers: tuple[WorkerView, ...] = ()
    controls: Controls = Controls()
    limits: tuple[DomainLimit, ...] = ()
    domains: Mapping[str, int] = field(default_factory=dict)
    """Pending entries by domain: exact for limited domains; of the others, a count within a sample."""
    is_over: bool = False
    needs_migration: str | None = None
    """Why what is there cannot be worked on, such as entries of scrapy-redis; `None` when it can."""

    def held_for(self, seconds: float) -> EntryView | None:
        """Return the entry that a live worker has had in hand for longest, if that is longer than so many seconds."""
        oldest = [each.oldest for each in self.workers if each.oldest is not None and each.lease_left_s > 0]
        held = [(each.taken_at, each) for each in oldest if each.taken_at is not None]
        at, entry = min(held, key=lambda pair: pair[0], default=(self.now, None))
        return entry if (self.now - at).total_seconds() > seconds else None


@dataclass(frozen=True, slots=True)
class CrawlEnd:
    """A crawl was over: nothing was left to do, and its last worker had gone.

    `key` rises with the ends; `pages` and `items` count what was fetched and delivered since the crawl began.
    """

    key: str
    crawl: CrawlId
    worker: WorkerName
    at: datetime
    pages: int = 0
    items: int = 0


class Shelf(StrEnum):
    """Where entries of a crawl can be."""

    PENDING = "pending"
    IN_FLIGHT = "in-flight"
    SUSPECT = "suspect"
    DEAD = "dead"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class EntryView:
    """One entry as an operator peeks at it; the body as it is in Redis (`store/wire_requests.py` reads it)."""

    leased: Leased
    shelf: Shelf
    came_at: datetime
    worker: WorkerName | None = None
    why: str = ""
    taken_at: datetime | None = None
    """Since when it is in that worker's hands; after Redis went back to an older state, since then."""
