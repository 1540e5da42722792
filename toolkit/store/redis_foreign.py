"""The keys that scrapy-redis wrote, for whoever takes them over. Nothing here understands what is in them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from toolkit.model.hosts import Secret
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.interfaces_foreign import ListedItems, Queued
from toolkit.store.wire_crawls import pairs

_LENGTH = {"list": "LLEN", "set": "SCARD", "zset": "ZCARD", "stream": "XLEN"}
_ADD = {"list": "RPUSH", "set": "SADD", "zset": "ZADD"}
_MEMBERS_A_STEP = 1_000


def aside_of(items: str) -> str:
    """Name the list that a list of items is while it is drained."""
    return f"{items}:drain"


class RedisForeign:
    """Keeps what `Foreign` promises.

    Raises:
        ConfigurationError: the URL cannot be understood.

    """

    def __init__(self, url: Secret) -> None:
        self._door = RedisDoor(url)
        self.place = str(self._door.address)

    def kind(self, key: str) -> str:
        """See `Foreign.kind`."""
        return str(self._door.ask("TYPE", key))

    def length(self, key: str) -> int:
        """See `Foreign.length`."""
        command = _LENGTH.get(self.kind(key))
        return int(self._door.ask(command, key)) if command else 0

    def set_aside(self, key: str, *, to: str) -> bool:
        """See `Foreign.set_aside`."""
        return bool(self._door.run("set_aside", keys=[key, to], args=[]))

    def waiting(self, key: str, *, limit: int) -> Sequence[Queued]:
        """See `Foreign.waiting`."""
        if self.kind(key) == "list":
            (found,) = self._door.ask_together_for_bytes(("LRANGE", key, -limit, -1))
            return [Queued(body) for body in reversed(found)]
        (found,) = self._door.ask_together_for_bytes(("ZRANGE", key, 0, limit - 1, "WITHSCORES"))
        return [Queued(body, float(score)) for body, score in pairs(found)]

    def settle(self, key: str, part: Sequence[Queued], *, keep: Sequence[Queued], kept: str) -> None:
        """See `Foreign.settle`."""
        commands: list[Sequence[Argument]]
        if self.kind(key) == "list":
            commands = [("LTRIM", key, 0, -len(part) - 1)]
            commands += [("LPUSH", kept, *(each.body for each in keep))] if keep else []
        else:
            commands = [("ZREM", key, *(each.body for each in part))]
            commands += [("ZADD", kept, *_scored(keep))] if keep else []
        self._door.ask_together(*commands)

    def members(self, key: str) -> Iterator[bytes]:
        """See `Foreign.members`."""
        cursor: Argument = 0
        while True:
            ((cursor, part),) = self._door.ask_together_for_bytes(("SSCAN", key, cursor, "COUNT", _MEMBERS_A_STEP))
            yield from part
            if int(cursor) == 0:
                return

    def fill(self, key: str, kind: str, part: Sequence[Queued]) -> None:
        """See `Foreign.fill`."""
        words = _scored(part) if kind == "zset" else [each.body for each in part]
        self._door.ask(_ADD[kind], key, *words)

    def drop(self, key: str) -> None:
        """See `Foreign.drop`."""
        self._door.ask("UNLINK", key)

    def list_items(self, key: str, *, token: str, finished: int, limit: int) -> ListedItems:
        """See `Foreign.list_items`."""
        aside = aside_of(key)
        answer: Any = self._door.run_for_bytes(
            "list_items", keys=[key, aside, f"{aside}:marks"], args=[secrets.token_hex(8), token, finished, limit]
        )
        return ListedItems(answer[0].decode(), int(answer[1]), answer[2])

    def list_waits(self, key: str) -> int:
        """See `Foreign.list_waits`."""
        return sum(self.length(each) for each in (aside_of(key), key) if self.kind(each) == "list")

    def peek_items(self, key: str, *, limit: int) -> Sequence[bytes]:
        """See `Foreign.peek_items`."""
        lists = [each for each in (aside_of(key), key) if self.kind(each) == "list"]
        found = [self._door.ask_together_for_bytes(("LRANGE", each, 0, limit - 1))[0] for each in lists]
        return [body for part in found for body in part][:limit]

    def close(self) -> None:
        """See `Foreign.close`."""
        self._door.close()


def _scored(part: Sequence[Queued]) -> list[Argument]:
    return [word for each in part for word in (f"{each.score:.17g}", each.body)]
