"""What a Scrapy log tells of its job: pure reading of text, nothing is evaluated.

The shapes are Scrapy's own (`extensions/logstats.py`, `statscollectors.py`, `core/engine.py`), alike from 2.0 to 2.19.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

TAIL_BYTES = 16 * 1024
# A line of Scrapy's own begins with its time; a bracket before the logger's name means that somebody quotes one.
_BEGIN = r"^[^\[\n]*\["
# Not any line of Scrapy's: some projects silence its loggers in the spider's __init__, before the engine opens it.
_AT_WORK = re.compile(
    _BEGIN + r"scrapy\.(?:core\.\w+|extensions\.logstats|statscollectors)\] (?:INFO|DEBUG): ", re.MULTILINE
)
_LINE = re.compile(_BEGIN + r".*$", re.MULTILINE)
# What asyncio and Twisted say of an error that nobody caught, such as one in a spider's __init__.
_DYING = re.compile(r"\[asyncio\] ERROR: Task exception was never retrieved|\[twisted\] CRITICAL: ")
_PROGRESS = re.compile(
    _BEGIN + r"scrapy\.extensions\.logstats\] INFO: "
    r"Crawled (\d{1,15}) pages \(at \d+ pages/min\), scraped (\d{1,15}) items \(at \d+ items/min\)",
    re.MULTILINE,
)
_CLOSED = re.compile(_BEGIN + r"scrapy\.core\.engine\] INFO: Spider closed \((.+)\)\r?$", re.MULTILINE)
_DUMP = re.compile(_BEGIN + r"scrapy\.statscollectors\] INFO: Dumping Scrapy stats:\r?$", re.MULTILINE)
_COUNT = re.compile(r"^[ {]'([^']+)': (\d{1,15})[,}]", re.MULTILINE)
_TIME = re.compile(r"^[ {]'(start_time|finish_time)': datetime\.datetime\((\d+(?:, \d+){2,6})", re.MULTILINE)
_STAMP = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \[", re.MULTILINE)
_QUARTER_H = timedelta(minutes=15)
_FARTHEST = timedelta(hours=15)


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Counts and times out of a log; `None` is what it does not tell.

    `breaks_off` says that the log shows Scrapy at work, or dying, but not closing the spider: when the process is gone
    it ended without that. A log kept at a higher level than INFO shows neither.
    """

    breaks_off: bool = False
    finish_reason: str | None = None
    pages: int | None = None
    items: int | None = None
    errors: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    utc_offset: timedelta | None = None


def read_log(text: str, *, written_at: str | None = None) -> LogFacts:
    """Read the end of a log. `written_at` is the file's HTTP `Last-Modified`; it tells the node's time zone."""
    dumps = list(_DUMP.finditer(text))
    stats = text[dumps[-1].end() :] if dumps else ""
    counts = {name: int(count) for name, count in _COUNT.findall(stats)}
    times = {name: _utc(fields) for name, fields in _TIME.findall(stats)}
    closed = _CLOSED.findall(text)
    progress = _PROGRESS.findall(text)
    pages, items = (int(progress[-1][0]), int(progress[-1][1])) if progress else (None, None)
    if closed and dumps:
        pages, items = counts.get("response_received_count", 0), counts.get("item_scraped_count", 0)
    return LogFacts(
        breaks_off=not closed and (_AT_WORK.search(text) is not None or _is_dying(text)),
        finish_reason=closed[-1] if closed else None,
        pages=pages,
        items=items,
        errors=counts.get("log_count/ERROR", 0) if closed and dumps else None,
        started_at=times.get("start_time"),
        ended_at=times.get("finish_time"),
        utc_offset=utc_offset(text, written_at),
    )


def to_utc(local: str | None, offset: timedelta | None) -> datetime | None:
    """Turn a time of `listjobs.json` into UTC; `None` when the node's offset is not known."""
    if local is None or offset is None:
        return None
    return (datetime.fromisoformat(local).replace(tzinfo=UTC) - offset).replace(microsecond=0)


def _is_dying(text: str) -> bool:
    lines = _LINE.findall(text)
    return bool(lines) and _DYING.search(lines[-1]) is not None


def _utc(fields: str) -> datetime | None:
    year, month, day, hour, minute, second = [*(int(field) for field in fields.split(", ")), 0, 0, 0][:6]
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def utc_offset(text: str, written_at: str | None) -> timedelta | None:
    """Return how far the node's clock is ahead of UTC, `None` when that is not told.

    The last line's local time is compared with the moment of its writing; zones differ by quarters of an hour.
    """
    stamps = _STAMP.findall(text)
    if not stamps or written_at is None:
        return None
    try:
        local = datetime.strptime(stamps[-1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        written = parsedate_to_datetime(written_at)
    except ValueError:
        return None
    offset = round((local - written.replace(tzinfo=written.tzinfo or UTC)) / _QUARTER_H) * _QUARTER_H
    return offset if abs(offset) <= _FARTHEST else None
