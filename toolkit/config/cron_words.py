"""What is written of a cron in words, on the command line as in a file: what it follows, when it begins and ends."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from toolkit.model.crons import After, Outcome
from toolkit.model.errors import UsageError
from toolkit.model.names import SpiderName

_FIRST, _LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def after_of(text: str) -> After:
    """Read `SPIDER` or `SPIDER success|failed|any`.

    Raises:
        UsageError: it is not written so.

    """
    words = text.split()
    known = [each.value for each in Outcome]
    if not 1 <= len(words) <= 2 or (len(words) == 2 and words[1] not in known):  # noqa: PLR2004 - spider and outcome
        raise UsageError(f"{text[:60]!r} is nothing to follow", hint=f"write SPIDER, or SPIDER {'|'.join(known)}")
    return After(SpiderName(words[0]), Outcome(words[1]) if len(words) > 1 else Outcome.SUCCESS)


def moment_of(text: str, timezone: str, *, is_end: bool = False) -> datetime:
    """Read a day or an ISO time, in UTC; without an offset it is of the cron's zone. A day as an end counts whole.

    Raises:
        UsageError: it is not written so, or there is no such time zone.

    """
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(f"there is no time zone {timezone[:60]!r}", hint="write it as in Europe/Berlin") from error
    hint = "write 2026-12-31, 2026-12-31T21:30 or 2026-12-31T20:30:00Z"
    try:
        if _DAY.fullmatch(text):
            day = date.fromisoformat(text) + timedelta(days=1 if is_end else 0)
            at = datetime.combine(day, time(), zone).astimezone(UTC) - timedelta(seconds=1 if is_end else 0)
        else:
            at = datetime.fromisoformat(text)
            at = (at if at.tzinfo is not None else at.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text[:60]!r} is no day and no time", hint=hint) from error
    if not _FIRST <= at <= _LAST:
        raise UsageError(f"{text[:60]!r} is no day of our time", hint=hint)
    return at
