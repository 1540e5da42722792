"""What a worker has in hand: entries that are ready for the engine, and those whose page is being worked on.

A page is known by the identity of its `Request` object, since retries and redirects copy everything else of a request.
Which page's code is running is told by a context variable, which tasks and coroutines take with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

from scrapy import Request

from toolkit.model.crawls import EntryId, Leased, Push

_OPEN, _ENDED, _VOID = range(3)


class Lease:
    """One entry in hand, and what its page has brought so far that goes only with its end.

    That is its items, and requests that nothing would filter: had they gone before, and the page were done again by
    another worker, they would be there twice.
    """

    __slots__ = ("_state", "ahead", "entry", "items", "items_bytes", "leased", "pushes", "request")

    def __init__(self, leased: Leased) -> None:
        self.leased = leased
        self.entry: EntryId = leased.entry
        self.items: list[bytes] = []
        self.items_bytes = 0
        self.ahead = 0
        """How many items went before the end of the page, since it brings very many."""
        self.pushes: list[tuple[Push, Request | None]] = []
        self.request: Request | None = None
        """The request, while its page is being worked on."""
        self._state = _OPEN

    @property
    def is_open(self) -> bool:
        """Its page may still bring something."""
        return self._state == _OPEN

    @property
    def is_void(self) -> bool:
        """It is no longer this worker's: what its page brings is for whoever does it again."""
        return self._state == _VOID

    def take_items(self) -> tuple[bytes, ...]:
        """Return the items that have not been sent, and hold them no longer."""
        items = tuple(self.items)
        self.items.clear()
        self.items_bytes = 0
        return items

    def end(self) -> None:
        """Let it bring nothing more."""
        if self._state == _OPEN:
            self._state = _ENDED

    def void(self) -> None:
        """Take it from this worker, and forget what it brought."""
        self._state = _VOID
        self.items.clear()
        self.pushes.clear()


PAGE: ContextVar[Lease | None] = ContextVar("PAGE", default=None)
"""The lease whose page the running code works on."""


class Leases:
    """Everything in hand that has not come to its end."""

    def __init__(self) -> None:
        self.ready: deque[Lease] = deque()
        self._working: dict[Request, Lease] = {}

    def __len__(self) -> int:
        return len(self.ready) + len(self._working)

    def __iter__(self) -> Iterator[Lease]:
        yield from self.ready
        yield from self._working.values()

    @property
    def gathered(self) -> int:
        """How many items and requests wait for the end of their pages."""
        return sum(len(lease.items) + len(lease.pushes) for lease in self._working.values())

    @property
    def working(self) -> int:
        """How many pages are being worked on."""
        return len(self._working)

    def begin(self, request: Request, lease: Lease) -> None:
        """Note that the engine works on the request from now on."""
        lease.request = request
        self._working[request] = lease

    def of(self, request: Request) -> Lease | None:
        """Return the lease of a request that is being worked on; `None` for one that the engine has from elsewhere."""
        return self._working.get(request)

    def end(self, request: Request) -> Lease | None:
        """Note that the engine has finished with the request, and return its lease unless it is void or was none."""
        lease = self._working.pop(request, None)
        if lease is None or lease.is_void:
            return None
        lease.request = None
        lease.end()
        return lease

    def take_ready(self) -> Sequence[Lease]:
        """Return all that is ready, and hold it no longer."""
        ready = tuple(self.ready)
        self.ready.clear()
        return ready

    def take_all(self) -> Sequence[Lease]:
        """Return all that is in hand and not void, and hold it no longer."""
        held = tuple(lease for lease in self if not lease.is_void)
        self.ready.clear()
        self._working.clear()
        return held

    def drop_void(self) -> None:
        """Hold nothing ready that is void."""
        self.ready = deque(lease for lease in self.ready if not lease.is_void)

    def void_all(self) -> int:
        """Give up all that is in hand; pages go on, and bring nothing. Return how many entries it was."""
        count = 0
        for lease in self:
            if not lease.is_void:
                lease.void()
                count += 1
        self.ready.clear()
        return count
