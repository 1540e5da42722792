"""What a threshold measures of a job, a run or the queue, and whether it fires. Pure.

`None` always means that nothing can be said yet; then nothing fires, and nothing that fires is over.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import datetime, timedelta

from toolkit.model.alerts import Rule, RuleKind
from toolkit.model.samples import JobSample

LEAST_RUNS = 3
"""How many finished runs there must be for any usual."""

STALE_S = 60.0
"""How old the newest sample of a job may be for it to say anything of now."""


def of_this_attempt(samples: Sequence[JobSample]) -> Sequence[JobSample]:
    """Return the samples since the job's last attempt began: a count only falls when another one begins."""
    begin = 0
    for at in range(1, len(samples)):
        if any(_fell(samples[at - 1], samples[at], name) for name in ("pages", "items", "errors")):
            begin = at
    return samples[begin:]


def errors_per_minute(samples: Sequence[JobSample], *, now: datetime, within_s: float) -> float | None:
    """Return how many errors a minute a job had, so long before its newest sample; not before half of that time."""
    own = of_this_attempt(samples)
    if not own or _is_stale(own[-1], now):
        return None
    newest, begin = own[-1], own[-1].at - timedelta(seconds=within_s)
    base = next((each for each in reversed(own) if each.at <= begin), own[0])
    span_s = (newest.at - base.at).total_seconds()
    if newest.errors is None or span_s < within_s / 2:
        return None
    return (newest.errors - (base.errors or 0)) * 60 / span_s


def idle_s(samples: Sequence[JobSample], *, now: datetime) -> float | None:
    """Return for how long a job had no new page and no new item."""
    own = of_this_attempt(samples)
    if not own or _is_stale(own[-1], now):
        return None
    reached = _done(own[-1])
    since = next(each.at for each in own if _done(each) == reached)
    return (now - since).total_seconds()


def usual_items(items: Sequence[int | None]) -> float | None:
    """Return the median of what the last runs brought."""
    known = [each for each in items if each is not None]
    return statistics.median(known) if len(known) >= LEAST_RUNS else None


def fires(rule: Rule, value: float | None, *, usual: float | None = None) -> bool | None:
    """Tell whether what was measured is too much, or for items too little beside the usual."""
    if value is None or (rule.kind is RuleKind.ITEMS and usual is None):
        return None
    if rule.kind is RuleKind.ITEMS:
        return value < rule.threshold * (usual or 0)
    return value > (rule.threshold if rule.kind is RuleKind.ERRORS else rule.within_s)


def reason(rule: Rule, value: float, *, usual: float | None = None) -> str:
    """Say in a sentence what was measured, and beside what."""
    if rule.kind is RuleKind.ERRORS:
        return f"{value:.4g} errors a minute, more than {rule.threshold:g}"
    if rule.kind is RuleKind.ITEMS:
        return f"{value:g} items, of the last runs' {usual:g} less than {rule.threshold:.0%}"
    if rule.kind is RuleKind.PROGRESS:
        return f"no new page and no new item for {_span(value)}"
    return f"a job that could be taken waits for {_span(value)}"


def _fell(before: JobSample, after: JobSample, name: str) -> bool:
    was, now = getattr(before, name), getattr(after, name)
    return was is not None and now is not None and now < was


def _done(sample: JobSample) -> tuple[int, int]:
    return sample.pages or 0, sample.items or 0


def _is_stale(newest: JobSample, now: datetime) -> bool:
    return (now - newest.at).total_seconds() > STALE_S


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"  # noqa: PLR2004 - two minutes
