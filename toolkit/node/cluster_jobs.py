"""What Scrapyd's endpoints about jobs do with the store: plain functions that wait, for a thread of the node's.

`is_here` tells whether this node has the project. Scrapyd answers for its own projects only; here one counts as known
wherever in the cluster it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName, VersionName, check_job_id
from toolkit.model.orders import Order, check_queued, queued_job
from toolkit.node.catalogue import Catalogue
from toolkit.node.eggstorage import held_as
from toolkit.node.membership import shared_of
from toolkit.node.webservice_endpoint import not_found
from toolkit.store.interfaces import Store

_FINAL = frozenset(state for state in JobState if state.is_final)
_BEGIN = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client asks `schedule.json` for; `version` is `None` when it leaves that to the cluster."""

    project: str
    spider: str
    version: str | None
    job_id: str
    priority: float
    settings: Mapping[str, str]
    args: Mapping[str, str]
    who: str


@dataclass(frozen=True, slots=True)
class ClusterJobs:
    """The jobs of the shared queue, as Scrapyd sorts them: what goes next, what was there first, what ended last."""

    pending: tuple[Job, ...]
    active: tuple[Job, ...]
    finished: tuple[Job, ...]


def enqueue(store: Store, wanted: Wanted, catalogue: Catalogue, *, is_here: bool) -> Job:
    """Put one job into the shared queue; return it.

    Without a version it is the project's active release, else the newest that this node has proven.

    Raises:
        twisted.web.error.Error: nobody knows the project, version or spider.
        UsageError: an id, argument, setting or priority that could not be run.
        ConflictError: the id is known.

    """
    version, spiders = _choose(store, wanted, catalogue, is_here=is_here)
    if wanted.spider not in spiders:
        raise not_found("spider", wanted.spider)
    order = Order(
        project=ProjectName(wanted.project),
        spider=SpiderName(wanted.spider),
        version=version,
        args=wanted.args,
        settings=wanted.settings,
        priority=wanted.priority,
        job_id=check_job_id(wanted.job_id),
    )
    check_queued(order)
    job = queued_job(order, at=store.now(), who=wanted.who)
    shared_of(store).queue.add([job])
    return job


def cancel(store: Store, project: str, job_id: JobId, *, grace_s: float, is_here: bool) -> JobState | None:
    """Cancel a job of the project; return its state before, `None` when there was nothing to cancel.

    Raises:
        twisted.web.error.Error: nobody knows the project.

    """
    job = _job_of(store, project, job_id, is_here=is_here)
    if job is None or job.state.is_final:
        return None
    before = shared_of(store).queue.cancel([job_id], grace_s=grace_s).get(job_id)
    return None if before is None or before.is_final else before


def state_of(store: Store, project: str | None, job_id: JobId, *, is_here: bool) -> JobState | None:
    """Return a job's state, `None` when it is not known, or was cancelled before it ran, which Scrapyd forgets too.

    Raises:
        twisted.web.error.Error: nobody knows the project.

    """
    job = _job_of(store, project, job_id, is_here=is_here)
    if job is None or (job.state is JobState.CANCELLED and job.started_at is None):
        return None
    return job.state


def list_jobs(store: Store, project: str | None, *, finished: int, is_here: bool) -> ClusterJobs:
    """Return the unfinished jobs of the shared queue, and so many that ended last.

    Raises:
        twisted.web.error.Error: nobody knows the project.

    """
    _require(store, project, is_here=is_here)
    unfinished = [job for job in store.jobs.unfinished() if job.is_queued and project in {None, job.project}]
    pending = [job for job in unfinished if job.state is JobState.PENDING]
    ended = store.jobs.recent(JobFilter(states=_FINAL, project=project), limit=finished)
    # Scrapyd's list has what ran: a job that was cancelled before is in none of its lists.
    ran = [job for job in ended if job.is_queued and job.started_at is not None and job.ended_at is not None]
    return ClusterJobs(
        pending=tuple(sorted(pending, key=lambda job: -(job.priority or 0))),
        active=tuple(job for job in unfinished if job.state.is_active),
        finished=tuple(sorted(ran, key=lambda job: job.ended_at or job.started_at or _BEGIN, reverse=True)),
    )


def _choose(
    store: Store, wanted: Wanted, catalogue: Catalogue, *, is_here: bool
) -> tuple[VersionName, Collection[SpiderName]]:
    """Return the version to run, and its spiders."""
    project = ProjectName(wanted.project)
    if wanted.version:
        version = held_as(wanted.version)
        spiders = catalogue.spiders(project, version)
        release = store.releases.get(project, version) if spiders is None else None
        if release is not None:
            spiders = release.spiders
        if spiders is None:
            _require(store, project, is_here=is_here)
            raise not_found("version", wanted.version)
        return version, spiders
    active = store.releases.active(project)
    if active is not None:
        return active.version, active.spiders
    newest = catalogue.newest(project)
    if newest is None:
        raise not_found("project", project)
    return newest, catalogue.spiders(project, newest) or ()


def _job_of(store: Store, project: str | None, job_id: JobId, *, is_here: bool) -> Job | None:
    job = store.jobs.get(job_id)
    if job is not None and job.is_queued and project in {None, job.project}:
        return job
    _require(store, project, is_here=is_here)
    return None


def _require(store: Store, project: str | None, *, is_here: bool) -> None:
    if project is not None and not is_here and store.releases.active(ProjectName(project)) is None:
        raise not_found("project", project)
