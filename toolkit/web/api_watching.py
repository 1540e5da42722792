"""The HTTP API of what happens by itself: logs as they are written, events, and crons."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from toolkit.cluster import crons
from toolkit.cluster.event_trail import EventFilter, check_kinds, event_trail
from toolkit.cluster.job_log import LogCursor
from toolkit.model.crons import After, Cron, Late, Outcome, Overlap
from toolkit.model.jobs import DEFAULT_ATTEMPTS
from toolkit.model.names import CrawlId, NodeName, ProjectName, SpiderName
from toolkit.model.orders import MAX_ATTEMPTS, MAX_WORKERS
from toolkit.views.contract_events import event_row
from toolkit.views.crons import cron_object, cron_row, firing_row
from toolkit.web import shapes_watching as shapes
from toolkit.web.asking import (
    CRAWL_NAME,
    NAME,
    SAFE_NAME,
    EventQuery,
    Flag,
    JobRef,
    LimitQuery,
    Moment,
    Pairs,
    Seconds,
    SinceQuery,
    Text,
    Wish,
    answer,
)
from toolkit.web.lookout import lookout_of
from toolkit.web.visitor import Administering, Looking, Operating

router = APIRouter(prefix="/api/v1")
MAX_LOG_BYTES = 1_000_000
CronRef = Annotated[str, Path(max_length=200, pattern=SAFE_NAME, description="The cron's name.")]
KindsQuery = Annotated[
    list[Annotated[str, Query(max_length=50, pattern=r"^[a-z_.*?]+$")]] | None,
    Query(alias="kind", max_length=50, description="Only these kinds, as in `job.failed` or `node.*`."),
]


class AfterWish(Wish):
    """The spider of the same project whose end a cron follows."""

    spider: Annotated[str, Field(max_length=200, pattern=NAME), Text]
    outcome: Outcome = Outcome.SUCCESS


class CronWish(Wish):
    """A cron: exactly one of `at` (five fields, or `@daily`) and `after` is given."""

    spider: Annotated[str, Field(max_length=200, pattern=NAME), Text]
    at: Annotated[str | None, Field(max_length=200), Text] = None
    after: AfterWish | None = None
    project: Annotated[str | None, Field(max_length=200, pattern=SAFE_NAME)] = None
    timezone: Annotated[str, Field(max_length=100), Text] = "UTC"
    jitter_s: Seconds = 0.0
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    args: Pairs = Field(default_factory=dict)
    settings: Pairs = Field(default_factory=dict)
    on: Annotated[list[Annotated[str, Field(max_length=200, pattern=NAME), Text]], Field(max_length=1000)] | None = None
    priority: Annotated[float, Field(ge=-1000, le=1000, strict=True)] = 0.0
    attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS, strict=True)] = DEFAULT_ATTEMPTS
    timeout_s: Annotated[float, Field(gt=0, le=10 * 365 * 86400, strict=True)] | None = None
    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS, strict=True)] = 1
    crawl: Annotated[str | None, Field(max_length=200, pattern=CRAWL_NAME), Text] = None
    overlap: Overlap = Overlap.SKIP
    late: Late = Late.ONCE
    paused: Flag = False
    comment: Annotated[str | None, Field(max_length=500), Text] = None

    def named(self, name: str) -> Cron:
        """Return the cron of this name."""
        after = self.after
        return Cron(
            name,
            SpiderName(self.spider),
            at=self.at,
            after=None if after is None else After(SpiderName(after.spider), after.outcome),
            project=None if self.project is None else ProjectName(self.project),
            timezone=self.timezone,
            jitter_s=self.jitter_s,
            starts_at=self.starts_at,
            ends_at=self.ends_at,
            args=dict(self.args),
            settings=dict(self.settings),
            on=None if self.on is None else tuple(NodeName(each) for each in self.on),
            priority=self.priority,
            attempts=self.attempts,
            timeout_s=self.timeout_s,
            workers=self.workers,
            crawl=None if self.crawl is None else CrawlId(self.crawl),
            overlap=self.overlap,
            late=self.late,
            is_paused=self.paused,
            comment=self.comment,
        )


@router.get("/jobs/{job}/log", response_model=shapes.LogPart, tags=["jobs"])
def log(
    request: Request,
    visitor: Looking,
    job: JobRef,
    after: Annotated[
        str | None,
        Query(max_length=250, pattern=r"^[0-9]{1,18}@[^\x00-\x1f]+$", description="`next` of the part before."),
    ] = None,
    most: Annotated[int, Query(ge=1, le=MAX_LOG_BYTES, description="How many bytes at most.")] = 65536,
) -> Response:
    """Read the end of a job's log, or what follows a part of it; from its node, or from where it was shipped to."""
    found = visitor.desk.job(job)
    cursor = None if after is None else LogCursor.parse(after)
    piece = lookout_of(request, visitor.desk).logs.part(found, after=cursor, most=most)
    return answer(
        {
            "id": found.id,
            "source": piece.source,
            "text": piece.content.decode(errors="replace"),
            "next": str(piece.cursor),
            "left_out": piece.left_out,
            "moved": piece.has_moved,
            "over": piece.is_over,
        }
    )


@router.get("/events", response_model=list[shapes.EventRow], tags=["cluster"])
def events(
    visitor: Looking,
    *,
    kind: KindsQuery = None,
    subject: Annotated[str | None, Query(max_length=300)] = None,
    since: SinceQuery = None,
    until: SinceQuery = None,
    after: EventQuery = None,
    limit: LimitQuery = 100,
) -> Response:
    """List what changed, newest first; or all that came after the event with this id, oldest first."""
    stream, cluster = visitor.desk.shared.events, visitor.served.cluster
    if after is not None:
        return answer([event_row(event, cluster=cluster) for event in stream.after(after, limit=limit)])
    wanted = EventFilter(since=since, until=until, kinds=check_kinds(kind or ()), subject=subject)
    return answer([event_row(event, cluster=cluster) for event in event_trail(stream, wanted, limit=limit)])


@router.get("/crons", response_model=list[shapes.CronRow], tags=["crons"])
def list_crons(visitor: Looking) -> Response:
    """List the crons, by name."""
    return answer([cron_row(view) for view in visitor.desk.shared.crons.all()])


@router.get("/crons/{cron}", response_model=shapes.Cron, tags=["crons"])
def cron(visitor: Looking, cron: CronRef) -> Response:
    """Show all that is known of a cron."""
    return answer(cron_object(crons.find(visitor.desk.shared, cron)))


@router.get("/crons/{cron}/firings", response_model=list[shapes.FiringRow], tags=["crons"])
def firings(visitor: Looking, cron: CronRef, limit: LimitQuery = 50) -> Response:
    """List what became of a cron's due times, newest first."""
    name = crons.find(visitor.desk.shared, cron).cron.name
    return answer([firing_row(each) for each in visitor.desk.shared.crons.firings(name, limit=limit)])


@router.post("/crons/{cron}/run", response_model=shapes.Ran, tags=["crons"])
def run_cron(visitor: Operating, cron: CronRef) -> Response:
    """Fire a cron now, as its overlap policy allows; its due times stay."""
    done = visitor.acts.run_cron(cron)
    return answer({"cron": cron, "firing": None if done is None else firing_row(done)})


@router.post("/crons/{cron}/pause", response_model=shapes.Cron, tags=["crons"])
def pause_cron(visitor: Operating, cron: CronRef) -> Response:
    """Let a cron fire no more until it is resumed."""
    return answer(cron_object(visitor.acts.pause_cron(cron)))


@router.post("/crons/{cron}/resume", response_model=shapes.Cron, tags=["crons"])
def resume_cron(visitor: Operating, cron: CronRef) -> Response:
    """Let a paused cron fire again, from its next due time on."""
    return answer(cron_object(visitor.acts.resume_cron(cron)))


@router.put("/crons/{cron}", response_model=shapes.Cron, tags=["crons"])
def define_cron(visitor: Administering, cron: CronRef, wish: CronWish) -> Response:
    """Define a cron, or define it anew."""
    shared = visitor.desk.shared
    with visitor.acts.audited("cron edit", cron):
        crons.define(shared, [wish.named(cron)], by=visitor.who, now=visitor.desk.store.now())
    return answer(cron_object(crons.find(shared, cron)))


@router.delete("/crons/{cron}", response_model=shapes.RemovedCrons, tags=["crons"])
def remove_cron(visitor: Administering, cron: CronRef) -> Response:
    """Take a cron away, with its history; its jobs stay."""
    with visitor.acts.audited("cron remove", cron):
        done = crons.remove(visitor.desk.shared, [cron])
    return answer({"removed": sorted(done)})
