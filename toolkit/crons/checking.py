"""What may be a cron: everything that would go wrong at its first firing is refused when it is defined. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice, pairwise

from toolkit.crons.due import dues
from toolkit.crons.firing import jobs_of
from toolkit.crons.timetable import check_expression, zone_of
from toolkit.model.crons import Cron, Taken, Trigger, check_cron_name
from toolkit.model.errors import CrawlctlError, UsageError
from toolkit.model.jobs import CRAWL_SETTING
from toolkit.model.names import ProjectName, SpiderName, VersionName, check_project
from toolkit.model.releases import Release

MAX_CRON_WORKERS = 1000
_LOOKED_AT = 50
_ANY = ProjectName("any")


def check_cron(cron: Cron, *, now: datetime) -> None:
    """Refuse a cron that could not fire, or not as it is written.

    Raises:
        UsageError: its name, expression, time zone, term, jitter, templates, arguments or numbers are wrong.

    """
    check_cron_name(cron.name)
    if cron.project is not None:
        check_project(cron.project)
    for text in (cron.spider, cron.comment, cron.crawl, *(cron.on or ())):
        _check_text(cron.name, text or "")
    if (cron.at is None) == (cron.after is None):
        raise UsageError(
            f"{cron.name}: a cron is due at times or after a spider's jobs: say one of both",
            hint="as in --at '30 3 * * *', or --after 'books success'",
        )
    try:
        zone_of(cron.timezone)
        _check_times(cron, now=now)
        _check_numbers(cron)
        _check_jobs(cron, now=now)
    except CrawlctlError as error:
        raise UsageError(f"{cron.name}: {error.message}", hint=error.hint) from error


def check_circles(crons: Iterable[Cron]) -> None:
    """Refuse crons that follow each other in a circle, which would never come to an end.

    Raises:
        UsageError: there is one; the message names it.

    """
    chained = [cron for cron in crons if cron.after is not None]
    by_spider: dict[str, list[Cron]] = {}
    for cron in chained:
        if cron.after is not None:
            by_spider.setdefault(cron.after.spider, []).append(cron)
    for first in chained:
        waiting: list[tuple[Cron, ...]] = [(first,)]
        seen = {first.name}
        while waiting:
            path = waiting.pop()
            for cron in by_spider.get(path[-1].spider, ()):
                if not _may_follow(cron, path[-1]):
                    continue
                if cron.name == first.name:
                    names = " → ".join(each.name for each in (*path, first))
                    raise UsageError(f"these crons follow each other in a circle, without an end: {names}")
                if cron.name not in seen:
                    seen.add(cron.name)
                    waiting.append((*path, cron))


def _check_text(name: str, text: str) -> None:
    if not text.isprintable():
        raise UsageError(f"{name}: {text[:60]!r} holds what cannot be printed")


def _may_follow(cron: Cron, other: Cron) -> bool:
    """Tell whether they may be of one project: one that names none may be of any."""
    return cron.project == other.project or None in {cron.project, other.project}


def _check_times(cron: Cron, *, now: datetime) -> None:
    if cron.starts_at is not None and cron.ends_at is not None and cron.starts_at > cron.ends_at:
        raise UsageError("it would end before it begins")
    if cron.after is not None:
        if cron.jitter_s or cron.starts_at is not None or cron.ends_at is not None:
            raise UsageError("jitter, start and end are for crons that are due at times, not for those that follow")
        if cron.after.spider == cron.spider:
            raise UsageError(f"it would follow its own jobs of {cron.spider} without an end")
        return
    check_expression(cron.at or "")
    coming = list(islice(_unpaused(cron, now=now), _LOOKED_AT))
    if not coming:
        raise UsageError(f"{cron.at!r} is never due{' before its end' if cron.ends_at is not None else ''}")
    shortest_s = min(((other - one).total_seconds() for one, other in pairwise(coming)), default=None)
    if shortest_s is not None and cron.jitter_s >= shortest_s:
        raise UsageError(
            f"a jitter of {cron.jitter_s:g} s would mix up due times that are {shortest_s:g} s apart",
            hint="let it be shorter than the time between two of them",
        )


def _unpaused(cron: Cron, *, now: datetime) -> Iterator[datetime]:
    return (due.at for due in dues(replace(cron, is_paused=False), after=now))


def _check_numbers(cron: Cron) -> None:
    if not 1 <= cron.workers <= MAX_CRON_WORKERS:
        raise UsageError(f"{cron.workers} workers cannot be scheduled at once: 1 to {MAX_CRON_WORKERS} can")
    if not 0 <= cron.jitter_s < float("inf"):
        raise UsageError(f"a jitter of {cron.jitter_s:g} s is none: give a time")
    if cron.crawl is not None and CRAWL_SETTING in cron.settings:
        raise UsageError(f"its crawl and its setting {CRAWL_SETTING} both name the crawl: give one of them")


def _check_jobs(cron: Cron, *, now: datetime) -> None:
    """Make the jobs of a firing as if there were a release with the spider."""
    project = cron.project or _ANY
    stand_in = Release(project, VersionName("1"), "", (SpiderName(cron.spider),), 0, None, now, "")
    trigger = Trigger(now, project=project if cron.after is not None else None)
    jobs_of(Taken(cron, "", trigger), releases={project: stand_in}, now=now)
