"""Reading spans and moments of time as people write them."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

from toolkit.model.errors import UsageError

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_TIME_OF_DAY = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
_SPAN = re.compile(r"(?:[0-9]{1,9}[smhdw])+")


def seconds(text: str) -> int:
    """Read `90s`, `15m`, `1h30m`, `7d` as seconds.

    Raises:
        UsageError: it is not written so.

    """
    if not _SPAN.fullmatch(text):
        raise UsageError(f"{text!r} is no span of time", hint="write 30s, 15m, 2h, 7d or 1h30m")
    return sum(int(count) * _UNITS_S[unit] for count, unit in re.findall(r"([0-9]+)([smhdw])", text))


def ago(text: str | None, *, now: datetime) -> datetime | None:
    """Return the moment so long before `now`.

    Raises:
        UsageError: it is not written as a span, or reaches back before the calendar.

    """
    try:
        return None if text is None else now - timedelta(seconds=seconds(text))
    except OverflowError as error:
        raise UsageError(f"{text!r} is longer than the calendar", hint="leave it out to see everything") from error


def moment(text: str, *, now: datetime) -> datetime:
    """Read `21:30` (the next one that comes) or an ISO time; without an offset, it is this machine's local time.

    What is returned is in the local zone, so that it can be told in the words it was given in.

    Raises:
        UsageError: it is not written so.

    """
    try:
        if not _TIME_OF_DAY.fullmatch(text):
            return datetime.fromisoformat(text).astimezone()
        hour, minute, second = (*(int(part) for part in text.split(":")), 0)[:3]
        at = time(hour, minute, second)
        # Each day by its own offset: summer time may begin in between.
        today = now.astimezone().date()
        days = (datetime.combine(today + timedelta(days=more), at).astimezone() for more in (0, 1, 2))
        return next(day for day in days if day > now)
    except (ValueError, OverflowError) as error:
        hint = "write 21:30, 2026-11-21T21:30 or 2026-11-21T20:30:00Z"
        raise UsageError(f"{text!r} is no moment in time", hint=hint) from error


def moment_text(at: datetime) -> str:
    """Tell a moment with the zone that it is told in."""
    return f"{at:%Y-%m-%d %H:%M:%S} {at.tzname() or ''}".strip()
