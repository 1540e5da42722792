"""Moves items out of a crawl into a sink, batch by batch, so that it can be ended at any moment and started again.

A batch is in the sink for certain before the crawl lets go of it. What is between the two when the drain is ended comes
again, and the sink knows it: a database by its key, a file by its position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from toolkit.model.errors import DatabaseUnreachableError, StoreUnreachableError, StoreUnreadableError
from toolkit.model.names import CrawlId
from toolkit.store.interfaces_crawls import Crawls
from toolkit.transfer.items import Item
from toolkit.transfer.sinks import Sink

DEFAULT_BATCH = 500
LOOK_EVERY_S = 0.5
RETRY_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Drained:
    """How far a drain has come."""

    new: int = 0
    known: int = 0
    """The sink had them already."""
    altered: int = 0
    """Of the new ones: hold something that the sink cannot, and were changed there."""


class Source(Protocol):
    """A crawl's items on their way to one sink."""

    @property
    def name(self) -> str:
        """Crawl and Redis."""

    @property
    def crawl(self) -> CrawlId:
        """The crawl."""

    def begin(self, sink: str, known: str) -> None:
        """Go on after what the sink of this identity has: `known` by its own word, and what Redis remembers."""

    def following(self, limit: int) -> Sequence[Item]:
        """Return the next items; none where there are no more now."""

    def finish(self, items: Sequence[Item]) -> None:
        """Let go of the items, which the sink has."""


class StreamSource:
    """The items of a stream; they are dropped when the sink has them, unless it `keeps` them."""

    def __init__(self, crawls: Crawls, crawl: CrawlId, *, redis: str, keeps: bool = False, again: bool = False) -> None:
        self.name = f"{redis} {crawl}"
        self.crawl = crawl
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


def drain(source: Source, sink: Sink, *, batch: int = DEFAULT_BATCH) -> Iterator[Drained]:
    """Move all items that are there; yield how far it has come, first before any and then after each batch.

    Raises:
        CrawlctlError: Redis or the sink failed; whatever was yielded is done, and starting again goes on from there.

    """
    done = Drained()
    source.begin(sink.identity, sink.begin(source.name))
    yield done
    while items := source.following(batch):
        done = _moved(source, sink, items, done)
        yield done


def follow(
    source: Source,
    sink: Sink,
    *,
    batch: int = DEFAULT_BATCH,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Drained]:
    """Move items as they come, for ever; once it has begun, it outlasts an absence of Redis or of the database.

    Raises:
        CrawlctlError: it could not begin, or the sink refused an item.

    """
    done = Drained()
    source.begin(sink.identity, sink.begin(source.name))
    yield done
    failures = 0
    while True:
        try:
            if failures:
                source.begin(sink.identity, sink.begin(source.name))
            items = source.following(batch)
            if items:
                done = _moved(source, sink, items, done)
            if failures:
                say("it answers again")
                failures = 0
        except StoreUnreadableError:
            raise
        except (StoreUnreachableError, DatabaseUnreachableError) as error:
            if not failures:
                say(f"{error.message}; waiting for it")
            failures += 1
            sleep(min(LOOK_EVERY_S * 2**failures, RETRY_WITHIN_S))
            continue
        if items:
            yield done
        else:
            sleep(LOOK_EVERY_S)


def _moved(source: Source, sink: Sink, items: Sequence[Item], done: Drained) -> Drained:
    written = sink.write(source.name, source.crawl, items)
    source.finish(items)
    return replace(
        done, new=done.new + written.new, known=done.known + written.known, altered=done.altered + written.altered
    )


def _place(stream_id: str) -> tuple[int, int]:
    """Return a stream's id as what orders it; an empty one stands before all."""
    ms, _, number = stream_id.partition("-")
    return (int(ms), int(number or 0)) if ms.isdecimal() else (-1, 0)
