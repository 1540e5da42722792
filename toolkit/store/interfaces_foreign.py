"""What is promised of keys that scrapy-redis wrote: they are read, set aside, and dropped part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class Queued(NamedTuple):
    """A request as scrapy-redis wrote it, and its score; 0 in a list."""

    body: bytes
    score: float = 0.0


class ListedItems(NamedTuple):
    """Items of a list: those of one `token` are numbered from `first` on, and no others ever have that token."""

    token: str
    first: int
    bodies: Sequence[bytes]


class Foreign(Protocol):
    """Keys of a Redis that scrapy-redis owns or owned. As in `interfaces.py`, any call may find it unreachable."""

    @property
    def place(self) -> str:
        """Where this Redis is, without a password."""

    def kind(self, key: str) -> str:
        """Return the type of a key in Redis' word; `none` where there is none."""

    def length(self, key: str) -> int:
        """Return how many elements a list, set, sorted set or stream has; 0 of another type or none."""

    def set_aside(self, key: str, *, to: str) -> bool:
        """Rename a key, so that nobody else finds it; `False` where there is none, or one was set aside before."""

    def waiting(self, key: str, *, limit: int) -> Sequence[Queued]:
        """Return the first requests of a sorted set (the smallest score first), or the oldest of a list."""

    def settle(self, key: str, part: Sequence[Queued], *, keep: Sequence[Queued], kept: str) -> None:
        """Drop a part that `waiting` returned; those to `keep` go to the end of the key `kept`, of the same type."""

    def members(self, key: str) -> Iterator[bytes]:
        """Return every member of a set, some of them perhaps twice."""

    def fill(self, key: str, kind: str, part: Sequence[Queued]) -> None:
        """Add to the end of a list, to a set, or to a sorted set with their scores."""

    def drop(self, key: str) -> None:
        """Remove a key."""

    def list_items(self, key: str, *, token: str, finished: int, limit: int) -> ListedItems:
        """Return the first items of a list, after the list was set aside whole for whoever drains it.

        Those of this `token` through the number `finished` are dropped first. When none are left, what has come to the
        list meanwhile is set aside next, under a new token.
        """

    def list_waits(self, key: str) -> int:
        """Return how many items a list and the part of it that was set aside have."""

    def peek_items(self, key: str, *, limit: int) -> Sequence[bytes]:
        """Return the first items of a list, those set aside first; nothing is changed."""

    def close(self) -> None:
        """Let go of the connections."""
