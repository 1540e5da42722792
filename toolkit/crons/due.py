"""When a cron is due: its timetable from start to end, put off by its jitter, and what becomes of late ones. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice

from toolkit.crons.timetable import Timetable
from toolkit.model.crons import Cron, Due, Late

LATE_AFTER_S = 60.0
"""How late a firing may be and still count as in time: a node that was killed just then is no absence."""

MAX_LATE = 100
"""How many late firings happen with `late: all`, the newest ones."""

_MOST_COUNTED = 1000
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=31), timedelta(days=366), timedelta(days=36_600))
_RANGE = 2**64


def next_due(cron: Cron, *, after: datetime) -> Due | None:
    """Return when the cron is due by its expression for the first time after a moment.

    `None` when it never is again: it is paused, follows a spider, or has come to its end.

    Raises:
        UsageError: its expression or time zone cannot be read.

    """
    return next(dues(cron, after=after), None)


def dues(cron: Cron, *, after: datetime) -> Iterator[Due]:
    """Yield when the cron is due after a moment, one after the other."""
    if cron.at is None or cron.is_paused:
        return
    if cron.starts_at is not None:
        # The start itself may be a due time.
        after = max(after, cron.starts_at - timedelta(milliseconds=1))
    for at in _timetable(cron.at, cron.timezone).all_after(after):
        if cron.ends_at is not None and at > cron.ends_at:
            return
        yield Due(at, at + timedelta(seconds=jitter_s(cron, at)))


def jitter_s(cron: Cron, at: datetime) -> float:
    """Return by how much this due time is put off: chance, but always the same for the same cron and time."""
    if not cron.jitter_s:
        return 0.0
    digest = hashlib.sha256(f"{cron.name}\n{at.timestamp():.0f}".encode()).digest()
    return cron.jitter_s * int.from_bytes(digest[:8], "big") / _RANGE


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a due time: which one fires (the newest, where several were missed), and when it is due next.

    With `is_skipped` none fires. `reason` tells of what was missed, if anything was.
    """

    at: datetime
    next: Due | None
    is_skipped: bool = False
    reason: str | None = None


def judged(cron: Cron, due: Due, *, now: datetime) -> Verdict:
    """Decide by the cron's late policy what becomes of a due time that has come, and of those that came after it."""
    passed = [due, *(islice(_passed(cron, due, now=now), _MOST_COUNTED))]
    if len(passed) > _MOST_COUNTED:
        passed = [due, *_newest_passed(cron, due, now=now)]
    newest = passed[-1]
    if cron.late is Late.ALL:
        return _one_after_the_other(cron, passed)
    following = next_due(cron, after=newest.at)
    missed = f"{_many(len(passed) - 1)} before it had passed unseen" if len(passed) > 1 else None
    late_s = (now - newest.fires_at).total_seconds()
    if cron.late is Late.SKIP and late_s > LATE_AFTER_S:
        reason = f"nobody was there to fire it for {late_s:.0f} s"
        return Verdict(newest.at, following, is_skipped=True, reason=f"{reason}; {missed}" if missed else reason)
    return Verdict(newest.at, following, reason=missed)


def _one_after_the_other(cron: Cron, passed: list[Due]) -> Verdict:
    beyond = len(passed) - MAX_LATE
    if beyond > 0:
        reason = f"it and {_many(beyond - 1)} after it are too many to fire late: the newest {MAX_LATE} are"
        return Verdict(passed[0].at, passed[beyond], is_skipped=True, reason=reason)
    return Verdict(passed[0].at, passed[1] if len(passed) > 1 else next_due(cron, after=passed[0].at))


def _passed(cron: Cron, due: Due, *, now: datetime) -> Iterator[Due]:
    for each in dues(cron, after=due.at):
        if each.fires_at > now:
            return
        yield each


def _newest_passed(cron: Cron, due: Due, *, now: datetime) -> list[Due]:
    """Return the newest due times that have passed, more than `MAX_LATE`, without walking through all of them."""
    for window in _WINDOWS:
        since = max(due.at, now - window)
        found = list(_passed(cron, Due(since, since), now=now))
        if len(found) > MAX_LATE or since == due.at:
            return found
    return []


def _many(count: int) -> str:
    return f"more than {_MOST_COUNTED} due times" if count >= _MOST_COUNTED else f"{count} due time(s)"


@lru_cache(maxsize=10_000)
def _timetable(expression: str, timezone: str) -> Timetable:
    return Timetable(expression, timezone)
