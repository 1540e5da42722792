"""What the frontier promises, to the workers of a crawl and to its operators; `redis_frontier.py` and others keep it.

As in `interfaces.py`: every operation is one atomic step, decided inside Redis by Redis' own clock, and may raise
`StoreUnreachableError`. Any thread may call; nothing here may be called from Scrapy's reactor thread, since it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from toolkit.model.crawls import (
    Answer,
    Commit,
    Controls,
    CrawlEnd,
    CrawlPlan,
    CrawlView,
    DomainLimit,
    EntryId,
    EntryView,
    Joined,
    Push,
    Shelf,
    Taken,
)
from toolkit.model.names import CrawlId, WorkerName
from toolkit.model.transfers import Noted

HOLD_S = 600.0
"""For so long after its last step a drain holds what its sink has not read."""
KEPT_HOLD_S = 3 * 86_400.0
"""The same of a drain that keeps the items: long enough for one that runs once a day, over a weekend."""


class Frontier(Protocol):
    """One crawl as its workers use it."""

    def join(self, worker: WorkerName, *, ttl_s: float, flush: bool = False, is_new_life: bool = True) -> Joined:
        """Take part in the crawl, under a lease of `ttl_s` seconds and a token greater than any before it.

        With `flush` a worker that finds no other alive begins with an empty frontier and seen set, also in the place of
        scrapy-redis'; seeds stay. Where nobody was heard for a third of a lease, as after an absence of Redis, those
        who were there before have a full term to come back: until then nothing is begun anew, and the worker is told
        to ask again (`again_s`). A worker that joins again after `LAPSED` says `is_new_life=False`: it brings back
        nothing and runs no `start()` anew unless the part is free; where its crawl has ended and was cleared meanwhile,
        it is told so (`is_over`).

        Raises:
            RefusedError: what is in Redis under these names is of another kind (entries of scrapy-redis, another order,
                another kind of seen set, other fingerprints, another spider); nothing was changed.

        """

    def commit(self, commit: Commit) -> Answer:
        """Carry out a worker's commit whole, once however often it is sent, and lease its next entries.

        Pushes: what was seen is dropped, the rest is pending. Endings: each entry leaves the worker's hands; the items
        of an acknowledged one are delivered if it was still in them, else not. The lease is renewed. What workers held
        whose lease has lapsed goes back to its place, with one more death; of one that a node minds the node says so
        (`Crawls.release`), and its silence counts only while others are heard. From the second on it is a suspect, runs
        alone, and at `max_deliveries` it goes to the dead list. Leased is at most a fair share of what is pending,
        nothing while the crawl is paused, and of a domain only what its budget over all workers allows.
        """

    def renew(self, worker: WorkerName, token: int, *, ttl_s: float) -> bool:
        """Keep the lease without a commit; `False` when it has lapsed. For a worker whose reactor is busy."""

    def is_kept(self, worker: WorkerName, token: int, *, ttl_s: float) -> bool:
        """Keep the lease, and tell whether a replica has all that the worker sent; `True` where there is none.

        Waits 0.25 s at most; a Redis that had replicas counts as one without when none has acknowledged for 15 s.
        """

    def held(self, worker: WorkerName, token: int) -> Sequence[EntryId]:
        """Return the entries that are in the worker's hands as Redis knows it; none under an old token."""

    def rejoin(self, worker: WorkerName, token: int, *, number: int, ttl_s: float, taken: Sequence[Taken]) -> int:
        """After `ROLLED_BACK`: go on under a new token, and keep entries that the older Redis has elsewhere or not.

        Each of `taken` is in the worker's hands afterwards, unless another holds it by now, or whoever pushed it will
        push it again; ask `held`. Its fingerprint is in the seen set. `number` is that of the last commit before; the
        next has one more. Return the new token.
        """

    def leave(self, worker: WorkerName, token: int, *, is_finished: bool = False) -> bool:
        """Take no more part; what the worker still held goes back to its place, with no death counted.

        The last worker to leave a crawl that is over, with `is_finished`, clears it unless the plan persists; `True`
        when it did. A worker whose lease has lapsed leaves all the same.
        """

    def close(self) -> None:
        """Let go of the connections."""


class Crawls(Protocol):
    """All crawls of a Redis, as operators and nodes use them. A crawl is known once a worker has joined it."""

    def all(self) -> Sequence[CrawlPlan]:
        """Return every crawl that was ever joined and not cleared away, sorted by id."""

    def plan(self, crawl: CrawlId) -> CrawlPlan | None:
        """Return what the crawl's workers brought."""

    def paused(self, among: Collection[CrawlId]) -> frozenset[CrawlId]:
        """Return those of the named crawls that are paused."""

    def view(self, crawl: CrawlId) -> CrawlView | None:
        """Return all that is known of one crawl at this moment; `None` when no worker ever joined it."""

    def views(self) -> Sequence[CrawlView]:
        """Return what `view` does of every crawl, sorted by id, in a few round trips however many there are.

        The more there are, the fewer entries of each are looked at for its domains and its oldest entry; of more than
        twenty, none in the hands of workers.
        """

    def seed(self, crawl: CrawlId, seeds: Iterable[bytes]) -> int:
        """Push seeds to the crawl's key of seeds, of its type (a list unless a worker said otherwise).

        Return how many it took. They go in parts of 1,000: when it raises, some may be in; the message says how many.
        A crawl that no worker has joined yet gets them at `<crawl>:start_urls`.
        """

    def control(
        self,
        crawl: CrawlId,
        *,
        is_paused: bool | None = None,
        concurrency: int | None = None,
        delay_s: float | None = None,
    ) -> Controls:
        """Change what is given, and return all; a negative number puts concurrency or delay back to the spider's own.

        Raises:
            NotFoundError: no such crawl.

        """

    def block(self, crawl: CrawlId, patterns: Sequence[str]) -> Controls:
        """Let no worker take entries of these domains or patterns any more.

        Raises:
            NotFoundError: no such crawl.

        """

    def unblock(self, crawl: CrawlId, patterns: Sequence[str]) -> int:
        """Lift blocks, and put all entries aside back into the queue; those still blocked go aside again.

        Return how many went back.
        """

    def limit(self, crawl: CrawlId, limit: DomainLimit) -> Sequence[DomainLimit]:
        """Set the budget of a domain, or of each that has none of its own (`*`); one without numbers is taken away.

        Return all budgets. Raises `NotFoundError` when there is no such crawl.
        """

    def peek(self, crawl: CrawlId, shelf: Shelf, *, limit: int) -> Sequence[EntryView]:
        """Return the first entries of a shelf, those next to be taken first; nothing is changed.

        Raises:
            NotFoundError: no such crawl.

        """

    def requeue(self, crawl: CrawlId, entries: Sequence[EntryId] | None = None) -> int:
        """Put entries of the dead list back into the queue with no death counted (`None`: all); return how many."""

    def clear(self, crawl: CrawlId, *, force: bool = False, keep_seen: bool = False, keep_items: bool = True) -> None:
        """Remove the crawl's entries, seeds, seen set, and all else that is known of it.

        Workers that live although it was forced find their lease over; what they hold is dropped.

        Raises:
            RefusedError: workers live, and it was not forced.

        """

    def forget_runs(self, runs: Collection[str]) -> None:
        """Forget that these runs were over, whatever their crawls: who belongs to one has all to do again."""

    def deliver(self, crawl: CrawlId) -> None:
        """Deliver the items that still wait for it, since their pages brought very many; workers do it as they go."""

    def release(self, worker: WorkerName, *, has_died: bool) -> bool:
        """Say that a worker is gone or lost: what it held goes back at once. `False` when nobody knows it. Idempotent.

        With `has_died` its process is known to have died by itself, and its death counts for what it held.
        """

    def forget_some(self, *, kept_s: float) -> int:
        """Forget crawls that were called by their arguments, `kept_s` after nothing was left of them; return how many.

        What may be left are entries, dead and blocked ones too, seeds, items, and what was seen if that is kept. Two
        hundred crawls are looked at, whichever: asked now and then, all of them in the end.
        """

    def ends(self, *, after: str | None) -> tuple[str, Sequence[CrawlEnd]]:
        """Return the ends of crawls after the one of this key, oldest first, and the key of what comes after them.

        With `None` nothing but that key: what ended before is not asked for. At most 1,000 a call; a week is kept.
        """

    def pushes(self, plan: CrawlPlan, pushes: Iterable[Push]) -> int:
        """Bring entries into a crawl from outside, in parts of 500, and register it; return how many were new."""

    def restore(self, plan: CrawlPlan, entries: Iterable[EntryView]) -> int:
        """Bring the entries of `entries` back onto the shelves where they were, in their order; return how many.

        What was in flight is pending. In parts of 500; registers the crawl like `pushes`.
        """

    def seeds(self, crawl: CrawlId) -> Iterator[tuple[bytes, float]]:
        """Return the seeds that wait, in the order of taking (of a set: any), with the score of those that have one."""

    def entries(self, crawl: CrawlId) -> Iterator[EntryView]:
        """Return every entry on every shelf, once each while no worker lives."""

    def seen(self, crawl: CrawlId) -> Iterator[bytes]:
        """Return the seen set as records of one kind, to be given to `remember` of a crawl of the same kind."""

    def remember(self, plan: CrawlPlan, records: Iterable[bytes], *, are_fingerprints: bool = False) -> int:
        """Add to the seen set of a crawl: records of `seen`, or fingerprints of 20 bytes each; return how many.

        Raises:
            RefusedError: the records are of another kind of seen set.

        """

    def drained(self, crawl: CrawlId, sink: str) -> str:
        """Return the id of the last item of the stream that a drain to this sink has finished with.

        Empty where no drain to it was ever begun, `0-0` where it has none.
        """

    def items(self, crawl: CrawlId, *, after: str, limit: int) -> Sequence[tuple[str, str, bytes]]:
        """Return items of the stream after one: its id, its key (`<entry>-<number>`), and the item (JSON)."""

    def drop_items(
        self,
        crawl: CrawlId,
        sink: str,
        *,
        through: str,
        key: str = "",
        after: str = "",
        keep: bool = False,
        hold_s: float = HOLD_S,
    ) -> Noted:
        """Note that a sink has the stream's items through this one; unless `keep`, drop what no sink waits for.

        For `hold_s` seconds from now on, no drain to another sink drops what this one has not read; nothing is dropped
        either that others have not read for which items are held.

        `through` is noted only if it is there, with this `key` if one is given, and if what was noted before is
        `after`, if that is given; else Redis went back to an older state, or somebody else drains to the same sink, and
        what was noted before stays. The drain then goes on after the `last` that is returned: nothing is passed over,
        and some items may come again. An empty `through` leaves what is noted; `0-0` begins with the first item.

        Works also while the memory of Redis is full. Safe to repeat.
        """

    def forget_sink(self, crawl: CrawlId, sink: str) -> None:
        """Hold no items for a sink any more, until a drain writes to it again.

        Raises:
            NotFoundError: no drain to such a sink was ever begun.

        """
