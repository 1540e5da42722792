"""The items of a crawl on their way to one sink: those of a stream, and those of a list as scrapy-redis keeps them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from toolkit.model.crawls import ItemsKind
from toolkit.model.errors import NotFoundError, UsageError
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Behind, Item
from toolkit.store.crawl_keys import default_keys
from toolkit.store.interfaces_crawls import HOLD_S, KEPT_HOLD_S, Crawls
from toolkit.store.interfaces_foreign import Foreign, ListedItems

FIRST = "0-0"
"""The place before all items of a stream."""
NOTE_EVERY_S = 60.0
"""So often a drain that waits for items says that its sink is still there."""


class Source(Protocol):
    """A crawl's items on their way to one sink."""

    @property
    def name(self) -> str:
        """Crawl and Redis."""

    @property
    def crawl(self) -> CrawlId:
        """The crawl."""

    @property
    def key(self) -> str:
        """The items' key in Redis."""

    @property
    def has_repeated(self) -> bool:
        """Redis did not know all that the sink has, and some items come again."""

    @property
    def behind(self) -> tuple[Behind, ...]:
        """The other sinks that had less at the last step, and all for which items were not held any more."""

    def begin(self, sink: str, known: str) -> None:
        """Go on after what the sink of this identity has: `known` is the mark of its last item, if it knows one."""

    def following(self, limit: int) -> Sequence[Item]:
        """Return the next items; none where there are no more now."""

    def finish(self, items: Sequence[Item]) -> None:
        """Let go of the items, which the sink has."""


class StreamSource:
    """The items of a stream; they are dropped when every sink that waits for them has them, unless one `keeps` them."""

    def __init__(
        self,
        crawls: Crawls,
        crawl: CrawlId,
        key: str,
        *,
        redis: str,
        keeps: bool = False,
        again: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"{redis} {crawl}"
        self.crawl = crawl
        self.key = key
        self.has_repeated = False
        self.behind: tuple[Behind, ...] = ()
        self._crawls = crawls
        self._keeps = keeps
        self._again = again
        self._clock = clock
        self._sink = ""
        self._after = self._key = ""
        self._noted_at = 0.0

    def begin(self, sink: str, known: str) -> None:
        """Go on after the last item that the sink has; with `again`, at the first that is still there.

        A sink that knows its last item by itself is not given items again, except for those that came after what Redis
        remembers where Redis has lost that last item.
        """
        self._sink = sink
        last, _, key = known.partition(" ")
        begins_anew, self._again = self._again and not last, False
        # A drain that was ended between writing and saying so has left the sink with more than Redis remembers.
        self._note(through=FIRST if begins_anew else last, key=key)

    def following(self, limit: int) -> Sequence[Item]:
        """Return the items after the last that was finished."""
        found = self._crawls.items(self.crawl, after=self._after, limit=limit)
        while self._crawls.drained(self.crawl, self._sink) != self._after:
            # Redis went back to an older state unseen: before what was read now may lie what was not.
            self._note_again()
            found = self._crawls.items(self.crawl, after=self._after, limit=limit)
        if not found:
            self._crawls.deliver(self.crawl)
        if not found and self._clock() - self._noted_at >= NOTE_EVERY_S:
            # Items stay held for a sink that has read all while nothing comes.
            self._note_again()
        return [Item(place, key, body) for place, key, body in found]

    def finish(self, items: Sequence[Item]) -> None:
        """Remember the last one, and drop all through it that no other sink waits for."""
        self._note(through=items[-1].id, key=items[-1].key, after=self._after)

    def _note_again(self) -> None:
        self._note(through=self._after if self._key else "", key=self._key)

    def _note(self, *, through: str, key: str, after: str = "") -> None:
        hold_s = KEPT_HOLD_S if self._keeps else HOLD_S
        noted = self._crawls.drop_items(
            self.crawl, self._sink, through=through, key=key, after=after, keep=self._keeps, hold_s=hold_s
        )
        self.has_repeated = self.has_repeated or noted.repeats
        self.behind = (*(each for each in self.behind if each.held_until is None), *noted.behind)
        self._after, self._key = noted.last, key if noted.last == through else ""
        self._noted_at = self._clock()


def open_source(
    crawls: Crawls, foreign: Foreign, crawl: CrawlId, *, keeps: bool = False, again: bool = False, waits: bool = False
) -> Source:
    """Return the items of a crawl, which may be over and forgotten; one that `waits` may have none yet.

    Raises:
        NotFoundError: no such crawl, and no items of it.
        UsageError: items of a list shall be kept, or come again.

    """
    crawls.deliver(crawl)
    plan = crawls.plan(crawl)
    key = plan.keys.items if plan is not None else default_keys(crawl).items
    kind = foreign.kind(key)
    is_list = kind == "list" or (kind == "none" and foreign.list_waits(key))
    if is_list or (kind == "none" and plan is not None and plan.items is ItemsKind.LIST):
        if keeps or again:
            raise UsageError(
                f"{key} is a list, whose items have no place of their own: they go when they are drained",
                hint="drain it without --keep and --again; StreamPipeline writes items that can be kept",
            )
        return ListSource(foreign, key, crawl)
    if plan is None and kind == "none" and not waits:
        raise NotFoundError(f"no crawl {crawl} is known, and there are no items at {key}", hint="crawlctl crawls list")
    return StreamSource(crawls, crawl, key, redis=foreign.place, keeps=keeps, again=again)


def count_items(crawls: Crawls, foreign: Foreign, crawl: CrawlId) -> int:
    """Return how many items wait to be drained; raises as `open_source`."""
    key = open_source(crawls, foreign, crawl).key
    return foreign.list_waits(key) or foreign.length(key)


def first_items(crawls: Crawls, foreign: Foreign, crawl: CrawlId, *, limit: int) -> Sequence[Item]:
    """Return the first items that wait to be drained, those of a list without keys; raises as `open_source`."""
    source = open_source(crawls, foreign, crawl)
    if isinstance(source, ListSource):
        return [Item("", "", body) for body in foreign.peek_items(source.key, limit=limit)]
    return [Item(place, key, body) for place, key, body in crawls.items(crawl, after="", limit=limit)]


class ListSource:
    """The items of a list, which have no keys of their own.

    The list is set aside whole under a token, so that token and number name an item as long as it is there. Whoever
    pops from the list meanwhile finds what has come since.
    """

    has_repeated = False
    behind = ()

    def __init__(self, foreign: Foreign, key: str, crawl: CrawlId) -> None:
        self.name = f"{foreign.place} {crawl}"
        self.crawl = crawl
        self._foreign = foreign
        self.key = key

    def begin(self, sink: str, known: str) -> None:  # noqa: ARG002 - a list is drained by whoever comes
        """Drop what the sink has, of which Redis was not told."""
        self._list(known.partition(" ")[0], limit=0)

    def following(self, limit: int) -> Sequence[Item]:
        """Return the first items that are there."""
        found = self._list("", limit=limit)
        keys = (f"{found.token}-{number}" for number in range(found.first, found.first + len(found.bodies)))
        return [Item(key, key, body) for key, body in zip(keys, found.bodies, strict=True)]

    def finish(self, items: Sequence[Item]) -> None:
        """Drop the items."""
        self._list(items[-1].id, limit=0)

    def _list(self, finished: str, *, limit: int) -> ListedItems:
        token, _, number = finished.rpartition("-")
        is_place = token != "" and number.isdecimal()
        return self._foreign.list_items(
            self.key, token=token if is_place else "", finished=int(number) if is_place else -1, limit=limit
        )
