"""Reads what the cluster counts and measures of itself, in a few round trips however many jobs there are."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from toolkit.model.measures import Measures
from toolkit.model.names import LineName
from toolkit.model.redis_health import RedisHealth
from toolkit.store import redis_health
from toolkit.store.connect import RedisDoor
from toolkit.store.keys import Keys
from toolkit.store.redis_crawl_sizes import RedisCrawlSizes
from toolkit.store.redis_samples import RedisSamples
from toolkit.store.wire_measures import read_claims, read_count, read_ended

LATE_MS = 60_000
PINGS = 3


class RedisMeasures:
    """Keeps what `OwnMeasures` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys
        self._samples = RedisSamples(door, keys)
        self._sizes = RedisCrawlSizes(door)

    def read(self) -> Measures:
        """See `OwnMeasures.read`."""
        keys = self._keys
        clock, counts, crons, first = self._door.ask_together(
            ("TIME",),
            ("HGETALL", keys.measures),
            ("ZCARD", keys.crons_due),
            ("ZRANGE", keys.crons_due, 0, 0, "WITHSCORES"),
        )
        now_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000
        samples = self._samples.of_cluster(limit=1)
        return Measures(
            at=_moment(now_ms),
            claims=read_claims(counts),
            claims_waited_s=read_count(counts, "waited_ms") / 1000,
            started=read_count(counts, "started"),
            requeued=read_count(counts, "requeued"),
            leases_lost=read_count(counts, "leases_lost"),
            ended=read_ended(counts),
            pages=read_count(counts, "pages"),
            items=read_count(counts, "items"),
            errors=read_count(counts, "errors"),
            oldest_waiting_s=self.oldest_waiting_s(),
            sample=samples[-1] if samples else None,
            crons=int(crons),
            crons_late=int(self._door.ask("ZCOUNT", keys.crons_due, "-inf", now_ms - LATE_MS)) if crons else 0,
            next_cron_at=_moment(float(first[1])) if first else None,
            crawls=self._sizes.all(),
            redis=self._health(),
        )

    def redis(self) -> RedisHealth:
        """See `OwnMeasures.redis`. One round trip."""
        return redis_health.read_some(self._door, "memory", "persistence")

    def oldest_waiting_s(self) -> float | None:
        """See `OwnMeasures.oldest_waiting_s`. Three round trips."""
        return max(self.waiting_s().values(), default=None)

    def waiting_s(self) -> Mapping[LineName, float]:
        """See `OwnMeasures.waiting_s`. Three round trips."""
        keys = self._keys
        lines: Sequence[str] = sorted(self._door.ask("SMEMBERS", keys.lines))
        if not lines:
            return {}
        clock, *heads = self._door.ask_together(
            ("TIME",), *(("ZRANGE", keys.line_prefix + line, 0, 0) for line in lines)
        )
        firsts = {line: head[0] for line, head in zip(lines, heads, strict=True) if head}
        if not firsts:
            return {}
        now_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000
        jobs = zip(firsts, self._door.ask("HMGET", keys.jobs, *firsts.values()), strict=True)
        ready_ms = {line: json.loads(job).get("ready_ms", now_ms) for line, job in jobs if job}
        return {LineName(line): max(0, now_ms - each) / 1000 for line, each in ready_ms.items()}

    def _health(self) -> RedisHealth:
        said = self._door.ask("INFO")
        taken = []
        for _ in range(PINGS):
            begun = time.monotonic()
            self._door.ask("PING")
            taken.append(time.monotonic() - begun)
        place = str(self._door.address)
        return replace(redis_health.told(said), place=place, latency_s=statistics.median(taken))


def _moment(at_ms: float) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
