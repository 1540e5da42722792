"""What the runner adds to Scrapy: the reporter, and feeds whose items are in their files at once.

The reporter tells the node how the crawl is, and follows what operators wish. It speaks through the job's folder alone.
Whatever goes wrong with that is logged once and never reaches the crawl.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from io import BufferedWriter
from os import sysconf
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.extensions import feedexport

from toolkit.model.jobs import JobState
from toolkit.model.queue import Progress, Wish
from toolkit.runs.control import read_control
from toolkit.runs.folder import CONTROL, REPORT, RunFolder
from toolkit.runs.report import most_statuses, report_of
from toolkit.spider.repeating import Repeating, repeating
from toolkit.spider.throttle import throttle_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LOOK_EVERY_S = 0.5
LOOKS_A_REPORT = 3
STATUS_COUNT = "downloader/response_status_count/"
RATE_OVER_S = 60.0
"""The pages per minute are those of the last so many seconds, or since the start if that is less."""

logger = logging.getLogger(__name__)


class Reporter:
    """Writes `report.json` every 1.5 s and at the end; makes what `control.json` wishes so within half a second."""

    def __init__(self, crawler: Crawler, folder: RunFolder) -> None:
        self._crawler = crawler
        self._folder = folder
        self._throttle = throttle_of(crawler)
        self._wish = Wish()
        self._control_seen: tuple[int, int, int] | None = None
        self._rate = Rate()
        self._looks = 0
        self._last: dict[str, Any] = {}
        self._finish_reason: str | None = None
        self._is_troubled = False
        self._loop: Repeating | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take part in the crawl if a node runs it.

        Raises:
            NotConfigured: no node does; Scrapy leaves the extension out.

        """
        folder = RunFolder.of_this_process()
        if folder is None:
            raise NotConfigured
        reporter = cls(crawler, folder)
        crawler.signals.connect(reporter.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(reporter.spider_closed, signal=signals.spider_closed)
        crawler.signals.connect(reporter.engine_stopped, signal=signals.engine_stopped)
        return reporter

    def spider_opened(self) -> None:
        """Report at once, follow what is wished before the first download, and go on doing both."""
        self._look()
        self._loop = repeating(self._look)
        self._loop.start(LOOK_EVERY_S, now=False)

    def spider_closed(self, reason: str) -> None:
        """Report how the crawl ended; its last counts may still change."""
        self._finish_reason = reason
        self._undisturbed(self._report)

    def engine_stopped(self) -> None:
        """Report the last counts, and stop looking."""
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        self._undisturbed(self._report)

    def _look(self) -> None:
        was_paused = self._is_paused
        self._undisturbed(self._follow)
        if self._looks % LOOKS_A_REPORT == 0 or self._is_paused != was_paused:
            self._undisturbed(self._report)
        self._looks += 1

    def _undisturbed(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            # Whatever it is, a full disk or a collector of statistics that raises: the crawl is more important.
            if not self._is_troubled:
                logger.warning("The node cannot be told how this crawl is; it goes on all the same", exc_info=True)
            self._is_troubled = True

    def _follow(self) -> None:
        seen = _stamp(self._folder.path / CONTROL)
        # A folder that is gone wishes nothing new, and does not let go either.
        if seen != self._control_seen and (seen is not None or self._folder.path.exists()):
            self._wish = read_control(self._folder.read(CONTROL))
            self._control_seen = seen
        self._throttle.apply(self._wish)

    def _report(self) -> None:
        report = report_of(self._progress())
        if report != self._last:
            self._folder.write(REPORT, report)
            self._last = report

    @property
    def _is_paused(self) -> bool:
        return self._crawler.engine.paused

    def _progress(self) -> Progress:
        stats = self._crawler.stats
        # A collector that keeps nothing knows nothing: that is no zero.
        known = stats.get_stats()

        def count(name: str) -> int | None:
            value = known.get(name, 0)
            return int(value) if known and isinstance(value, int) else None

        pages = count("response_received_count")
        return Progress(
            state=JobState.PAUSED if self._is_paused else JobState.RUNNING,
            pages=pages,
            items=count("item_scraped_count"),
            errors=count("log_count/ERROR"),
            retries=count("retry/count"),
            bytes=count("downloader/response_bytes"),
            pages_per_minute=None if pages is None else self._rate.after(pages, time.monotonic()),
            memory_mb=memory_mb(),
            finish_reason=self._finish_reason,
            statuses=statuses_in(known),
        )


class FileFeedStorage(feedexport.FileFeedStorage):
    """Scrapy's feeds into local files, with each item in its file once it is scraped: no SIGKILL loses one.

    It has the name of Scrapy's own, by which stats count feeds. A format or a post-processing that keeps items back in
    memory does so here too.
    """

    def open(self, spider: Spider) -> IO[bytes]:
        """Open the file as Scrapy does."""
        file = super().open(spider)
        return Unbuffered(file.detach()) if isinstance(file, BufferedWriter) else file


class Unbuffered(BufferedWriter):
    """A file that gets what is written at once and whole; what it does not take is kept for the next write."""

    def write(self, data: ReadableBuffer) -> int:
        """Write, and leave it to the next write or to the end to fail, as without this class."""
        written = super().write(data)
        with contextlib.suppress(OSError):
            self.flush()
        return written


def statuses_in(stats: Mapping[str, Any]) -> Mapping[str, int] | None:
    """Return how often each HTTP status was answered, from Scrapy's own counts (`DownloaderStats`)."""
    told = ((name.removeprefix(STATUS_COUNT), count) for name, count in stats.items() if name.startswith(STATUS_COUNT))
    return most_statuses({status: count for status, count in told if isinstance(count, int)})


class Rate:
    """How many pages a minute there were lately."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def after(self, pages: int, now: float) -> float | None:
        """Take in the count at a time, and return the rate; `None` while there is no time to divide by."""
        self._seen.append((now, pages))
        while len(self._seen) > 1 and self._seen[1][0] <= now - RATE_OVER_S:
            self._seen.popleft()
        since, pages_then = self._seen[0]
        return round((pages - pages_then) * 60 / (now - since), 1) if now > since else None


def memory_mb() -> float | None:
    """Return the memory that this process occupies; where only its highest so far is known (macOS), that."""
    try:
        resident = int(Path("/proc/self/statm").read_bytes().split()[1]) * sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resident = highest if sys.platform == "darwin" else highest * 1024
    return round(resident / 1e6, 1)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes whenever the file is replaced; `None` when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
