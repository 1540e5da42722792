"""Reads crawls out of Redis as operators see them; nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgpack

from toolkit.model.crawls import (
    CrawlPlan,
    CrawlView,
    EntryView,
    ItemsKind,
    Leased,
    QueueOrder,
    SeedsKind,
    SeenKind,
    Shelf,
    WorkerView,
)
from toolkit.model.names import WorkerName
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.crawl_keys import FrontierKeys
from toolkit.store.wire_crawls import bloom_loss, host_of, pairs, read_controls, read_limit, read_member, read_standing

SAMPLE, LEAST_SAMPLE, SAMPLED_WHOLE = 500, 10, 20
"""How many pending entries of each end of the queue are looked at for the oldest and for the domains.

Beyond so many crawls the entries that are looked at for one are shared among all, down to a least number, and none in
workers' hands are.
"""
CRAWLS_A_STEP = 50

_DOMAINS = 100
_RATE_S = 60
_BUCKET_S = 10
_LAST_S = 253_402_300_799
"""The end of the year 9999: what others wrote into our keys has no time."""

_LAST_YEAR = 9_000
"""An entry that came later has no id of ours: pickles and JSON begin with bytes that make far later times."""

_COUNT = {SeedsKind.LIST: "LLEN", SeedsKind.SET: "SCARD", SeedsKind.ZSET: "ZCARD"}


Standing = tuple[str, int, int, int, str]
"""What `read_standing` tells: token, number of the last commit, pages, when in milliseconds, marks."""


class RedisCrawlViews:
    """Reads crawls."""

    def __init__(self, door: RedisDoor) -> None:
        self._door = door

    def views(self, plans: Sequence[CrawlPlan]) -> list[CrawlView]:
        """Return all that is known of crawls, in three round trips for every fifty; of many, less is looked into."""
        sample = max(LEAST_SAMPLE, SAMPLE * SAMPLED_WHOLE // max(SAMPLED_WHOLE, len(plans)))
        steps = (plans[at : at + CRAWLS_A_STEP] for at in range(0, len(plans), CRAWLS_A_STEP))
        return [view for step in steps for view in self._some(step, sample)]

    def _some(self, plans: Sequence[CrawlPlan], sample: int) -> list[CrawlView]:
        (time,), *first = self._door.ask_groups_for_bytes([[("TIME",)], *(_first(plan) for plan in plans)])
        readings = [_Reading(plan, *answers) for plan, answers in zip(plans, first, strict=True)]
        counts = self._door.ask_groups_for_bytes([reading.counts_to_ask() for reading in readings])
        ends_to_ask = [reading.ends_to_ask(sample) for reading in readings]
        hands_to_ask = [reading.hands_to_ask() if sample == SAMPLE else [] for reading in readings]
        found = self._door.ask_groups_for_bytes(ends_to_ask + hands_to_ask)
        ends, hands = found[: len(readings)], found[len(readings) :]
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        return [
            reading.view(now_ms, [int(each) for each in count], _members(end), held)
            for reading, count, end, held in zip(readings, counts, ends, hands, strict=True)
        ]

    def shelf(self, plan: CrawlPlan, shelf: Shelf, *, step: int) -> Iterator[EntryView]:
        """Return the entries of a shelf, those that are next first."""
        keys = FrontierKeys(plan.keys)
        if shelf is Shelf.PENDING:
            yield from self._line(keys.requests, plan.order, step)
            (due,) = self._door.ask_together_for_bytes(("ZRANGE", keys.due, 0, -1))
            for domain in due:
                yield from self._line(keys.domain(domain.decode()), plan.order, step)
        elif shelf is Shelf.SUSPECT:
            yield from self._line(keys.suspects, QueueOrder.PRIORITY, step, shelf=shelf)
        elif shelf is Shelf.DEAD:
            for _, body in self._fields(keys.dead, step):
                why, at_ms, score, member = msgpack.unpackb(body, raw=True)
                leased = read_member(member, score)
                yield EntryView(leased, shelf, moment(int(at_ms)), why=why.decode("utf-8", "replace"))
        elif shelf is Shelf.BLOCKED:
            for _, held in self._fields(keys.blocked, step):
                yield _held(held, shelf)
        else:
            (live,) = self._door.ask_together_for_bytes(("ZRANGE", keys.workers, 0, -1))
            for worker in map(bytes.decode, live):
                for _, held in self._fields(keys.hands(WorkerName(worker)), step):
                    yield _held(held, shelf, WorkerName(worker))

    def seeds(self, plan: CrawlPlan) -> Iterator[tuple[bytes, float]]:
        """Return the seeds that wait, in the order of taking (none in a set), with the score of those that have one."""
        key, at = plan.keys.seeds, 0
        if plan.seeds is SeedsKind.SET:
            (found,) = self._door.ask_together_for_bytes(("SMEMBERS", key))
            yield from ((seed, 0.0) for seed in sorted(found))
            return
        while True:
            if plan.seeds is SeedsKind.ZSET:
                (part,) = self._door.ask_together_for_bytes(("ZREVRANGE", key, at, at + SAMPLE - 1, "WITHSCORES"))
                found = [(seed, float(score)) for seed, score in pairs(part)]
            else:
                (part,) = self._door.ask_together_for_bytes(("LRANGE", key, at, at + SAMPLE - 1))
                found = [(seed, 0.0) for seed in part]
            yield from found
            at += len(found)
            if len(found) < SAMPLE:
                return

    def _line(self, key: str, order: QueueOrder, step: int, *, shelf: Shelf = Shelf.PENDING) -> Iterator[EntryView]:
        """Return the entries of a sorted set, in the order of taking."""
        reading, at = "ZREVRANGE" if order is QueueOrder.LIFO else "ZRANGE", 0
        while True:
            (part,) = self._door.ask_together_for_bytes((reading, key, at, at + step - 1, "WITHSCORES"))
            found = pairs(part)
            for member, score in found:
                leased = read_member(member, score)
                yield EntryView(leased, shelf, came_at(leased))
            at += len(found)
            if len(found) < step:
                return

    def _fields(self, key: str, step: int) -> Iterator[tuple[bytes, bytes]]:
        cursor: Argument = 0
        seen: set[bytes] = set()
        while True:
            ((cursor, part),) = self._door.ask_together_for_bytes(("HSCAN", key, cursor, "COUNT", step))
            for name, value in state_pairs(part):
                if name not in seen:
                    seen.add(name)
                    yield name, value
            if int(cursor) == 0:
                return


def _first(plan: CrawlPlan) -> list[Sequence[Argument]]:
    """Ask for the fields of `_Reading`, in their order."""
    keys = FrontierKeys(plan.keys)
    return [
        ("HGETALL", keys.state),
        ("ZRANGE", keys.workers, 0, -1, "WITHSCORES"),
        ("HGETALL", keys.standings),
        ("TYPE", keys.requests),
        ("ZCARD", keys.suspects),
        ("HLEN", keys.dead),
        ("HLEN", keys.blocked),
        ("GET", keys.controls),
        ("HGETALL", keys.limits),
        ("HGETALL", keys.rate),
        ("ZRANGE", keys.due, 0, _DOMAINS - 1),
        ("TYPE", keys.seeds),
        ("TYPE", keys.items),
    ]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What Redis has told of one crawl so far, as it came, and what is to be asked next."""

    plan: CrawlPlan
    state: Any
    leases: Any
    standings: Any
    kind: bytes
    suspects: int
    dead: int
    blocked: int
    controls: bytes | None
    limits: Any
    rate: Any
    due: Sequence[bytes]
    seeds_kind: bytes
    items_kind: bytes

    @property
    def is_ours(self) -> bool:
        """Whether the frontier works on what is there."""
        return bool(self.state) and self.kind in {b"zset", b"none"}

    def counts_to_ask(self) -> list[Sequence[Argument]]:
        """Ask for what can only be counted by its type: under scrapy-redis' names others may lay what they like."""
        plan, keys = self.plan, FrontierKeys(self.plan.keys)
        has_items = self.items_kind.decode() == plan.items and plan.items is not ItemsKind.NONE
        return [
            ("ZCARD", keys.requests) if self.is_ours else ("EXISTS", keys.requests),
            (_COUNT[plan.seeds], keys.seeds) if self.seeds_kind.decode() == plan.seeds else ("ECHO", "0"),
            ("XLEN" if plan.items is ItemsKind.STREAM else "LLEN", keys.items) if has_items else ("ECHO", "0"),
            *(("HLEN", keys.hands(name)) for name, _ in self._live()),
            *(("ZCARD", keys.domain(domain.decode())) for domain in self.due),
        ]

    def ends_to_ask(self, sample: int) -> list[Sequence[Argument]]:
        """Ask for some entries of both ends of the queue."""
        key = FrontierKeys(self.plan.keys).requests
        ends = (("ZRANGE", key, 0, sample - 1, "WITHSCORES"), ("ZRANGE", key, -sample, -1, "WITHSCORES"))
        return list(ends) if self.is_ours else []

    def hands_to_ask(self) -> list[Sequence[Argument]]:
        """Ask for what the workers have in hand."""
        return [("HVALS", FrontierKeys(self.plan.keys).hands(name)) for name, _ in self._live()]

    def view(
        self, now_ms: int, counts: Sequence[int], sample: Sequence[Leased], hands: Sequence[Sequence[bytes]]
    ) -> CrawlView:
        """Put together what was told. Pure."""
        plan, live = self.plan, self._live()
        queued, seeds, items, *rest = counts
        known = {name.decode(): value.decode("utf-8", "replace") for name, value in state_pairs(self.state)}
        by_name = {name.decode(): read_standing(text.decode()) for name, text in state_pairs(self.standings)}
        in_hands = rest[: len(live)]
        parked = _whole(known, "parked")
        domains = Counter(host_of(entry.body) for entry in sample)
        domains.update({domain.decode(): number for domain, number in zip(self.due, rest[len(live) :], strict=True)})
        pages, delivered = _rates(self.rate, now_ms, _whole(known, "created_ms"))
        return CrawlView(
            plan=plan,
            now=moment(now_ms),
            created_at=moment(_whole(known, "created_ms")) if known.get("created_ms") else None,
            pending=queued + parked + self.suspects,
            in_flight=sum(in_hands),
            suspects=self.suspects,
            dead=self.dead,
            blocked=self.blocked,
            seeds=seeds,
            seen=_whole(known, "seen_count"),
            expected_loss=_loss(known, plan),
            items_waiting=items,
            pages=_whole(known, "pages"),
            items=_whole(known, "items"),
            duplicates=_whole(known, "duplicates"),
            pages_per_minute=pages,
            items_per_minute=delivered,
            oldest_at=min((came_at(entry) for entry in sample), default=None),
            workers=_workers(live, list(zip(in_hands, hands or [()] * len(live), strict=True)), by_name, known, now_ms),
            controls=read_controls(self.controls),
            limits=tuple(read_limit(d.decode(), text.decode()) for d, text in sorted(state_pairs(self.limits))),
            domains=dict(domains.most_common(_DOMAINS)),
            is_over=known.get("start") == "!"
            and not (queued or parked or self.suspects or seeds or sum(in_hands))
            and not any("M" in by_name[name][4] for name, _ in live if name in by_name),
            needs_migration=_foreign(known, self.kind.decode(), plan, sample),
        )

    def _live(self) -> list[tuple[WorkerName, float]]:
        return [(WorkerName(name.decode()), float(score)) for name, score in pairs(self.leases)]


def state_pairs(found: Any) -> list[tuple[bytes, bytes]]:
    """Return a hash's fields, whether the library made a mapping of the answer or left it flat."""
    return list(found.items()) if isinstance(found, Mapping) else pairs(found)


def moment(at_ms: float) -> datetime:
    """Return the moment of a Redis time in milliseconds."""
    return datetime.fromtimestamp(min(at_ms / 1000, _LAST_S), UTC)


def came_at(leased: Leased) -> datetime:
    """Return when an entry came: its id is a time in microseconds."""
    return moment(int.from_bytes(leased.entry, "big") / 1000)


def _members(ends: Sequence[Any]) -> list[Leased]:
    """Return the entries of both ends of a queue, each once."""
    found = {member: score for end in ends for member, score in pairs(end)}
    return [read_member(member, score) for member, score in found.items()]


def _held(held: bytes, shelf: Shelf, worker: WorkerName | None = None) -> EntryView:
    score, since_ms, member = held.split(b" ", 2)
    leased = read_member(member, score)
    taken_at = None if worker is None else moment(int(since_ms))
    return EntryView(leased, shelf, came_at(leased), worker=worker, taken_at=taken_at)


def _oldest(held: Sequence[bytes], worker: WorkerName) -> EntryView | None:
    first = min(held, key=lambda each: int(each.split(b" ", 2)[1]), default=None)
    return None if first is None else _held(first, Shelf.IN_FLIGHT, worker)


def _workers(
    live: Sequence[tuple[WorkerName, float]],
    in_hands: Sequence[tuple[int, Sequence[bytes]]],
    by_name: Mapping[str, Standing],
    known: Mapping[str, str],
    now_ms: int,
) -> tuple[WorkerView, ...]:
    found = []
    for (name, until_ms), (held, entries) in zip(live, in_hands, strict=True):
        _, number, pages, at_ms, _ = by_name.get(name, ("", 0, 0, 0, "-"))
        found.append(
            WorkerView(
                name=name,
                in_flight=held,
                committed_at=moment(at_ms) if number else None,
                lease_left_s=(until_ms - now_ms) / 1000,
                pages=pages,
                is_starting=known.get("start") == name,
                oldest=_oldest(entries, name),
            )
        )
    return tuple(sorted(found, key=lambda worker: worker.name))


def _rates(rate: Any, now_ms: int, created_ms: int) -> tuple[float | None, float | None]:
    """Return pages and items a minute over the last minute, or since the crawl began if that is less."""
    if not created_ms:
        return None, None
    now_s = now_ms / 1000
    first = int(now_s - _RATE_S) // _BUCKET_S + 1
    since_s = max(first * _BUCKET_S, created_ms / 1000)
    sums = {b"p": 0, b"i": 0}
    for name, value in state_pairs(rate):
        if int(name[1:]) >= first:
            sums[name[:1]] += int(value)
    elapsed_s = max(1.0, now_s - since_s)
    return round(sums[b"p"] * 60 / elapsed_s, 1), round(sums[b"i"] * 60 / elapsed_s, 1)


def _loss(known: Mapping[str, str], plan: CrawlPlan) -> float:
    if known.get("seen") != SeenKind.BLOOM or not known.get("bloom"):
        return 0.0
    return bloom_loss([int(count) for count in known["bloom"].split(",")], plan.bloom_error)


def _foreign(known: Mapping[str, str], kind: str, plan: CrawlPlan, sample: Sequence[Leased]) -> str | None:
    if known and any(came_at(entry).year > _LAST_YEAR for entry in sample):
        return f"{plan.keys.requests} holds entries that are not the frontier's, most likely scrapy-redis'"
    if known or kind == "none":
        return None
    return f"{plan.keys.requests} is a {kind} that is not the frontier's, most likely scrapy-redis'"


def _whole(known: Mapping[str, str], name: str) -> int:
    return int(known.get(name) or 0)
