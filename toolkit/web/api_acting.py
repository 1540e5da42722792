"""The HTTP API that acts on jobs, nodes, crawls and releases. Each act is in the audit under who asked for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Response
from pydantic import Field

from toolkit.cluster.crawl_jobs import crawl_settings, refuse_to_join
from toolkit.cluster.schedule import Placed
from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import DEFAULT_ATTEMPTS
from toolkit.model.names import CrawlId, JobId, ProjectName, VersionName, check_crawl
from toolkit.model.orders import MAX_ATTEMPTS, MAX_WORKERS, Order
from toolkit.rollout.rollback import rollback
from toolkit.views.contract import job_object, job_row
from toolkit.views.crawls import controls_view, counted_view, limits_view, obeyed_view
from toolkit.views.jobs import cancelled_view, scheduled_view
from toolkit.views.nodes import drained_view, names_view
from toolkit.views.rollouts import deploy_view
from toolkit.web import shapes, shapes_crawls
from toolkit.web.asking import (
    CRAWL_NAME,
    NAME,
    SAFE_NAME,
    Count,
    CrawlRef,
    Flag,
    JobName,
    JobRef,
    Moment,
    NodeRef,
    Pairs,
    ProjectRef,
    Seconds,
    Text,
    Wish,
    answer,
)
from toolkit.web.visitor import Administering, Operating, Visitor

router = APIRouter(prefix="/api/v1")
MAX_JOBS, MAX_BLOCKS = 1000, 200
Version = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Jobs = Annotated[list[JobName], Field(min_length=1, max_length=MAX_JOBS)]
Nodes = Annotated[
    list[Annotated[str, Field(max_length=200, pattern=NAME), Text]], Field(min_length=1, max_length=MAX_JOBS)
]


class OrderWish(Wish):
    """What is to be run; the defaults are those of `crawlctl schedule`."""

    spider: Annotated[str, Field(max_length=200, pattern=NAME), Text]
    project: Annotated[str | None, Field(max_length=200, pattern=SAFE_NAME)] = None
    version: Version | None = None
    args: Pairs = Field(default_factory=dict)
    settings: Pairs = Field(default_factory=dict)
    priority: Annotated[float, Field(ge=-1000, le=1000, strict=True)] = 0.0
    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS, strict=True)] = 1
    crawl: Annotated[str | None, Field(max_length=200, pattern=CRAWL_NAME), Text] = None
    id: JobName | None = None
    attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS, strict=True)] = DEFAULT_ATTEMPTS
    retry_failed: Flag = False
    timeout_s: Annotated[float, Field(gt=0, le=10 * 365 * 86400, strict=True)] | None = None
    at: Moment | None = None
    on: Nodes | None = None
    unique: Flag = False

    def laid_on(self, plain: Order) -> Order:
        """Return the order with these wishes."""
        crawl = None if self.crawl is None else CrawlId(self.crawl)
        return replace(
            plain,
            args=dict(self.args),
            settings=crawl_settings(self.settings, crawl, workers=self.workers),
            priority=self.priority,
            count=self.workers,
            job_id=None if self.id is None else JobId(self.id),
            attempts=self.attempts,
            retries_failed=self.retry_failed,
            timeout_s=self.timeout_s,
            due_at=self.at,
        )


class CancelWish(Wish):
    """Jobs to be cancelled, and how long their spiders may take to close before they are killed."""

    jobs: Jobs
    grace_s: Annotated[float, Field(ge=0, le=300, strict=True)] = 30.0


class RetryWish(Wish):
    """Jobs to be put back into the queue."""

    jobs: Jobs


class TuneWish(Wish):
    """How hard a spider works; what is not given stays."""

    concurrency: Count | None = None
    delay_s: Seconds | None = None


class LimitWish(Wish):
    """The budget of a domain over all workers of a crawl; without numbers it has none any more."""

    domain: Annotated[str, Field(min_length=1, max_length=300), Text]
    per_second: Annotated[float, Field(gt=0, le=1e6, strict=True)] | None = None
    concurrency: Count | None = None


class BlockWish(Wish):
    """Domains, or patterns of URLs, of which no worker takes any."""

    patterns: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=500), Text]], Field(min_length=1, max_length=MAX_BLOCKS)
    ]


class UnblockWish(Wish):
    """Blocks to be lifted; all without any named."""

    patterns: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=500), Text]], Field(max_length=MAX_BLOCKS)
    ] = Field(default_factory=list)


class RollbackWish(Wish):
    """The release to return to; the one before the active one unless given."""

    version: Version | None = None


@router.post("/jobs", response_model=shapes.Scheduled, tags=["jobs"], status_code=201)
def schedule(visitor: Operating, wish: OrderWish) -> Response:
    """Run a spider of the active release, or of a version: by the shared queue, or on the least busy stock nodes."""
    if wish.crawl is not None:
        _refuse_to_join(visitor, wish.crawl, wish.spider)
    placed = visitor.acts.schedule(
        wish.spider,
        project=wish.project,
        version=wish.version,
        on=wish.on,
        is_unique=wish.unique,
        change=wish.laid_on,
    )
    if placed and all(each.error for each in placed):
        raise _first_error(placed)
    return answer(scheduled_view(placed).data, 201)


@router.post("/cancel", response_model=shapes.Cancelled, tags=["jobs"])
def cancel(visitor: Operating, wish: CancelWish) -> Response:
    """Cancel jobs, and answer when their processes are gone; one with an error is not proven to be."""
    return answer(cancelled_view(visitor.acts.cancel(wish.jobs, grace_s=wish.grace_s)).data)


@router.post("/retry", response_model=list[shapes.JobRow], tags=["jobs"])
def retry(visitor: Operating, wish: RetryWish) -> Response:
    """Put failed, lost or cancelled jobs back into the queue."""
    return answer([job_row(job) for job in visitor.acts.retry(wish.jobs)])


@router.post("/jobs/{job}/pause", response_model=shapes.Job, tags=["jobs"])
def pause_job(visitor: Operating, job: JobRef) -> Response:
    """Let a running spider begin no new download."""
    return answer(job_object(visitor.acts.pause_job(job)))


@router.post("/jobs/{job}/resume", response_model=shapes.Job, tags=["jobs"])
def resume_job(visitor: Operating, job: JobRef) -> Response:
    """Let a paused spider go on."""
    return answer(job_object(visitor.acts.resume_job(job)))


@router.post("/jobs/{job}/tune", response_model=shapes.Job, tags=["jobs"])
def tune_job(visitor: Operating, job: JobRef, wish: TuneWish) -> Response:
    """Give a running spider another concurrency or delay."""
    return answer(job_object(visitor.acts.tune_job(job, concurrency=wish.concurrency, delay_s=wish.delay_s)))


@router.post("/nodes/{node}/drain", response_model=shapes.Drained, tags=["nodes"])
def drain(visitor: Operating, node: NodeRef) -> Response:
    """Let a node take no new job; what it runs goes on."""
    return answer(drained_view(visitor.acts.drain([node])).data)


@router.post("/nodes/{node}/resume", response_model=shapes.Named, tags=["nodes"])
def resume_node(visitor: Operating, node: NodeRef) -> Response:
    """Let a drained node take jobs again."""
    return answer(names_view(visitor.acts.resume_nodes([node]), "resumed").data)


@router.post("/crawls/{crawl}/pause", response_model=shapes_crawls.Obeyed, tags=["crawls"])
def pause_crawl(visitor: Operating, crawl: CrawlRef) -> Response:
    """Give no entry of a crawl out until it is resumed."""
    return answer(obeyed_view(visitor.acts.pause_crawl(crawl)).data)


@router.post("/crawls/{crawl}/resume", response_model=shapes_crawls.Obeyed, tags=["crawls"])
def resume_crawl(visitor: Operating, crawl: CrawlRef) -> Response:
    """Give entries of a paused crawl out again."""
    return answer(obeyed_view(visitor.acts.pause_crawl(crawl, is_paused=False)).data)


@router.post("/crawls/{crawl}/tune", response_model=shapes_crawls.Controls, tags=["crawls"])
def tune_crawl(visitor: Operating, crawl: CrawlRef, wish: TuneWish) -> Response:
    """Give each worker of a crawl another concurrency or delay."""
    done = visitor.acts.tune_crawl(crawl, concurrency=wish.concurrency, delay_s=wish.delay_s)
    return answer(controls_view(CrawlId(crawl), done).data)


@router.post("/crawls/{crawl}/limit", response_model=list[shapes_crawls.LimitRow], tags=["crawls"])
def limit_crawl(visitor: Operating, crawl: CrawlRef, wish: LimitWish) -> Response:
    """Set what all workers together may ask of a domain, or take that away; answer with all limits."""
    done = visitor.acts.limit_crawl(crawl, wish.domain, per_second=wish.per_second, concurrency=wish.concurrency)
    return answer(limits_view(done).data)


@router.post("/crawls/{crawl}/block", response_model=shapes_crawls.Controls, tags=["crawls"])
def block(visitor: Operating, crawl: CrawlRef, wish: BlockWish) -> Response:
    """Let no worker of a crawl fetch from domains, or what matches a pattern."""
    return answer(controls_view(CrawlId(crawl), visitor.acts.block(crawl, wish.patterns)).data)


@router.post("/crawls/{crawl}/unblock", response_model=shapes_crawls.Counted, tags=["crawls"])
def unblock(visitor: Operating, crawl: CrawlRef, wish: UnblockWish) -> Response:
    """Lift blocks of a crawl; the entries that they kept go back into the queue."""
    return answer(counted_view(CrawlId(crawl), "unblocked", visitor.acts.unblock(crawl, wish.patterns)).data)


@router.post("/crawls/{crawl}/requeue", response_model=shapes_crawls.Counted, tags=["crawls"])
def requeue(visitor: Operating, crawl: CrawlRef) -> Response:
    """Put all entries of a crawl's dead list back into the queue."""
    return answer(counted_view(CrawlId(crawl), "requeued", visitor.acts.requeue_dead(crawl)).data)


@router.post("/releases/{project}/rollback", response_model=shapes.RolledBack, tags=["releases"])
def roll_back(
    visitor: Administering, project: ProjectRef, wish: Annotated[RollbackWish | None, Body()] = None
) -> Response:
    """Make an earlier release active again, if every node that answers holds it."""
    desk, to = visitor.desk, None if wish is None or wish.version is None else VersionName(wish.version)
    with visitor.acts.audited("rollback", f"{project} {to or ''}".rstrip()) as entry:
        done = rollback(desk.nodes, desk.store, ProjectName(project), to=to, is_whole=desk.is_whole, who=visitor.who)
        entry.detail = f"{done.project} {done.version}"
    return answer(deploy_view(done).data)


def _refuse_to_join(visitor: Visitor, crawl: str, spider: str) -> None:
    view = visitor.desk.shared.crawls.view(check_crawl(crawl))
    if view is not None:
        refuse_to_join(view, spider)


def _first_error(placed: list[Placed]) -> CrawlctlError:
    return next(each.error for each in placed if each.error is not None)
