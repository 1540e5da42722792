"""What a worker has collected and not yet sent, in the order in which it came. Pure: knows no clock and no Redis.

A batch is always taken from the front, so an ending never travels before what its page brought.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scrapy import Request

from toolkit.model.crawls import MAX_PUSHES, Ahead, Done, Push
from toolkit.spider.leases import Lease

MAX_BYTES = 4 << 20
"""From so much on, a batch takes nothing more: bodies and items together."""


class StartEnd:
    """Stands in the outbox where `start()` came to its end."""


START_END = StartEnd()


class Collected(NamedTuple):
    """One thing collected: a push, an ending, an item that no page brought, or the end of `start()`.

    `page` is the lease whose page brought it, `request` what was pushed, where somebody wants to hear of duplicates.
    """

    what: Push | Done | Ahead | bytes | StartEnd
    page: Lease | None = None
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A prefix of what was collected, sorted as a commit wants it; `has_more` says whether something stayed behind."""

    collected: Sequence[Collected] = ()
    pushed: tuple[Collected, ...] = ()
    pushes: tuple[Push, ...] = ()
    done: tuple[Done, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    loose_items: tuple[bytes, ...] = ()
    has_start_end: bool = False
    has_more: bool = False


class Outbox:
    """Collects until it is taken. `max_size` counts pushes, endings and items; it is a mark, not a wall."""

    def __init__(self, *, max_size: int) -> None:
        self._max_size = max_size
        self._queue: deque[Collected] = deque()
        self.pushes = 0
        self.endings = 0
        self.items = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        """Whoever brings more should wait."""
        return self.pushes + self.endings + self.items >= self._max_size

    def push(self, push: Push, page: Lease | None, request: Request | None = None) -> None:
        """Collect a new entry."""
        self._queue.append(Collected(push, page, request))
        self.pushes += 1

    def end(self, lease: Lease | None, done: Done) -> None:
        """Collect the end of an entry, after what its page has kept for it."""
        if lease is not None:
            for push, request in lease.pushes:
                self.push(push, lease, request)
            lease.pushes.clear()
        self._queue.append(Collected(done, lease))
        self.endings += 1
        self.items += len(done.items)

    def go_ahead(self, lease: Lease) -> None:
        """Collect the items that a page has brought so far, ahead of its end."""
        items = lease.take_items()
        lease.ahead += len(items)
        self._queue.append(Collected(Ahead(lease.entry, items), lease))
        self.items += len(items)

    def item(self, item: bytes) -> None:
        """Collect an item that no page brought."""
        self._queue.append(Collected(item))
        self.items += 1

    def end_start(self) -> None:
        """Collect that `start()` has come to its end."""
        self._queue.append(Collected(START_END))

    def drop_start_end(self) -> None:
        """Take back that `start()` has come to its end."""
        self._queue = deque(thing for thing in self._queue if thing.what is not START_END)

    def take(self, limit: int = MAX_PUSHES) -> Batch:
        """Return what is at the front and hold it no longer: at most `limit` of each kind, but at least one thing."""
        queue = self._queue
        collected: list[Collected] = []
        pushed: list[Collected] = []
        done: list[Done] = []
        ahead: list[Ahead] = []
        loose: list[bytes] = []
        items = size = 0
        while queue:
            what = queue[0].what
            is_over = False
            if isinstance(what, Push):
                size += len(what.body)
                is_over = len(pushed) >= limit
            elif isinstance(what, Done | Ahead):
                items += len(what.items)
                size += sum(map(len, what.items))
                is_over = items > limit or len(done) >= limit
            elif isinstance(what, bytes):
                items += 1
                size += len(what)
                is_over = items > limit
            if collected and (is_over or size > MAX_BYTES):
                break
            thing = queue.popleft()
            collected.append(thing)
            if isinstance(what, Push):
                pushed.append(thing)
            elif isinstance(what, Done):
                done.append(what)
            elif isinstance(what, Ahead):
                ahead.append(what)
            elif isinstance(what, bytes):
                loose.append(what)
        self._count(collected, -1)
        return Batch(
            collected=collected,
            pushed=tuple(pushed),
            pushes=tuple([thing.what for thing in pushed if isinstance(thing.what, Push)]),
            done=tuple(done),
            ahead=tuple(ahead),
            loose_items=tuple(loose),
            has_start_end=any(thing.what is START_END for thing in collected),
            has_more=bool(queue),
        )

    def put_back(self, collected: Sequence[Collected]) -> None:
        """Put things before all else, in their order."""
        self._queue.extendleft(reversed(collected))
        self._count(collected, 1)

    def pages(self) -> Iterator[Lease]:
        """Return the leases whose pages brought something that is not sent; one may come several times."""
        for thing in self._queue:
            if thing.page is not None:
                yield thing.page

    def ending(self) -> Iterator[Lease]:
        """Return the leases whose end is collected and not sent."""
        for thing in self._queue:
            if isinstance(thing.what, Done) and thing.page is not None:
                yield thing.page

    def void_pages(self) -> int:
        """Drop what void pages brought, and all ends of pages; keep what no page brought.

        Return how many things were dropped.
        """
        for lease in self.ending():
            lease.void()
        return self.drop_void()

    def drop_void(self) -> int:
        """Drop what void pages brought, their ends too; return how many things that were."""
        kept = [thing for thing in self._queue if thing.page is None or not thing.page.is_void]
        dropped = len(self._queue) - len(kept)
        self._queue = deque(kept)
        self.pushes = self.endings = self.items = 0
        self._count(kept, 1)
        return dropped

    def _count(self, collected: Iterable[Collected], sign: int) -> None:
        for thing in collected:
            what = thing.what
            if isinstance(what, Push):
                self.pushes += sign
            elif isinstance(what, Done | Ahead):
                self.endings += sign * isinstance(what, Done)
                self.items += sign * len(what.items)
            elif isinstance(what, bytes):
                self.items += sign
