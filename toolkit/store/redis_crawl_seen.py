"""The seen set of a crawl as records that go out of Redis and into another: whole, and of one kind.

A record begins with a letter: `p` and ten bytes (root and member, packed), `s` and a text (set), `B` and the counts of
a Bloom filter's generations, which come first, then `b` and a part of a shard (generation, shard, offset, bytes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from toolkit.model.crawls import CrawlPlan, SeenKind
from toolkit.model.errors import RefusedError
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.crawl_keys import FrontierKeys
from toolkit.store.redis_frontier import plan_arguments
from toolkit.store.wire_crawls import ROOTS, form_of

_LETTERS = {SeenKind.PACKED: b"p", SeenKind.SET: b"s", SeenKind.BLOOM: b"b"}
_A_STEP = 1_000
_PART_BYTES = 131_072
_SHARD_BYTES = 1_048_576
_PACKED, _PART = ">HQ", ">HHI"


class RedisSeen:
    """Reads and fills seen sets."""

    def __init__(self, door: RedisDoor) -> None:
        self._door = door

    def records(self, plan: CrawlPlan) -> Iterator[bytes]:
        """Return the seen set as records."""
        keys = FrontierKeys(plan.keys)
        level, split, epoch, bloom = self._door.ask(
            "HMGET", keys.state, "seen_level", "seen_split", "seen_epoch", "bloom"
        )
        if plan.seen is SeenKind.SET:
            return self._members(keys.seen)
        if epoch is None:
            return iter(())
        if plan.seen is SeenKind.PACKED:
            return self._packed(f"{keys.seen}:{epoch}", ROOTS * 2 ** int(level or 0) + int(split or 0))
        return self._shards(f"{keys.seen}:{epoch}", [int(count) for count in (bloom or "").split(",") if count])

    def remember(self, plan: CrawlPlan, records: Iterable[bytes], *, are_fingerprints: bool) -> int:
        """Add records, or fingerprints; return how many were new (parts of shards: how many were written)."""
        keys, counts = FrontierKeys(plan.keys).all, ""
        added = int(self._door.run("crawl_remember", keys=keys, args=[*plan_arguments(plan), counts]))
        rest = iter(records)
        while part := list(islice(rest, _A_STEP if plan.seen is not SeenKind.BLOOM or are_fingerprints else 8)):
            if not are_fingerprints and part[0][:1] == b"B":
                counts = part.pop(0)[1:].decode()
            if are_fingerprints:
                forms = [each for fingerprint in part for each in form_of(fingerprint, plan.seen)]
            else:
                forms = [each for record in part for each in _form(record, plan)]
            added += int(self._door.run("crawl_remember", keys=keys, args=[*plan_arguments(plan), counts, *forms]))
        return added

    def _members(self, key: str) -> Iterator[bytes]:
        cursor: Argument = 0
        while True:
            ((cursor, part),) = self._door.ask_together_for_bytes(("SSCAN", key, cursor, "COUNT", _A_STEP))
            yield from (b"s" + member for member in part)
            if int(cursor) == 0:
                return

    def _packed(self, prefix: str, buckets: int) -> Iterator[bytes]:
        for at in range(0, buckets, 50):
            numbers = range(at, min(at + 50, buckets))
            found = self._door.ask_together_for_bytes(*(("SMEMBERS", f"{prefix}:{number}") for number in numbers))
            for number, members in zip(numbers, found, strict=True):
                for member in members:
                    yield b"p" + struct.pack(_PACKED, number % ROOTS, int(member))

    def _shards(self, prefix: str, counts: Sequence[int]) -> Iterator[bytes]:
        yield b"B" + ",".join(map(str, counts)).encode()
        for generation in range(len(counts)):
            for shard in range(4 ** min(generation, 6)):
                for offset in range(0, _SHARD_BYTES, _PART_BYTES):
                    key = f"{prefix}:b{generation}:{shard}"
                    found = self._door.ask_for_bytes("GETRANGE", key, offset, offset + _PART_BYTES - 1)
                    if found:
                        yield b"b" + struct.pack(_PART, generation, shard, offset) + found


def _form(record: bytes, plan: CrawlPlan) -> list[Argument]:
    if record[:1] != _LETTERS[plan.seen]:
        raise RefusedError(
            f"the records are of another kind of seen set than that of the crawl {plan.crawl}, {plan.seen}",
            hint="import it into a crawl of its own kind",
        )
    if plan.seen is SeenKind.PACKED:
        root, member = struct.unpack(_PACKED, record[1:])
        return [member, root]
    if plan.seen is SeenKind.SET:
        return [record[1:], 0]
    generation, shard, offset = struct.unpack_from(_PART, record, 1)
    return [generation, shard, offset, record[1 + struct.calcsize(_PART) :]]
