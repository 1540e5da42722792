"""Lines as a browser draws them: points of a small picture made here, and columns for a plot drawn there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from toolkit.model.samples import ClusterSample, JobSample

WIDTH, HEIGHT = 240, 40
MAX_POINTS = 120
_SPARE = 2


@dataclass(frozen=True, slots=True)
class Line:
    """A line in a picture of this size; `points` and `area` are SVG's, empty where there is nothing to draw."""

    points: str = ""
    area: str = ""
    width: int = WIDTH
    height: int = HEIGHT


def line_of(values: Sequence[float | None]) -> Line:
    """Draw values that lie equally far apart, from nothing up to the greatest."""
    known = thinned([value or 0.0 for value in values])
    if len(known) < 2:  # noqa: PLR2004 - a line has two ends
        return Line()
    top = max(known) or 1.0
    step = WIDTH / (len(known) - 1)
    places = [
        f"{at * step:.1f},{HEIGHT - _SPARE - value / top * (HEIGHT - 2 * _SPARE):.1f}" for at, value in enumerate(known)
    ]
    points = " ".join(places)
    return Line(points, f"0,{HEIGHT} {points} {WIDTH},{HEIGHT}")


def thinned(values: Sequence[float]) -> list[float]:
    """Keep at most 120 values: the greatest of each stretch, so that no peak is lost."""
    if len(values) <= MAX_POINTS:
        return list(values)
    bounds = [round(at * len(values) / MAX_POINTS) for at in range(MAX_POINTS + 1)]
    return [max(values[begin:end]) for begin, end in pairwise(bounds)]


def cluster_columns(samples: Sequence[ClusterSample]) -> Mapping[str, list[float | int | None]]:
    """Return the cluster's samples by column, times in seconds since 1970."""
    return {
        "at": [round(sample.at.timestamp(), 1) for sample in samples],
        "pages": [round(sample.pages_per_s, 2) for sample in samples],
        "items": [round(sample.items_per_s, 2) for sample in samples],
        "errors_per_min": [round(sample.errors_per_s * 60, 2) for sample in samples],
        "pending": [sample.pending for sample in samples],
        "active": [sample.active for sample in samples],
    }


def job_columns(samples: Sequence[JobSample]) -> Mapping[str, list[float | int | None]]:
    """Return a job's samples by column, with what it did a minute between two of them."""
    return {
        "at": [round(sample.at.timestamp(), 1) for sample in samples],
        "pages": [sample.pages for sample in samples],
        "items": [sample.items for sample in samples],
        "errors": [sample.errors for sample in samples],
        "memory": [sample.memory_mb for sample in samples],
        "pages_per_min": per_minute([(sample.at.timestamp(), sample.pages) for sample in samples]),
        "items_per_min": per_minute([(sample.at.timestamp(), sample.items) for sample in samples]),
    }


def per_minute(counted: Sequence[tuple[float, int | None]]) -> list[float | int | None]:
    """Return how fast a count rose up to each moment; nothing where it is not known, or began anew."""
    rates: list[float | int | None] = [None] if counted else []
    for (before_s, before), (at_s, now) in pairwise(counted):
        is_known = before is not None and now is not None and at_s > before_s and now >= before
        rates.append(round((now - before) / (at_s - before_s) * 60, 1) if is_known else None)  # type: ignore[operator]
    return rates
