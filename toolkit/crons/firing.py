"""From a firing that is due to what shall become of it: its jobs of the release that is active, or why there are none.

Pure: the same firing gives the same jobs under the same ids, whoever makes them, so that it cannot happen twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from toolkit.crons.due import judged
from toolkit.crons.templates import Occasion, filled
from toolkit.crons.timetable import zone_of
from toolkit.model.crons import Cron, FiringState, Proposal, Taken, Trigger
from toolkit.model.errors import CrawlctlError, UsageError
from toolkit.model.jobs import CRAWL_SETTING, RUN_SETTING, Job
from toolkit.model.names import CrawlId, JobId, ProjectName, check_crawl
from toolkit.model.orders import Order, check_queued, queued_job
from toolkit.model.queue import place_of
from toolkit.model.releases import Release

Releases = Mapping[ProjectName, Release]

AGAIN = timedelta(minutes=1)
"""After so long a due time that a node could make nothing of is tried again."""


def proposal(taken: Taken, *, releases: Releases, now: datetime, by: str) -> Proposal:
    """Decide what becomes of a firing; `releases` are the active ones, `by` is the node that asks.

    What cannot be scheduled has failed, and says why; the cron goes on. One whose times this node cannot read, for the
    want of a time zone or of an open file, stays due: another node, or this one later, may.
    """
    cron, trigger, reason = taken.cron, taken.trigger, None
    following = None if taken.due is None else replace(taken.due, fires_at=now + AGAIN)
    try:
        if taken.due is not None:
            verdict = judged(cron, taken.due, now=now)
            trigger, following, reason = Trigger(verdict.at), verdict.next, verdict.reason
            taken = replace(taken, trigger=trigger)
            if verdict.is_skipped:
                return Proposal(taken, FiringState.SKIPPED, by, reason=reason, next=following)
        jobs = jobs_of(taken, releases=releases, now=now)
    except (CrawlctlError, ValueError, OverflowError) as error:
        # One cron that nobody can make sense of shall not keep those beside it from firing.
        return Proposal(taken, FiringState.FAILED, by, reason=str(error), next=following)
    return Proposal(taken, FiringState.FIRED, by, jobs=jobs, reason=reason, next=following)


def jobs_of(taken: Taken, *, releases: Releases, now: datetime) -> tuple[Job, ...]:
    """Return the jobs of a firing, one for each worker.

    Raises:
        UsageError: no active release, or several, have the spider; or Scrapyd could not take what the templates gave.

    """
    cron, trigger = taken.cron, taken.trigger
    release = _release(cron, trigger.project, releases)
    on = None if cron.on is None else tuple(sorted(cron.on))
    place = place_of(on)
    return tuple(
        queued_job(_order(taken, release, number), at=now, who=f"cron {cron.name}", on=on, place=place)
        for number in range(cron.workers)
    )


def shortcoming(cron: Cron, *, releases: Releases) -> str | None:
    """Say why a cron could schedule nothing if it fired now; `None` where a release fits.

    One that follows a spider runs in the project of the job that ended: any that has its own spider may be meant.
    """
    is_led = cron.after is not None and cron.project is None
    if is_led and any(cron.spider in release.spiders for release in releases.values()):
        return None
    try:
        _release(cron, None, releases)
    except UsageError as error:
        return error.message
    return None


def job_id_of(cron: str, trigger: Trigger, number: int = 0) -> JobId:
    """Return the id of a firing's job: always the same one for the same firing."""
    parts = (cron, trigger.at.isoformat(), trigger.job or "", trigger.word, str(number))
    return JobId(hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16])


def _order(taken: Taken, release: Release, number: int) -> Order:
    cron, trigger = taken.cron, taken.trigger
    job_id = job_id_of(cron.name, trigger, number)
    occasion = Occasion(
        due_at=trigger.at,
        zone=zone_of(cron.timezone),
        cron=cron.name,
        spider=cron.spider,
        project=release.project,
        job=job_id,
        after=trigger.job,
        last_success_at=taken.last_success_at,
    )
    order = Order(
        project=release.project,
        spider=cron.spider,
        version=release.version,
        args=filled(cron.args, occasion),
        settings=_crawl_settings(cron, trigger, filled(cron.settings, occasion)),
        priority=cron.priority,
        job_id=job_id,
        attempts=cron.attempts,
        timeout_s=cron.timeout_s,
    )
    check_queued(order)
    return order


def _crawl_settings(cron: Cron, trigger: Trigger, settings: dict[str, str]) -> dict[str, str]:
    """Name the crawl that the jobs share, and this run of it, as scheduling several workers by hand does."""
    named = settings.get(CRAWL_SETTING, cron.crawl)
    if named is None and cron.workers == 1:
        return settings
    crawl = {} if named is None else {CRAWL_SETTING: str(check_crawl(CrawlId(named)))}
    return {**crawl, RUN_SETTING: str(job_id_of(cron.name, trigger, -1)), **settings}


def _release(cron: Cron, triggered_in: ProjectName | None, releases: Releases) -> Release:
    wanted = cron.project or triggered_in
    having = [
        release for name, release in releases.items() if wanted in {None, name} and cron.spider in release.spiders
    ]
    if len(having) > 1:
        names = ", ".join(sorted(release.project for release in having))
        raise UsageError(f"several projects have a spider {cron.spider!r}: {names}", hint="name one with --project")
    if not having:
        where = f"the active release of {wanted}" if wanted in releases else "any active release"
        if wanted is not None and wanted not in releases:
            raise UsageError(f"project {wanted!r} has no active release")
        raise UsageError(f"there is no spider {cron.spider!r} in {where}")
    return having[0]
