"""Sparklines: a row of numbers as a row of little bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
_THOUSAND, _TEN, _HUNDRED = 1000, 10, 100


def sparkline(numbers: Sequence[float], width: int) -> str:
    """Draw the newest numbers as bars, the last at the right; the highest of them is a full bar, nothing is the lowest.

    Where there are fewer than places, the left stays empty.
    """
    shown = list(numbers)[-width:] if width > 0 else []
    top = max(shown, default=0.0)
    bars = "".join(_bar(number, top) for number in shown)
    return bars.rjust(width)


def rate_text(per_s: float) -> str:
    """Write a rate in at most five characters: `0.0`, `9.4`, `87`, `1,204`, `23k`."""
    if per_s >= _TEN * _THOUSAND:
        return f"{per_s / _THOUSAND:,.0f}k"
    return f"{per_s:.1f}" if per_s < _HUNDRED else f"{per_s:,.0f}"


def count_text(number: int | None) -> str | None:
    """Write a count in at most seven characters; `None` stays unknown."""
    if number is None:
        return None
    for unit, size in (("G", _THOUSAND**3), ("M", _THOUSAND**2)):
        if number >= size * (1 if unit == "G" else _TEN):
            return f"{number / size:,.1f}{unit}"
    return f"{number:,}"


def meter(share: float, width: int) -> str:
    """Draw how much of something is taken."""
    filled = round(max(0.0, min(1.0, share)) * width)
    return "█" * filled + "░" * (width - filled)


def _bar(number: float, top: float) -> str:
    if number <= 0 or top <= 0:
        return BARS[0]
    return BARS[min(len(BARS) - 1, max(1, round(number / top * (len(BARS) - 1))))]
