"""How the cluster's Redis is, as it tells itself: one reading, for those who judge it."""

from __future__ import annotations

from dataclasses import dataclass

NEARLY_FULL, FULL = 0.8, 0.95
"""Shares of its memory from which on an operator should know, and from which on it may refuse the next change."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A copy that follows this Redis.

    `lag_s` is how long ago it last acknowledged what it has, `behind_bytes` how much of the replication stream it had
    not acknowledged by then.
    """

    address: str
    is_online: bool
    lag_s: int
    behind_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RedisHealth:
    """One reading of a Redis or Valkey; `None` is what it did not tell, and `refused` says why.

    `latency_s` is the median round trip from here, `clock_ahead_s` how far its clock is before ours, give or take
    `clock_error_s`. `is_open`: whoever connects needs no password. `user` is the one that we are there.
    `master_is_up` is told by a replica alone. `good_replicas` are those that count for min-replicas-to-write, told only
    where that is set; `min_replicas` is how many it wants. Sizes are in bytes.
    """

    place: str
    latency_s: float
    clock_ahead_s: float
    clock_error_s: float
    version: str | None = None
    is_valkey: bool = False
    is_append_only: bool | None = None
    fsync: str | None = None
    is_last_append_ok: bool | None = None
    is_last_snapshot_ok: bool | None = None
    policy: str | None = None
    max_bytes: int | None = None
    used_bytes: int | None = None
    machine_bytes: int | None = None
    evicted: int | None = None
    clients: int | None = None
    max_clients: int | None = None
    role: str | None = None
    master_is_up: bool | None = None
    replicas: tuple[Replica, ...] = ()
    good_replicas: int | None = None
    min_replicas: int | None = None
    user: str | None = None
    is_open: bool | None = None
    refused: tuple[str, ...] = ()

    @property
    def product(self) -> str:
        """Name and version, as far as they are known."""
        return f"{'Valkey' if self.is_valkey else 'Redis'} {self.version or 'of an unknown version'}"

    @property
    def memory_share(self) -> float | None:
        """How much of the memory that it may use is used; above 1 where it has no room for its own any more."""
        limit = self.max_bytes or self.machine_bytes
        return self.used_bytes / limit if limit and self.used_bytes is not None else None

    @property
    def memory_trouble(self) -> str | None:
        """What to say of it when its memory is nearly full; `None` when it is not, or is not known."""
        if (share := self.memory_share) is None or share < NEARLY_FULL:
            return None
        what = "maxmemory" if self.max_bytes else "its machine's memory"
        return f"uses {100 * share:.0f} % of {what}: when it is full it refuses every change"
