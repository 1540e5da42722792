"""Reading spans of time as people write them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from toolkit.model.errors import UsageError

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
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
