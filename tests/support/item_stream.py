"""The items of crawls in memory, as a drain sees them: for what a drain decides, and to end it at any moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from toolkit.model.names import CrawlId
from toolkit.store.interfaces_crawls import Crawls
from toolkit.transfer.sources import StreamSource

SHOP = CrawlId("shop")


class EndedError(Exception):
    """The process is gone."""


class ItemStream:
    """One crawl's stream. `ends_after` counts the calls that are carried out before the process ends."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self.items_there = [(f"{1_790_000_000_000 + at}-0", f"{at:016x}-0", body) for at, body in enumerate(bodies)]
        self.positions: dict[str, str] = {}
        self.ends_after: int | None = None
        self.failure: Exception | None = None

    def source(self, *, keeps: bool = False, again: bool = False) -> StreamSource:
        return StreamSource(cast("Crawls", self), SHOP, "shop:items", redis="redis://desk", keeps=keeps, again=again)

    def drained(self, crawl: CrawlId, sink: str) -> str:  # noqa: ARG002 - the protocol's
        self._count()
        return self.positions.get(sink, "")

    def items(self, crawl: CrawlId, *, after: str, limit: int) -> Sequence[tuple[str, str, bytes]]:  # noqa: ARG002
        self._count()
        return [each for each in self.items_there if each[0] > after][:limit]

    def drop_items(self, crawl: CrawlId, sink: str, *, through: str, keep: bool = False) -> None:  # noqa: ARG002
        self._count()
        self.positions[sink] = through
        if not keep:
            self.items_there = [each for each in self.items_there if each[0] > through]

    def _count(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.ends_after is not None:
            if self.ends_after == 0:
                raise EndedError
            self.ends_after -= 1


def bodies(count: int) -> list[bytes]:
    return [json.dumps({"number": number, "name": f"Läufer {number}"}).encode() for number in range(count)]
