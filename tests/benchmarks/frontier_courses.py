"""Which crawls the frontier's benchmark lets run, and what was found of each: the three kinds in turn, some times."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.frontier_delay import Delay, delaying_program, median_round_trip_ms
from benchmarks.frontier_site import Site
from benchmarks.frontier_speed import Course, Grounds, Speed
from benchmarks.frontier_worker import CRAWLCTL, FLAVOURS, SCRAPY_REDIS
from support.redis_server import RedisServer

_LEAST_PAGES = 20
_SHARE_SKIPPED = 5
_STOCK_WAITS = 12
"""How often scrapy-redis waits for Redis in each of its first pages."""


_SPARE = 300
"""So many pages more than are counted: a look comes late, and a small site would be at its end by then."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a run is. `stock_s` is how long scrapy-redis is watched where Redis is far away."""

    runs: int = 5
    pages: int = 1200
    round_trips_ms: tuple[float, ...] = (0, 1, 5, 20)
    workers: tuple[int, ...] = (2, 4)
    with_items: bool = True
    stock_s: float = 5.0
    seen: int = 1_000_000
    pending: int = 100_000


@dataclass(slots=True)
class Found:
    """What was measured of one course by each kind, run by run, and how far Redis really was."""

    round_trip_ms: float
    speeds: dict[str, list[Speed]] = field(default_factory=dict)

    def pages_per_s(self, flavour: str) -> float:
        """Return the median."""
        return statistics.median(speed.pages_per_s for speed in self.speeds[flavour])

    def spread(self, flavour: str) -> tuple[float, float]:
        """Return the slowest and the fastest run."""
        found = [speed.pages_per_s for speed in self.speeds[flavour]]
        return min(found), max(found)

    def ratio_to(self, flavour: str) -> float:
        """Return how many times as fast crawlctl is: the median over pairs of runs that followed one another."""
        pairs = zip(self.speeds[CRAWLCTL], self.speeds[flavour], strict=True)
        return statistics.median(ours.pages_per_s / theirs.pages_per_s for ours, theirs in pairs)

    def worker_ms(self, flavour: str) -> float:
        """Return the workers' processor time a page, the median."""
        return statistics.median(speed.worker_ms_per_page for speed in self.speeds[flavour])

    def redis_us(self, flavour: str) -> float:
        """Return Redis' processor time a page, the median."""
        return statistics.median(speed.redis_us_per_page for speed in self.speeds[flavour])

    def round_trips(self, flavour: str) -> float:
        """Return the round trips for 1,000 pages, the median; 0 where they were not counted."""
        return statistics.median(speed.round_trips_per_1000 or 0.0 for speed in self.speeds[flavour])


class Courses:
    """Lets one course run after the other on the same Redis."""

    def __init__(self, server: RedisServer, folder: Path, sizes: Sizes) -> None:
        self._server = server
        self._folder = folder
        self._sizes = sizes
        self._program, self.how_delayed = delaying_program(folder / "delay")

    def compared(self, round_trip_ms: float, *, workers: int = 1, with_items: bool = False) -> Found:
        """Let the three take turns, so that what else happens on this machine happens to all of them."""
        kinds = [self._course(flavour, round_trip_ms, workers=workers, with_items=with_items) for flavour in FLAVOURS]
        return self._found(kinds, runs=self._sizes.runs, round_trip_ms=round_trip_ms, is_direct=not round_trip_ms)

    def counted(self) -> Found:
        """Count round trips to a Redis at no distance; only on the way there can they be counted."""
        kinds = [self._course(flavour, 0, workers=1, with_items=False) for flavour in (CRAWLCTL, SCRAPY_REDIS)]
        return self._found(kinds, runs=1, round_trip_ms=0, is_direct=False)

    def _found(self, kinds: list[Course], *, runs: int, round_trip_ms: float, is_direct: bool) -> Found:
        with ExitStack() as stack:
            # A tenth more than are fetched, so that nobody sees the thin end of the crawl.
            most = max(course.skipped + course.pages for course in kinds)
            grounds = Grounds(stack.enter_context(Site(pages=round(most * 1.1) + _SPARE)), self._server, self._folder)
            through = None
            if not is_direct:
                delay = Delay(self._program, target_port=self._server.port, round_trip_ms=round_trip_ms)
                through = stack.enter_context(delay)
            found = Found(median_round_trip_ms(through.port if through else self._server.port))
            for _ in range(runs):
                for course in kinds:
                    found.speeds.setdefault(course.flavour, []).append(grounds.measured(course, through=through))
        return found

    def _course(self, flavour: str, round_trip_ms: float, *, workers: int, with_items: bool) -> Course:
        pages = self._sizes.pages if workers == 1 else self._sizes.pages * 2
        if flavour == SCRAPY_REDIS and round_trip_ms:
            # A window of its first pages tells its speed.
            fitting = self._sizes.stock_s / (_STOCK_WAITS * round_trip_ms / 1000)
            pages = min(pages, max(_LEAST_PAGES, round(fitting * workers)))
        return Course(flavour, pages, skipped=pages // _SHARE_SKIPPED, workers=workers, with_items=with_items)
