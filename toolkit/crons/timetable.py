"""When a cron expression is due in a time zone, also when its clocks are changed: the one door to cronsim. Pure.

cronsim reads the expression and walks through plain local times; what a local time is in UTC is decided here, since
cronsim leaves out a skipped `*/30 2 * * *`, fires `0 */2 * * *` twice in the repeated hour, and gives a time that is
past when it is asked within that hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from toolkit.model.errors import UsageError

MAX_EXPRESSION_CHARS = 200
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS, _HOUR = 5, -4
_HINT = "write minute, hour, day of month, month, day of week, as in '30 3 * * 1-5', or @daily"
_SOME_DAY = datetime(2026, 1, 1)  # noqa: DTZ001 - any local time will do to have an expression read


class Timetable:
    """The due times of one expression in one time zone.

    An expression that names hours is due once for each local time that it names: one that the clocks skip falls to the
    end of the gap, together with others of that gap; one that they repeat is due the first time. An expression for
    every hour follows the time that passes: in the repeated hour it is due again, and in the skipped one it is not.

    A sixth field, for seconds, comes first where it is written; `check_expression` refuses it to operators.

    Raises:
        UsageError: the expression or the time zone cannot be read.

    """

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self.zone = zone_of(timezone)
        self._text = _plain(expression)
        parsed = _walk(self._text, _SOME_DAY)
        self._is_for_every_hour = parsed.hours == set(range(24))
        if self._is_for_every_hour:
            # However it was written: cronsim knows by the star that the hours do not matter.
            fields = self._text.split()
            fields[_HOUR] = "*"
            self._text = " ".join(fields)

    def after(self, moment: datetime) -> datetime | None:
        """Return the first due time after the moment, in UTC; `None` when there is none within fifty years."""
        return next(self.all_after(moment), None)

    def all_after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the due times after the moment, in UTC, each once, in their order."""
        local = moment.astimezone(self.zone)
        begin = local if self._is_for_every_hour else local.replace(tzinfo=None)
        last = moment.astimezone(UTC)
        for due in _walk(self._text, begin):
            at = due.astimezone(UTC) if due.tzinfo is not None else instant_of(due, self.zone)
            if at > last:
                yield at
                last = at


def check_expression(expression: str) -> str:
    """Return the expression, or say why an operator cannot have it.

    Raises:
        UsageError: it has seconds, or cannot be read.

    """
    fields = _plain(expression).split()
    if len(fields) == _FIELDS + 1:
        text = f"the expression {expression!r} has six fields, and crons know no seconds"
        raise UsageError(text, hint=_HINT)
    _walk(" ".join(fields), _SOME_DAY)
    return expression


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone of the tz database.

    Raises:
        UsageError: there is none of this name.

    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(f"there is no time zone {name[:60]!r}", hint="write it as in Europe/Berlin, or UTC") from error


def instant_of(local: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment of a local time in UTC: the first of two, and the end of the gap for one that is skipped."""
    early = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if early.astimezone(zone).replace(tzinfo=None) == local:
        return early
    # In a gap, one reading lies before the moment of the change and the other after it: halve what is between them.
    low, high = sorted((early, local.replace(tzinfo=zone, fold=1).astimezone(UTC)))
    after = high.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (low, middle) if middle.astimezone(zone).utcoffset() == after else (middle, high)
    return high


def _plain(expression: str) -> str:
    text = " ".join(expression.split())
    if len(text) > MAX_EXPRESSION_CHARS:
        raise UsageError(f"an expression of {len(text)} characters is too long: {MAX_EXPRESSION_CHARS} are enough")
    if text.startswith("@"):
        if text.lower() not in NICKNAMES:
            known = ", ".join(NICKNAMES)
            raise UsageError(f"there is no expression {text!r}", hint=f"there are {known}; {_HINT}")
        return NICKNAMES[text.lower()]
    return text


def _walk(text: str, begin: datetime) -> CronSim:
    try:
        return CronSim(text, begin)
    except (CronSimError, ValueError, TypeError, LookupError, AssertionError) as error:
        why = str(error).removeprefix("Bad ") if isinstance(error, CronSimError) else "it"
        told = "it has not five fields" if why == "Wrong number of fields" else f"{why} is wrong"
        raise UsageError(f"the expression {text!r} cannot be read: {told}", hint=_HINT) from error
