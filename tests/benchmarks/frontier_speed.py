"""One measured crawl: workers of one kind on one site, from when all of them work to so many pages later."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil
import redis
from benchmarks.frontier_delay import Delay
from benchmarks.frontier_site import Site
from benchmarks.frontier_worker import SCRAPY_REDIS, done_pages, settings_of
from support.processes import end, quiet_environment, start
from support.redis_server import RedisServer
from support.waiting import wait_until

_TESTS = Path(__file__).parents[1]
_READY_WITHIN_S = 60.0
_PATIENCE_S = 30.0
_LOOK_EVERY_S = 0.01
_SHOWN_CHARS = 2000

_BEGIN_WITH = 24
"""How many pages a worker has to begin with, where there are several: else some would have nothing to do at first."""


@dataclass(frozen=True, slots=True)
class Course:
    """What is measured: after `skipped` pages, the next `pages`, by so many workers of one kind."""

    flavour: str
    pages: int
    skipped: int
    workers: int = 1
    with_items: bool = False


@dataclass(frozen=True, slots=True)
class Speed:
    """What came of it; the round trips are known only where Redis is at a distance."""

    pages_per_s: float
    worker_ms_per_page: float
    """Processor time of the workers' processes; it hardly depends on what else this machine does."""
    redis_us_per_page: float
    round_trips_per_1000: float | None = None


@dataclass(frozen=True, slots=True)
class Grounds:
    """Where crawls are measured: a site and a Redis, both of their own, and where logs go."""

    site: Site
    server: RedisServer
    folder: Path

    def measured(self, course: Course, *, through: Delay | None = None) -> Speed:
        """Run the course with an empty Redis and end its workers.

        Raises:
            AssertionError: it stands still before so many pages are done; the message shows what the workers said.

        """
        fetched = self.site.fetched()
        with redis.Redis.from_url(self.server.url) as client:
            client.flushall()
            with self._team(course, through) as team:
                least = course.skipped // (4 * course.workers)
                team.wait_until(lambda: team.pages() >= course.skipped and min(team.done()) >= least)
                before = _Moment.now(team, client, through)
                team.wait_until(lambda: team.pages() >= before.pages + course.pages)
                after = _Moment.now(team, client, through)
        pages = after.pages - before.pages
        assert self.site.fetched() - fetched >= after.pages, "pages that the site did not send"
        return Speed(
            pages_per_s=pages / (after.at_s - before.at_s),
            worker_ms_per_page=(after.workers_s - before.workers_s) / pages * 1e3,
            redis_us_per_page=(after.redis_s - before.redis_s) / pages * 1e6,
            round_trips_per_1000=(after.round_trips - before.round_trips) / pages * 1000 if through else None,
        )

    @contextmanager
    def _team(self, course: Course, through: Delay | None) -> Iterator[_Team]:
        """Start the workers, and let them loose together when each has loaded all it needs.

        When nothing is done for long, the error shows what all of them said.
        """
        port = through.port if through else self.server.port
        places = [self.folder / f"worker-{number}" for number in range(course.workers)]
        files = [place / "done" for place in places]
        processes = []
        held, go = os.pipe()
        with ExitStack() as stack:
            for place in places:
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
                processes.append(self._started(course, place, port=port, held=held))
                stack.callback(end, processes[-1])
            os.close(held)
            wait_until(
                lambda: all(file.exists() and file.stat().st_size for file in files),
                deadline_s=_READY_WITHIN_S,
                what="all workers to be ready",
            )
            os.close(go)
            try:
                yield _Team(course, processes, files)
            except AssertionError as error:
                raise AssertionError(f"{error}; the workers said:\n{_said(places)}") from None

    def _started(self, course: Course, place: Path, *, port: int, held: int) -> subprocess.Popen[bytes]:
        orders = {
            "port": self.site.port,
            "begin_with": 1 if course.workers == 1 else _BEGIN_WITH * course.workers,
            "stays": course.flavour == SCRAPY_REDIS,
            "done": str(place / "done"),
            "settings": settings_of(
                course.flavour,
                redis_url=f"redis://127.0.0.1:{port}/0",
                with_items=course.with_items,
                log=str(place / "log"),
            ),
        }
        command = [sys.executable, "-m", "benchmarks.frontier_worker", json.dumps(orders)]
        environment = quiet_environment(place, PYTHONPATH=str(_TESTS))
        with (place / "said").open("wb") as said, os.fdopen(os.dup(held), "rb") as stdin:
            return start(command, cwd=place, env=environment, output=said, stdin=stdin)


class _Team:
    """The workers of one course while they crawl."""

    def __init__(self, course: Course, processes: Sequence[subprocess.Popen[bytes]], files: Sequence[Path]) -> None:
        self._course = course
        self._processes = [psutil.Process(process.pid) for process in processes]
        self._numbers = [done_pages(file) for file in files]

    def done(self) -> list[int]:
        """Return how many pages each is done with by now."""
        return [number[0] for number in self._numbers]

    def pages(self) -> int:
        """Return how many pages all of them are done with by now."""
        return sum(self.done())

    def processor_s(self) -> float:
        """Return the processor time that they have taken."""
        return sum(sum(process.cpu_times()[:2]) for process in self._processes)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds; it is an error if nothing is done for long."""
        last, changed_at = -1, time.monotonic()
        while not condition():
            time.sleep(_LOOK_EVERY_S)
            if self.pages() != last:
                last, changed_at = self.pages(), time.monotonic()
            assert time.monotonic() - changed_at < _PATIENCE_S, f"{self._course} stands still at {self.done()}"


@dataclass(frozen=True, slots=True)
class _Moment:
    at_s: float
    pages: int
    workers_s: float
    redis_s: float
    round_trips: int

    @classmethod
    def now(cls, team: _Team, client: redis.Redis, through: Delay | None) -> Self:
        return cls(
            time.monotonic(),
            team.pages(),
            team.processor_s(),
            _processor_s(client),
            through.round_trips() if through else 0,
        )


def _processor_s(client: redis.Redis) -> float:
    used = client.info("cpu")
    return float(used["used_cpu_sys"]) + float(used["used_cpu_user"])


def _said(places: Sequence[Path]) -> str:
    files = [place / name for place in places for name in ("said", "log")]
    return "\n".join(file.read_text(errors="replace")[-_SHOWN_CHARS:] for file in files if file.exists())
