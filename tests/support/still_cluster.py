"""A cluster that stands still, for screens that must look the same each time: values only, nobody is behind them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from toolkit.cluster.board import BoardView
from toolkit.cluster.node_life import NodeRow
from toolkit.cluster.rates import Rates, total
from toolkit.model.crawls import Controls, CrawlKeys, CrawlPlan, CrawlView, WorkerView
from toolkit.model.events import Event, EventKind
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import CrawlId, JobId, NodeName, ProjectName, SpiderName, Token, VersionName, worker_of
from toolkit.model.queue import line_name
from toolkit.model.snapshot import Attention, NodeState
from toolkit.top.seen import Seen

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
SHOP = ProjectName("shop")
VERSION = VersionName("20261120-101500-aaaaaaa")
SPIDERS = tuple(map(SpiderName, ("books", "prices", "reviews")))


def a_still_job(number: int, state: JobState = JobState.RUNNING, *, spider: SpiderName | None = None) -> Job:
    """Return a job whose every value follows from its number and state."""
    name = spider or SPIDERS[number % len(SPIDERS)]
    has_begun = state is not JobState.PENDING
    job = Job(
        id=JobId(f"{number:08x}{'0' * 24}"),
        project=SHOP,
        spider=name,
        state=state,
        version=VERSION,
        node=NodeName(f"node-{number % 4 + 1}") if has_begun else None,
        args={"page": str(number)},
        scheduled_at=NOW - timedelta(minutes=10 + number),
        started_at=NOW - timedelta(minutes=number, seconds=number) if has_begun else None,
        line=line_name(SHOP, VERSION, name, None),
        attempt=1 if has_begun else 0,
        attempts=2,
        scheduled_by="ann@desk",
    )
    if state.is_active:
        return replace(
            job,
            pages=1_000 * number + 7,
            items=100 * number,
            errors=number % 3,
            retries=number,
            bytes=5_000_000 * number,
            memory_mb=80.0 + number,
            statuses={"200": 1_000 * number, "404": 7},
        )
    if state is JobState.FAILED:
        return replace(job, ended_at=NOW, exit_code=1, errors=4, pages=12, reason="its process ended with exit code 1")
    return replace(job, ended_at=NOW, finish_reason="finished", pages=250, items=25) if state.is_final else job


def still_jobs() -> list[Job]:
    """Return eight jobs that run, one that is paused, four that wait, and three that have ended."""
    states = [JobState.RUNNING] * 8 + [JobState.PAUSED] + [JobState.PENDING] * 4
    states += [JobState.FAILED, JobState.FINISHED, JobState.CANCELLED]
    return [a_still_job(number, state) for number, state in enumerate(states, 1)]


def a_still_node(number: int, *, state: NodeState = NodeState.LIVE, running: int = 2) -> NodeRow:
    """Return a plug-in node whose every value follows from its number."""
    return NodeRow(
        name=NodeName(f"node-{number}"),
        address=f"10.0.0.{number}:6800",
        state=state,
        kind="node",
        slots=4,
        running=running,
        load=0.25 * number,
        memory_free_mb=1_000 * number,
        disk_free_mb=10_000 * number,
        versions={SHOP: (VERSION,)},
        heartbeat_age_s=1.0,
        is_draining=state is NodeState.DRAINING,
        drained_by="bob@desk" if state is NodeState.DRAINING else None,
        labels={"region": "eu"},
        software={"scrapy": "2.13.0"},
    )


def a_still_crawl(name: str = "books", *, is_paused: bool = False) -> CrawlView:
    """Return a crawl with one worker, who is job 1."""
    plan = CrawlPlan(
        CrawlId(name), name, SHOP, CrawlKeys(f"{name}:requests", f"{name}:dupefilter", f"{name}:start_urls", "items")
    )
    worker = WorkerView(worker_of(a_still_job(1).id, Token("1")), 16, NOW, 25.0, pages=1_007)
    return CrawlView(
        plan,
        NOW,
        pending=12_345,
        in_flight=16,
        dead=2,
        seen=98_765,
        pages=45_678,
        items=4_567,
        pages_per_minute=1_234.0,
        items_per_minute=120.0,
        oldest_at=NOW - timedelta(minutes=5),
        workers=(worker,),
        controls=Controls(is_paused=is_paused),
        domains={"shop.example": 12_000, "cdn.example": 345},
    )


def a_still_event(number: int, kind: EventKind, subject: str, **about: str) -> Event:
    """Return an event some seconds before now, the later the smaller its number."""
    at = NOW - timedelta(seconds=number)
    return Event(kind, subject, about, at, f"{int(at.timestamp() * 1000)}-0")


def still_seen(jobs: Collection[Job] | None = None) -> Seen:
    """Return what a look at this cluster shows."""
    known = still_jobs() if jobs is None else list(jobs)
    rates = {
        job.id: Rates(10.0 + at, 1.0, 0.5 if at == 0 else 0.0) for at, job in enumerate(known) if job.state.is_active
    }
    counts = {
        "pending": sum(job.state is JobState.PENDING for job in known),
        "active": sum(job.state.is_active for job in known),
        "ended": sum(job.state.is_final for job in known),
    }
    view = BoardView(NOW, {job.id: job for job in known}, rates, total(rates.values()), counts, is_anew=True)
    nodes = [*map(a_still_node, (1, 2, 3)), a_still_node(4, state=NodeState.DRAINING, running=1)]
    nodes.append(replace(a_still_node(5, state=NodeState.LOST, running=0), heartbeat_age_s=95.0))
    return Seen(
        at=NOW,
        board=view,
        nodes=nodes,
        attention=(
            Attention("lost", "node-5 gives no sign of life any more", (NodeName("node-5"),), "crawlctl nodes list"),
            Attention("draining", "node-4 takes no new job", (NodeName("node-4"),), "crawlctl nodes resume node-4"),
        ),
        crawls=(a_still_crawl(), a_still_crawl("prices", is_paused=True)),
        events=(
            a_still_event(
                3, EventKind.JOB_FAILED, a_still_job(14).id, spider="reviews", node="node-3", reason="exit 1"
            ),
            a_still_event(9, EventKind.JOB_STARTED, a_still_job(1).id, spider="prices", node="node-2"),
            a_still_event(60, EventKind.NODE_LOST, "node-5"),
        ),
        history=[Rates(50.0 + 10 * (step % 5), 5.0 + step % 3, 0.5 * (step % 2)) for step in range(30)],
    )


class StillLooker:
    """Shows one look again and again, and remembers which jobs were asked for."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.asked: list[frozenset[JobId]] = []

    def look(self, *, visible: Collection[JobId] = (), wants_crawls: bool = False) -> Seen:
        """Return the look; crawls only when they are wanted."""
        self.asked.append(frozenset(visible))
        return self.seen if wants_crawls else replace(self.seen, crawls=None)
