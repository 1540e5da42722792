"""How values read on a page: ages, spans, numbers, moments, and the sign beside each state. Pure but for the clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from markupsafe import Markup

from toolkit.model.jobs import Job
from toolkit.views.jobs import span_text

NONE = "\N{EN DASH}"
# What is laid into these is escaped.
_STATE = Markup('<span class="state {}"><span aria-hidden="true">{}</span> {}</span>')
_TIME = Markup('<time datetime="{}" title="{}">{}</time>')
_BYTES = 1024
_FEW = 10
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400

SIGNS = {
    "pending": ("○", "wait"),
    "starting": ("◔", "busy"),
    "running": ("●", "busy"),
    "paused": ("‖", "held"),
    "finished": ("✓", "good"),
    "failed": ("✕", "bad"),
    "cancelled": ("⊘", "held"),
    "lost": ("?", "bad"),
    "live": ("●", "good"),
    "draining": ("◒", "held"),
    "stale": ("◔", "wait"),
    "unreachable": ("✕", "bad"),
    "unauthorized": ("✕", "bad"),
    "waiting": ("○", "wait"),
    "over": ("✓", "good"),
    "unusable": ("✕", "bad"),
    "fired": ("✓", "good"),
    "skipped": ("↷", "held"),
    "active": ("●", "good"),
    "held": ("‖", "held"),
    "done": ("✓", "good"),
    "refused": ("✕", "bad"),
    "interrupted": ("✕", "bad"),
    "begun": ("◔", "busy"),
}
"""Beside each state a sign of its own, so that no state is told by its colour alone."""


def now() -> datetime:
    """Return this machine's time; only ages on a page depend on it."""
    return datetime.now(UTC)


def state(value: str | StrEnum, label: str | None = None) -> Markup:
    """Show a state: its sign and its word."""
    word = str(value)
    sign, tone = SIGNS.get(word, ("●", "held"))
    return _STATE.format(tone, sign, label or word)


def moment(at: datetime | None) -> str:
    """Show a moment: how long ago it was or how soon it is, and, on pointing at it, the time itself."""
    if at is None:
        return NONE
    seconds = (now() - at).total_seconds()
    told = f"in {about(-seconds)}" if seconds < -1 else f"{about(seconds)} ago"
    return _time(at, told)


def about(seconds: float) -> str:
    """Show a span in its largest unit only: what a page says of it is old at once."""
    for unit_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if seconds >= 2 * unit_s:
            return f"{int(seconds // unit_s)}{unit}"
    return f"{max(0, int(seconds))}s"


def clock(at: datetime | None) -> str:
    """Show a moment by the clock in UTC, as everywhere on the pages, with its date where that is not today."""
    if at is None:
        return NONE
    is_near = abs(now() - at) < timedelta(hours=18)
    utc = at.astimezone(UTC)
    return _time(at, f"{utc:%H:%M:%S}" if is_near else f"{utc:%Y-%m-%d %H:%M}")


def _time(at: datetime, told: str) -> Markup:
    utc = at.astimezone(UTC)
    return _TIME.format(f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M:%S} UTC", told)


def took(job: Job) -> str:
    """Show how long a job has run, or ran."""
    if job.started_at is None:
        return NONE
    end = job.ended_at or (now() if job.state.is_active else None)
    return NONE if end is None else span_text((end - job.started_at).total_seconds())


def span(seconds: float | None) -> str:
    """Show a span in its largest unit and the next."""
    return NONE if seconds is None else span_text(seconds)


def number(value: float | None) -> str:
    """Show a number with its thousands apart; small fractions keep a digit or two."""
    if value is None:
        return NONE
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.2f}" if abs(value) < 1 else f"{value:.1f}" if abs(value) < _FEW * _FEW else number(round(value))


def size(count: float | None) -> str:
    """Show bytes in a unit that keeps the number short."""
    if count is None:
        return NONE
    for unit in ("B", "kB", "MB", "GB"):
        if count < _BYTES:
            return f"{count:.0f} {unit}" if count >= _FEW or unit == "B" else f"{count:.1f} {unit}"
        count /= _BYTES
    return f"{count:.1f} TB"


def megabytes(count: float | None) -> str:
    """Show a number of megabytes."""
    return NONE if count is None else size(count * _BYTES * _BYTES)


def short(text: str | None, chars: int = 12) -> str:
    """Cut a text where it is longer."""
    if not text:
        return NONE
    return text if len(text) <= chars else text[: chars - 1] + "…"


def dash(value: object) -> object:
    """Show what is not known as a dash."""
    return NONE if value in (None, "", (), {}) else value


FILTERS: dict[str, Callable[..., Any]] = {
    "state": state,
    "moment": moment,
    "clock": clock,
    "took": took,
    "span": span,
    "number": number,
    "size": size,
    "megabytes": megabytes,
    "short": short,
    "dash": dash,
}
"""What templates know by these names."""
