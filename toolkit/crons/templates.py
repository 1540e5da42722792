"""Templates in a cron's arguments and settings: names in braces that stand for what each firing is. Pure.

A name is not looked up in anything: there are these names and no others, no attributes, no formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from toolkit.model.errors import UsageError

NAMES = {
    "date": "the day of the due time, 2026-11-21",
    "time": "its time of day, 03:00",
    "yesterday": "the day before",
    "due": "the due time with its zone, 2026-11-21T03:00:00+01:00",
    "last_success": "when the last firing was due of which a job finished well; {last_success:TEXT}: TEXT for never",
    "cron": "the cron's name",
    "spider": "its spider",
    "project": "the project that the spider was found in",
    "job": "the id of the job",
    "after": "the id of the job that ended, where the cron follows one",
}
WITH_FALLBACK = frozenset({"last_success", "after"})
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_HINT = "a brace that stands for itself is written twice: {{ or }}"


@dataclass(frozen=True, slots=True)
class Occasion:
    """What one job of one firing is made for."""

    due_at: datetime
    zone: ZoneInfo
    cron: str
    spider: str
    project: str
    job: str
    after: str | None = None
    last_success_at: datetime | None = None

    def values(self) -> dict[str, str | None]:
        """Return what each name stands for; `None` where there is nothing."""
        local = self.due_at.astimezone(self.zone)
        good = self.last_success_at
        return {
            "date": f"{local:%Y-%m-%d}",
            "time": f"{local:%H:%M}",
            "yesterday": f"{local - timedelta(days=1):%Y-%m-%d}",
            "due": local.isoformat(timespec="seconds"),
            "last_success": None if good is None else good.astimezone(self.zone).isoformat(timespec="seconds"),
            "cron": self.cron,
            "spider": self.spider,
            "project": self.project,
            "job": self.job,
            "after": self.after,
        }


def check_template(text: str) -> None:
    """Refuse a text in which a name in braces means nothing.

    Raises:
        UsageError: it does; the message says which.

    """
    for part in _PART.finditer(text):
        if part[0] in {"{", "}"}:
            raise UsageError(f"a lonely {part[0]!r} in {text[:60]!r}", hint=_HINT)
        if part[1] is None:
            continue
        name, mark, _ = part[1].partition(":")
        if name not in NAMES:
            there = ", ".join(f"{{{each}}}" for each in NAMES)
            raise UsageError(f"there is no {part[0]} to fill in", hint=f"there are {there}; {_HINT}")
        if mark and name not in WITH_FALLBACK:
            raise UsageError(f"{{{name}}} is always known: {part[0]} can have no text for its absence")


def filled(texts: Mapping[str, str], occasion: Occasion) -> dict[str, str]:
    """Return the texts with every template filled in.

    Raises:
        UsageError: see `check_template`.

    """
    if not any("{" in text or "}" in text for text in texts.values()):
        return dict(texts)
    values = occasion.values()
    return {name: _filled(text, values) for name, text in texts.items()}


def _filled(text: str, values: Mapping[str, str | None]) -> str:
    check_template(text)

    def replaced(part: re.Match[str]) -> str:
        if part[1] is None:
            return part[0][0]
        name, _, fallback = part[1].partition(":")
        value = values[name]
        return fallback if value is None else value

    return _PART.sub(replaced, text)
