"""The items of a crawl on their way to one sink: those of a stream, and those of a list as scrapy-redis keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolkit.model.crawls import ItemsKind
from toolkit.model.errors import NotFoundError, UsageError
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Item
from toolkit.store.crawl_keys import default_keys
from toolkit.store.interfaces_crawls import Crawls
from toolkit.store.interfaces_foreign import Foreign, ListedItems


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

    def begin(self, sink: str, known: str) -> None:
        """Go on after what the sink of this identity has: `known` by its own word, and what Redis remembers."""

    def following(self, limit: int) -> Sequence[Item]:
        """Return the next items; none where there are no more now."""

    def finish(self, items: Sequence[Item]) -> None:
        """Let go of the items, which the sink has."""


class StreamSource:
    """The items of a stream; they are dropped when the sink has them, unless it `keeps` them."""

    def __init__(
        self, crawls: Crawls, crawl: CrawlId, key: str, *, redis: str, keeps: bool = False, again: bool = False
    ) -> None:
        self.name = f"{redis} {crawl}"
        self.crawl = crawl
        self.key = key
        self._crawls = crawls
        self._keeps = keeps
        self._again = again
        self._sink = ""
        self._after = ""

    def begin(self, sink: str, known: str) -> None:
        """Go on after the last item that the sink has; with `again`, at the first that is still there."""
        self._sink = sink
        remembered = "" if self._again else self._crawls.drained(self.crawl, sink)
        self._after = max(known, remembered, key=_place)
        if self._after != remembered and not self._again:
            # The drain before was ended between writing and saying so.
            self._crawls.drop_items(self.crawl, sink, through=self._after, keep=self._keeps)

    def following(self, limit: int) -> Sequence[Item]:
        """Return the items after the last that was finished."""
        found = self._crawls.items(self.crawl, after=self._after, limit=limit)
        return [Item(place, key, body) for place, key, body in found]

    def finish(self, items: Sequence[Item]) -> None:
        """Remember the last one, and drop all through it."""
        self._crawls.drop_items(self.crawl, self._sink, through=items[-1].id, keep=self._keeps)
        self._after = items[-1].id


def open_source(
    crawls: Crawls, foreign: Foreign, crawl: CrawlId, *, keeps: bool = False, again: bool = False, waits: bool = False
) -> Source:
    """Return the items of a crawl, which may be over and forgotten; one that `waits` may have none yet.

    Raises:
        NotFoundError: no such crawl, and no items of it.
        UsageError: items of a list shall be kept, or come again.

    """
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

    def __init__(self, foreign: Foreign, key: str, crawl: CrawlId) -> None:
        self.name = f"{foreign.place} {crawl}"
        self.crawl = crawl
        self._foreign = foreign
        self.key = key

    def begin(self, sink: str, known: str) -> None:  # noqa: ARG002 - a list is drained by whoever comes
        """Drop what the sink has, of which Redis was not told."""
        self._list(known, limit=0)

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


def _place(stream_id: str) -> tuple[int, int]:
    """Return a stream's id as what orders it; an empty one stands before all."""
    ms, _, number = stream_id.partition("-")
    return (int(ms), int(number or 0)) if ms.isdecimal() else (-1, 0)
