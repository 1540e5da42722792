"""Moves items out of a crawl into a sink, batch by batch, so that it can be ended at any moment and started again.

A batch is in the sink for certain before the crawl lets go of it. What is between the two when the drain is ended comes
again, and the sink knows it: a database by its key, a file by its position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from toolkit.model.errors import DatabaseUnreachableError, StoreUnreachableError, StoreUnreadableError
from toolkit.model.transfers import Drained, Item
from toolkit.transfer.sinks import Sink
from toolkit.transfer.sources import Source

DEFAULT_BATCH = 500
LOOK_EVERY_S = 0.5
RETRY_WITHIN_S = 10.0


def drain(source: Source, sink: Sink, *, batch: int = DEFAULT_BATCH) -> Iterator[Drained]:
    """Move all items that are there; yield how far it has come, first before any and then for each batch.

    Raises:
        CrawlctlError: Redis or the sink failed; whatever was yielded is in the sink, and starting again goes on there.

    """
    done = _begun(source, sink, Drained())
    yield done
    while items := source.following(batch):
        done = _written(source, sink, items, done)
        # Before the crawl lets go of it: whoever sees that it has, and ends us by Ctrl-C, is told of this batch too.
        yield done
        done = _finished(source, items, done)
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
    done = _begun(source, sink, Drained())
    yield done
    failures = 0
    while True:
        try:
            if failures:
                done = _begun(source, sink, done)
            items = source.following(batch)
            if failures:
                say("it answers again")
                failures = 0
            if items:
                done = _written(source, sink, items, done)
                yield done
                done = _finished(source, items, done)
                yield done
        except StoreUnreadableError:
            raise
        except (StoreUnreachableError, DatabaseUnreachableError) as error:
            if not failures:
                say(f"{error.message}; waiting for it")
            failures += 1
            sleep(min(LOOK_EVERY_S * 2**failures, RETRY_WITHIN_S))
            continue
        if not items:
            sleep(LOOK_EVERY_S)


def _begun(source: Source, sink: Sink, done: Drained) -> Drained:
    source.begin(sink.identity, sink.begin(source.name))
    return replace(done, behind=source.behind, has_repeated=source.has_repeated)


def _finished(source: Source, items: Sequence[Item], done: Drained) -> Drained:
    source.finish(items)
    return replace(done, behind=source.behind, has_repeated=source.has_repeated)


def _written(source: Source, sink: Sink, items: Sequence[Item], done: Drained) -> Drained:
    written = sink.write(source.name, source.crawl, items)
    return replace(
        done, new=done.new + written.new, known=done.known + written.known, altered=done.altered + written.altered
    )
