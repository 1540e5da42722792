"""Reads which crawls were over, from where the scripts of the frontier note it; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Sequence

from toolkit.model.crawls import CrawlEnd
from toolkit.model.names import CrawlId, WorkerName
from toolkit.store.connect import RedisDoor
from toolkit.store.crawl_keys import RUNS
from toolkit.store.redis_crawl_views import moment
from toolkit.store.wire_crawls import pairs

ENDS_A_CALL = 1000


def read_ends(door: RedisDoor, after: str | None) -> tuple[str, Sequence[CrawlEnd]]:
    """See `Crawls.ends`. A key is the time in milliseconds and what lies under it, in which order Redis keeps them."""
    seconds, microseconds = door.ask("TIME")
    now_ms = int(seconds) * 1000 + int(microseconds) // 1000
    begin_ms = -1 if after is None else _time_of(after)
    if begin_ms < 0:
        return f"{now_ms} ", ()
    # Within this millisecond more may come, before what is there already.
    rows = door.ask("ZRANGEBYSCORE", RUNS, begin_ms, now_ms - 1, "WITHSCORES", "LIMIT", 0, ENDS_A_CALL)
    begin = begin_ms, str(after).partition(" ")[2]
    found, last = [], str(after)
    for member, score in pairs(rows):
        at_ms = int(float(score))
        if (at_ms, member) <= begin:
            continue
        last = f"{at_ms} {member}"
        if (end := _end(member, at_ms)) is not None:
            found.append(end)
    return last, tuple(found)


def _time_of(key: str) -> int:
    digits = key.partition(" ")[0]
    return int(digits) if digits.isdecimal() else -1


def _end(member: str, at_ms: int) -> CrawlEnd | None:
    """Return the end that a member tells of; others are the crawl and the name of its run."""
    try:
        crawl, worker, pages, items = json.loads(member)
        numbers = int(pages), int(items)
    except (ValueError, TypeError, RecursionError):
        return None
    if not isinstance(crawl, str) or not isinstance(worker, str):
        return None
    return CrawlEnd(f"{at_ms} {member}", CrawlId(crawl), WorkerName(worker), moment(at_ms), *numbers)
