"""What a sink of items promises, and which one a place gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolkit.model.errors import UsageError
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Item
from toolkit.transfer.address import DEFAULT_TABLE, Place, PlaceKind
from toolkit.transfer.items import Written


class Sink(Protocol):
    """Where items go to. One process uses it, from one thread; close it after use."""

    @property
    def identity(self) -> str:
        """The sink by a name that no other has; what it has of each crawl is remembered under it."""

    @property
    def shown(self) -> str:
        """The sink as an operator may see it."""

    def begin(self, source: str) -> str:
        """Make ready for items of a source, and return the mark of the last that is here for certain, if it knows.

        `source` names crawl and Redis. What a drain before had written of a batch but not finished is cut off.

        Raises:
            CrawlctlError: nothing can be written: unreachable, refused, no disk left, another drain is writing.

        """

    def write(self, source: str, crawl: CrawlId, items: Sequence[Item]) -> Written:
        """Keep items, each once however often it is written; they are on disk when this returns.

        Raises:
            CrawlctlError: they could not be kept; none or some are, and writing them all again is right.

        """

    def close(self) -> None:
        """Let go of files and connections."""


def open_sink(place: Place, *, table: str = DEFAULT_TABLE) -> Sink:
    """Return the sink of a place; `table` is the name of a database's table or collection.

    Raises:
        MissingExtraError: what speaks to such a database is not installed.
        UsageError: the URL cannot be understood, or the table has no name.

    """
    if not table.rpartition(".")[2].strip():
        raise UsageError(f"{table!r} names no table", hint="--table items, or --table schema.items")
    if place.kind is PlaceKind.SQL:
        from toolkit.transfer.sink_sql import SqlSink  # noqa: PLC0415 - a library is loaded only where it is used

        return SqlSink(place, table=table)
    if place.kind is PlaceKind.MONGO:
        from toolkit.transfer.sink_mongo import MongoSink  # noqa: PLC0415

        return MongoSink(place, collection=table)
    from toolkit.transfer.sink_lines import LinesFile, StandardOutput  # noqa: PLC0415

    return StandardOutput() if place.kind is PlaceKind.STDOUT else LinesFile(place)
