"""Reads how large all crawls are: counts alone, no entry, so that thousands of entries cost no more than one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolkit.model.crawls import CrawlPlan, SeedsKind
from toolkit.model.measures import CrawlSizes
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.crawl_keys import REGISTRY, FrontierKeys
from toolkit.store.wire_crawls import pairs, read_controls, read_plan

CRAWLS_A_CALL = 100
"""How many crawls are read in one step, for which Redis stands still for about a millisecond."""

_COUNTED = ("seen_count", "parked", "pages", "items", "duplicates", "commits")
_COUNT = {SeedsKind.LIST: "LLEN", SeedsKind.SET: "SCARD", SeedsKind.ZSET: "ZCARD"}
_NOTHING: Sequence[Argument] = ("ECHO", "0")


class RedisCrawlSizes:
    """Reads sizes."""

    def __init__(self, door: RedisDoor) -> None:
        self._door = door

    def all(self) -> tuple[CrawlSizes, ...]:
        """Return the sizes of every crawl that is known, sorted by id; two round trips for each hundred."""
        plans = sorted((read_plan(body) for body in self._door.ask("HVALS", REGISTRY)), key=lambda plan: plan.crawl)
        found: list[CrawlSizes] = []
        for at in range(0, len(plans), CRAWLS_A_CALL):
            found += self._some(plans[at : at + CRAWLS_A_CALL])
        return tuple(found)

    def _some(self, plans: Sequence[CrawlPlan]) -> list[CrawlSizes]:
        (time,), *told = self._door.ask_groups_for_bytes([[("TIME",)], *(_first(plan) for plan in plans)])
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        workers = [[(name.decode(), float(until_ms)) for name, until_ms in pairs(each[1])] for each in told]
        asked = [
            _second(plan, each, [name for name, _ in of_plan])
            for plan, each, of_plan in zip(plans, told, workers, strict=True)
        ]
        counts = self._door.ask_groups_for_bytes(asked)
        return [
            _sizes(plan, each, [int(number) for number in numbers], sum(until_ms > now_ms for _, until_ms in of_plan))
            for plan, each, numbers, of_plan in zip(plans, told, counts, workers, strict=True)
        ]


def _first(plan: CrawlPlan) -> list[Sequence[Argument]]:
    keys = FrontierKeys(plan.keys)
    return [
        ("HMGET", keys.state, *_COUNTED),
        ("ZRANGE", keys.workers, 0, -1, "WITHSCORES"),
        ("ZCARD", keys.suspects),
        ("HLEN", keys.dead),
        ("HLEN", keys.blocked),
        ("GET", keys.controls),
        ("TYPE", keys.requests),
        ("TYPE", keys.seeds),
    ]


def _second(plan: CrawlPlan, told: Sequence[Any], workers: Sequence[str]) -> list[Sequence[Argument]]:
    """Ask for what can only be counted by its type: under scrapy-redis' names others may lay what they like."""
    keys = FrontierKeys(plan.keys)
    return [
        ("ZCARD", keys.requests) if told[6] == b"zset" else _NOTHING,
        (_COUNT[plan.seeds], keys.seeds) if told[7].decode() == plan.seeds else _NOTHING,
        *(("HLEN", f"{keys.hands_prefix}{name}") for name in workers),
    ]


def _sizes(plan: CrawlPlan, told: Sequence[Any], numbers: Sequence[int], workers: int) -> CrawlSizes:
    state, _, suspects, dead, blocked, controls, *_ = told
    seen, parked, pages, items, duplicates, commits = (int(each or 0) for each in state)
    queued, seeds, *in_hands = numbers
    return CrawlSizes(
        crawl=plan.crawl,
        pending=queued + parked + suspects,
        in_flight=sum(in_hands),
        suspects=suspects,
        dead=dead,
        blocked=blocked,
        seeds=seeds,
        seen=seen,
        workers=workers,
        pages=pages,
        items=items,
        duplicates=duplicates,
        commits=commits,
        is_paused=read_controls(controls).is_paused,
    )
