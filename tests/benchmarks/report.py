"""What the benchmark says: a table for people, and one line of JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.measuring import Comparison

_DIGITS = 4
_ROW = "{:<50} {:>10} {:>10} {:>8}  {:<10} {}"


def table(rows: Iterable[Comparison]) -> str:
    """Return the rows as text: medians in seconds, and how many times faster crawlctl is."""
    lines = [_ROW.format("what (medians, seconds)", "crawlctl", "stock", "ratio", "target", "runs, spread, peer")]
    lines += [_line(row) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def last_line(rows: Iterable[Comparison]) -> str:
    """Return the one JSON object: a median where crawlctl stands alone, else both."""
    found: dict[str, Any] = {}
    for row in rows:
        if not row.key:
            continue
        *above, name = row.key
        place = found
        for part in above:
            place = place.setdefault(part, {})
        place[name] = _shown(row)
    return json.dumps(found)


def _shown(row: Comparison) -> float | dict[str, float]:
    ours = round(row.crawlctl_s, _DIGITS)
    if row.key[0] in {"status_s", "help_s"} or row.stock_s is None:
        return ours
    return {"crawlctl": ours, "scrapyd_client": round(row.stock_s, _DIGITS)}


def _line(row: Comparison) -> str:
    ours, stock = row.crawlctl_s, row.stock_s
    runs = f"{len(row.crawlctl)} run(s) {_span(row.crawlctl)}"
    if stock is not None:
        runs += f"; {row.peer}: {len(row.stock)} run(s) {_span(row.stock)}"
    shown = "-" if stock is None else f"{stock:.3f}"
    ratio = "-" if stock is None else f"{stock / ours:.1f}x"
    return _ROW.format(row.what, f"{ours:.3f}", shown, ratio, row.target or "-", runs)


def _span(times: Sequence[float]) -> str:
    return f"{min(times):.3f}..{max(times):.3f}"
