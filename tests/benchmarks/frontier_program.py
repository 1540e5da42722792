"""The command line of the frontier's benchmark: what is measured, how large, and what is printed of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.frontier_courses import Courses, Found, Sizes
from benchmarks.frontier_memory import bytes_per_pending, bytes_per_seen
from benchmarks.frontier_worker import CRAWLCTL, FLAVOURS, PLAIN, SCRAPY_REDIS
from benchmarks.measuring import described_machine
from support.redis_server import RedisServer

FULL = Sizes()
QUICK = Sizes(runs=1, pages=300, stock_s=1.5, seen=300_000, pending=20_000)
_ROW = "{:<56} {:>9} {:>9} {:>12} {:>8} {:>8}  {:<18} {}"
_NEAR_MS = 5
"""As far as this, one worker is to be about as fast as without Redis."""
_ITEMS_MS = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; empty where there is nothing to say."""

    what: str
    plain: str = ""
    crawlctl: str = ""
    stock: str = ""
    of_plain: str = ""
    of_stock: str = ""
    target: str = ""
    runs: str = ""

    def __str__(self) -> str:
        cells = (self.plain, self.crawlctl, self.stock, self.of_plain, self.of_stock)
        return _ROW.format(self.what, *(cell or "-" for cell in cells), self.target, self.runs).rstrip()


@dataclass(slots=True)
class Told:
    """What was found so far, for people and for programs."""

    rows: list[Row] = field(default_factory=list)
    last_line: dict[str, Any] = field(default_factory=dict)

    def add(self, rows: Iterable[Row], **found: Any) -> None:
        """Take both; the rows are shown at once on standard error, since the whole takes minutes."""
        for row in rows:
            self.rows.append(row)
            sys.stderr.write(f"{row}\n")
        for name, part in found.items():
            if isinstance(part, dict):
                self.last_line.setdefault(name, {}).update(part)
            else:
                self.last_line[name] = part


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts, print the table, and end with the line of JSON."""
    sizes, parts = _read(arguments)
    # What is measured is how it runs once installed: with its modules compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    told = Told()
    _say(described_machine())
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, RedisServer(Path(folder) / "redis") as server:
        courses = Courses(server, Path(folder), sizes)
        _say(f"{sizes.runs} run(s) of each, in turn; Redis is put at a distance by {courses.how_delayed}")
        for part in parts:
            _PARTS[part](told, courses, sizes, server)
    _say(_ROW.format("what (medians)", "plain", "crawlctl", "scrapy_redis", "/plain", "/stock", "target", "spread"))
    for row in told.rows:
        _say(str(row))
    _say(json.dumps(told.last_line))
    return 0


def _read(arguments: Sequence[str] | None) -> tuple[Sizes, Sequence[str]]:
    parser = argparse.ArgumentParser(description="The shared frontier beside plain Scrapy and scrapy-redis.")
    parser.add_argument("parts", nargs="*", help=f"which figures: {', '.join(_PARTS)} (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one run: does it all still work?")
    parser.add_argument("--runs", type=int, help=f"how often each is measured ({FULL.runs})")
    parser.add_argument("--pages", type=int, help=f"pages of one measured crawl ({FULL.pages})")
    parser.add_argument("--seen", type=int, help=f"fingerprints whose memory is measured ({FULL.seen:,})")
    parser.add_argument("--pending", type=int, help=f"requests whose memory is measured ({FULL.pending:,})")
    parser.add_argument("--rtt-ms", type=_numbers, dest="round_trips_ms", help="how far Redis is (0,1,5,20)")
    parser.add_argument("--workers", type=_numbers, help="how many workers, besides one (2,4)")
    options = vars(parser.parse_args(arguments))
    parts = options.pop("parts") or list(_PARTS)
    unknown = [part for part in parts if part not in _PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    sizes = QUICK if options.pop("quick") else FULL
    return replace(sizes, **{name: given for name, given in options.items() if given is not None}), parts


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _one(told: Told, courses: Courses, sizes: Sizes, _: RedisServer) -> None:
    for ms in sizes.round_trips_ms:
        found = courses.compared(ms)
        target = ">= 0.9 of plain" if ms <= _NEAR_MS else ""
        what = f"pages/s, 1 worker, Redis at {ms} ms ({found.round_trip_ms:.2f} measured)"
        key = str(ms)
        told.add([_speed(what, found, target=target)], pages_per_s={key: _rates(found)}, ratios={key: _ratios(found)})
        told.add(_costs(found, f"at {ms} ms", with_trips=ms > 0))
        if ms == min(sizes.round_trips_ms):
            told.add([], redis_us_per_page=_rounded(found.redis_us))
            told.add([], worker_ms_per_page={name: round(found.worker_ms(name), 3) for name in FLAVOURS})
        if ms > 0:
            told.last_line.setdefault("round_trips_per_1000", _rounded(found.round_trips))


def _several(told: Told, courses: Courses, sizes: Sizes, _: RedisServer) -> None:
    for workers in sizes.workers:
        found = courses.compared(0, workers=workers)
        what = f"pages/s, {workers} workers, Redis at 0 ms"
        told.add(
            [_speed(what, found, target="more, if cores are")],
            workers={str(workers): _rates(found)},
            ratios={f"{workers} workers": _ratios(found)},
        )


def _trips(told: Told, courses: Courses, _: Sizes, __: RedisServer) -> None:
    found = courses.counted()
    told.add(
        [_trips_row(found, "at 0 ms, through a door that counts")],
        round_trips_per_1000=_rounded(found.round_trips),
    )


def _items(told: Told, courses: Courses, _: Sizes, __: RedisServer) -> None:
    found = courses.compared(_ITEMS_MS, with_items=True)
    what = f"pages/s, 1 worker, each page's item to Redis, at {_ITEMS_MS} ms"
    told.add([_speed(what, found)], with_items={str(_ITEMS_MS): _rates(found)})


def _memory(told: Told, _: Courses, sizes: Sizes, server: RedisServer) -> None:
    seen = bytes_per_seen(server, server.folder, count=sizes.seen)
    pending = bytes_per_pending(server, server.folder, count=sizes.pending)
    targets = {"packed": "about 9"}
    stock = f"{seen[SCRAPY_REDIS]:.1f}"
    rows = [
        Row(
            f"bytes a seen URL, {kind} ({sizes.seen:,})",
            crawlctl=f"{taken:.1f}",
            stock=stock,
            of_stock=f"{taken / seen[SCRAPY_REDIS]:.2f}x",
            target=targets.get(kind, ""),
        )
        for kind, taken in seen.items()
        if kind != SCRAPY_REDIS
    ]
    rows.append(
        Row(
            f"bytes a pending request ({sizes.pending:,})",
            crawlctl=f"{pending[CRAWLCTL]:.0f}",
            stock=f"{pending[SCRAPY_REDIS]:.0f}",
            of_stock=f"{pending[CRAWLCTL] / pending[SCRAPY_REDIS]:.2f}x",
            target="< 300",
        )
    )
    told.add(
        rows,
        bytes_per_seen={kind: round(taken, 2) for kind, taken in seen.items()},
        bytes_per_pending={kind: round(taken, 1) for kind, taken in pending.items()},
    )


def _speed(what: str, found: Found, *, target: str = "") -> Row:
    rates = {flavour: f"{found.pages_per_s(flavour):.1f}" for flavour in FLAVOURS}
    spans = (f"{flavour} {low:.0f}..{high:.0f}" for flavour in FLAVOURS for low, high in [found.spread(flavour)])
    return Row(
        what,
        plain=rates[PLAIN],
        crawlctl=rates[CRAWLCTL],
        stock=rates[SCRAPY_REDIS],
        of_plain=f"{found.ratio_to(PLAIN):.2f}x",
        of_stock=f"{found.ratio_to(SCRAPY_REDIS):.1f}x",
        target=target,
        runs=", ".join(spans),
    )


def _costs(found: Found, where: str, *, with_trips: bool) -> list[Row]:
    plain, ours, stock = (found.worker_ms(flavour) for flavour in FLAVOURS)
    worker = Row(
        f"the worker's processor a page, {where}, ms",
        plain=f"{plain:.2f}",
        crawlctl=f"{ours:.2f}",
        stock=f"{stock:.2f}",
        of_plain=f"{ours / plain:.2f}x",
        of_stock=f"{ours / stock:.2f}x",
    )
    ours, stock = found.redis_us(CRAWLCTL), found.redis_us(SCRAPY_REDIS)
    redis = Row(
        f"Redis' processor a page, {where}, µs",
        plain=f"{found.redis_us(PLAIN):.0f}",
        crawlctl=f"{ours:.0f}",
        stock=f"{stock:.0f}",
        of_stock=f"{ours / stock:.2f}x",
        target="< 50 µs",
    )
    return [worker, redis, _trips_row(found, where)] if with_trips else [worker, redis]


def _trips_row(found: Found, where: str) -> Row:
    ours, stock = found.round_trips(CRAWLCTL), found.round_trips(SCRAPY_REDIS)
    return Row(
        f"round trips for 1,000 pages, {where}",
        crawlctl=f"{ours:.0f}",
        stock=f"{stock:.0f}",
        of_stock=f"{ours / stock:.3f}x",
        target="<= 100",
    )


def _rates(found: Found) -> dict[str, float]:
    return {flavour: round(found.pages_per_s(flavour), 1) for flavour in FLAVOURS}


def _ratios(found: Found) -> dict[str, float]:
    return {
        "of_plain": round(found.ratio_to(PLAIN), 3),
        "of_scrapy_redis": round(found.ratio_to(SCRAPY_REDIS), 2),
    }


def _rounded(median: Callable[[str], float]) -> dict[str, float]:
    return {flavour: round(median(flavour), 1) for flavour in (CRAWLCTL, SCRAPY_REDIS)}


_Part = Callable[[Told, Courses, Sizes, RedisServer], None]
_PARTS: Mapping[str, _Part] = {
    "one": _one,
    "several": _several,
    "trips": _trips,
    "items": _items,
    "memory": _memory,
}


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
