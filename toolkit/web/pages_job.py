"""One job: how it is and why, what it was asked for, its log as it is written, its course, and its controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from toolkit.cluster.why import Explanation, why
from toolkit.model.errors import CrawlctlError, UsageError
from toolkit.model.jobs import RUN_SETTING, Job, JobState
from toolkit.model.names import CrawlId
from toolkit.model.orders import Order
from toolkit.model.samples import JobSample
from toolkit.web.acting import acted
from toolkit.web.drawing import job_columns, line_of, per_minute
from toolkit.web.fields import decimal, whole
from toolkit.web.log_view import LEVELS, end_of
from toolkit.web.lookout import Lookout, lookout_of
from toolkit.web.rendering import page
from toolkit.web.visitor import Looking, Operating

router = APIRouter(include_in_schema=False)

RETRIABLE = frozenset({JobState.FAILED, JobState.LOST, JobState.CANCELLED})


@router.get("/jobs/{job_id}")
def job(request: Request, visitor: Looking, job_id: str, level: str = "") -> HTMLResponse:
    """Show one job; the begin of its id is enough."""
    lookout = lookout_of(request, visitor.desk)
    found = job_of(lookout, job_id)
    log = end_of(lookout.glances, lookout.logs, found)
    samples = samples_of(lookout, found)
    return page(
        request,
        "job.html",
        visitor=visitor,
        title=f"{found.spider} {found.id}",
        job=found,
        crawl=_crawl_of(lookout, found),
        why=_why(lookout, found),
        log=log,
        level=level if level in LEVELS else "all",
        levels=LEVELS,
        can_retry=found.is_queued and found.state in RETRIABLE,
        line=line_of(per_minute([(each.at.timestamp(), each.pages) for each in samples])),
        has_samples=len(samples) > 1,
        memory=line_of([each.memory_mb for each in samples]),
    )


@router.get("/jobs/{job_id}/samples")
def samples(request: Request, visitor: Looking, job_id: str) -> JSONResponse:
    """Return how far the job was at moments of the past, as columns for plots."""
    lookout = lookout_of(request, visitor.desk)
    return JSONResponse(job_columns(samples_of(lookout, job_of(lookout, job_id))))


@router.post("/jobs/{job_id}/pause")
def pause(request: Request, visitor: Operating, job_id: str) -> RedirectResponse:
    """Let the spider begin no new download."""
    return acted(request, visitor, f"/jobs/{job_id}", lambda: f"{visitor.acts.pause_job(job_id).spider} is paused")


@router.post("/jobs/{job_id}/resume")
def resume(request: Request, visitor: Operating, job_id: str) -> RedirectResponse:
    """Let a paused spider go on."""
    return acted(request, visitor, f"/jobs/{job_id}", lambda: f"{visitor.acts.resume_job(job_id).spider} goes on")


@router.post("/jobs/{job_id}/tune")
def tune(
    request: Request,
    visitor: Operating,
    job_id: str,
    concurrency: Annotated[str, Form()] = "",
    delay_s: Annotated[str, Form()] = "",
) -> RedirectResponse:
    """Wish the spider another concurrency or delay."""

    def act() -> str:
        wanted = whole(concurrency, "concurrency"), decimal(delay_s, "the delay")
        if wanted == (None, None):
            raise UsageError("nothing was wished: give a concurrency, a delay, or both")
        tuned = visitor.acts.tune_job(job_id, concurrency=wanted[0], delay_s=wanted[1])
        return f"{tuned.spider} obeys within seconds"

    return acted(request, visitor, f"/jobs/{job_id}", act)


@router.post("/jobs/{job_id}/cancel")
def cancel(request: Request, visitor: Operating, job_id: str) -> RedirectResponse:
    """Cancel the job, and say so when its process is gone."""

    def act() -> str:
        (done,) = visitor.acts.cancel([job_id])
        if done.error is not None:
            raise done.error
        return f"it had ended before: {done.before.value}" if done.before.is_final else "it is cancelled"

    return acted(request, visitor, f"/jobs/{job_id}", act)


@router.post("/jobs/{job_id}/retry")
def retry(request: Request, visitor: Operating, job_id: str) -> RedirectResponse:
    """Put the job back into the queue."""

    def act() -> str:
        visitor.acts.retry([job_id])
        return "it is back in the queue, with all its attempts"

    return acted(request, visitor, f"/jobs/{job_id}", act)


@router.post("/jobs/{job_id}/again")
def again(request: Request, visitor: Operating, job_id: str) -> RedirectResponse:
    """Schedule a new job like this one, of the active release."""

    def act() -> tuple[str, str]:
        old = visitor.desk.job(job_id)
        placed = visitor.acts.schedule(old.spider, project=old.project, change=lambda order: _like(old, order))
        if placed[0].error is not None:
            raise placed[0].error
        return "a new job like the one before", f"/jobs/{placed[0].job.id}"

    return acted(request, visitor, f"/jobs/{job_id}", act)


def job_of(lookout: Lookout, job_id: str) -> Job:
    """Return the job, read at most a second ago."""
    return lookout.glances.get(("job", job_id), lambda: lookout.desk.job(job_id))


def samples_of(lookout: Lookout, found: Job) -> Sequence[JobSample]:
    """Return the job's course; nothing of one that no node has had, or where there is no Redis."""
    shared = lookout.desk.store.shared
    if shared is None or not found.is_queued:
        return ()
    return lookout.glances.get(("samples", found.id), lambda: shared.samples.of_job(found.id))


def _crawl_of(lookout: Lookout, found: Job) -> CrawlId | None:
    """Return the crawl that the job works on; `None` where none of its spider is known by that name."""
    shared, crawl = lookout.desk.store.shared, found.crawl or CrawlId(found.spider)
    plan = None if shared is None else lookout.glances.get(("plan", crawl), lambda: shared.crawls.plan(crawl))
    return crawl if plan is not None and plan.spider == found.spider else None


def _like(old: Job, order: Order) -> Order:
    """Ask for the same again; what tied the old job to others that were scheduled with it is left out."""
    settings = {name: value for name, value in (old.settings or {}).items() if name != RUN_SETTING}
    return replace(order, args=dict(old.args or {}), settings=settings, priority=old.priority or 0.0)


def _why(lookout: Lookout, found: Job) -> Explanation | None:
    """Return the explanation without the end of the log, which the page shows anyway."""
    try:
        return lookout.glances.get(("why", found.id), lambda: why(lookout.desk.store, found), fresh_s=2.0)
    except CrawlctlError:
        return None
