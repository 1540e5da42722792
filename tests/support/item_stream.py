"""The items of crawls in memory, as a drain sees them: for what a drain decides, and to end it at any moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from toolkit.model.names import CrawlId
from toolkit.model.transfers import Noted
from toolkit.store.interfaces_crawls import Crawls
from toolkit.transfer.sources import FIRST, StreamSource

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

    def items(self, crawl: CrawlId, *, after: str, limit: int) -> Sequence[tuple[str, str, bytes]]:  # noqa: ARG002
        self._count()
        return [each for each in self.items_there if each[0] > after][:limit]

    def deliver(self, crawl: CrawlId) -> None:
        """Nothing waits to be delivered."""

    def drained(self, crawl: CrawlId, sink: str) -> str:  # noqa: ARG002 - the protocol's
        return self.positions.get(sink, "")

    def drop_items(
        self,
        crawl: CrawlId,  # noqa: ARG002 - the protocol's
        sink: str,
        *,
        through: str,
        key: str,
        after: str,
        keep: bool,
        hold_s: float,  # noqa: ARG002
    ) -> Noted:
        self._count()
        noted = self.positions.get(sink, FIRST)
        is_there = any(each[:2] == (through, key) for each in self.items_there)
        if through == FIRST or (is_there and after in {"", noted}):
            noted = through
        self.positions[sink] = noted
        if not keep:
            self.items_there = [each for each in self.items_there if each[0] > noted]
        return Noted(noted)

    def _count(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.ends_after is not None:
            if self.ends_after == 0:
                raise EndedError
            self.ends_after -= 1


def bodies(count: int) -> list[bytes]:
    return [json.dumps({"number": number, "name": f"Läufer {number}"}).encode() for number in range(count)]
