"""The HTTP API that reads: the cluster, nodes, jobs, crawls, releases, and what was done. All needs only to look."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from toolkit.model.errors import NotFoundError
from toolkit.model.jobs import JobFilter, JobState
from toolkit.model.names import NodeName, ProjectName
from toolkit.views.contract import job_object, job_row, node_object, nodes_row, release_row, rollout_row, why_object
from toolkit.views.contract import snapshot_object as status_object
from toolkit.views.contract_crawls import crawl_object, crawl_row
from toolkit.views.contract_rollouts import audit_row
from toolkit.web import shapes, shapes_crawls
from toolkit.web.asking import (
    CrawlRef,
    EntryQuery,
    JobRef,
    LimitQuery,
    NodeRef,
    OffsetQuery,
    ProjectQuery,
    ProjectRef,
    SinceQuery,
    SpiderQuery,
    answer,
    page_of,
)
from toolkit.web.visitor import Looking, Visitor

router = APIRouter(prefix="/api/v1")
NodesQuery = Annotated[list[Annotated[str, Query(max_length=200)]] | None, Query(alias="node", max_length=1000)]


@router.get("/whoami", response_model=shapes.Whoami, tags=["cluster"])
def whoami(visitor: Looking) -> Response:
    """Say who asks, and what that user may do."""
    about = {"cluster": visitor.served.cluster, "version": version("crawlctl")}
    return answer({"user": visitor.name, "role": visitor.role.value} | about)


@router.get("/status", response_model=shapes.Status, tags=["cluster"])
def status(visitor: Looking) -> Response:
    """Show nodes, jobs, active releases, and what needs attention."""
    return answer(status_object(visitor.desk.snapshot()))


@router.get("/nodes", response_model=list[shapes.NodeRow], tags=["nodes"])
def nodes(visitor: Looking) -> Response:
    """List the nodes, by name."""
    return answer([nodes_row(row) for row in visitor.desk.node_rows()])


@router.get("/nodes/{node}", response_model=shapes.Node, tags=["nodes"])
def node(visitor: Looking, node: NodeRef) -> Response:
    """Show all that is known of a node."""
    return answer(node_object(visitor.desk.node_row(node)))


@router.get("/jobs", response_model=list[shapes.JobRow], tags=["jobs"])
def jobs(
    request: Request,
    visitor: Looking,
    *,
    state: Annotated[list[JobState] | None, Query(description="Only jobs in one of these states.")] = None,
    spider: SpiderQuery = None,
    project: ProjectQuery = None,
    crawl: Annotated[str | None, Query(max_length=200)] = None,
    node: NodesQuery = None,
    since: SinceQuery = None,
    limit: LimitQuery = 50,
    offset: OffsetQuery = 0,
) -> Response:
    """List jobs, newest first; `Link` says where more are, `Unseen-Nodes` which stock nodes could not be asked."""
    wanted = JobFilter(
        states=frozenset(state or ()),
        spider=spider,
        project=project,
        nodes=frozenset(NodeName(name) for name in node or ()),
        since=since,
        crawl=crawl,
    )
    found = visitor.desk.jobs(wanted, limit=limit, offset=offset)
    return page_of(request, [job_row(job) for job in found.jobs], limit=limit, offset=offset, unseen=list(found.unseen))


@router.get("/jobs/{job}", response_model=shapes.Job, tags=["jobs"])
def job(visitor: Looking, job: JobRef) -> Response:
    """Show all that is known of a job; its log is asked for by itself."""
    return answer(job_object(visitor.desk.job(job)))


@router.get("/jobs/{job}/why", response_model=shapes.Why, tags=["jobs"])
def why(visitor: Looking, job: JobRef) -> Response:
    """Explain why a job waits, where it is, or how it ended."""
    return answer(why_object(visitor.desk.why(visitor.desk.job(job))))


@router.get("/crawls", response_model=list[shapes_crawls.CrawlRow], tags=["crawls"])
def crawls(visitor: Looking) -> Response:
    """List the crawls that share a frontier, by id."""
    return answer([crawl_row(view) for view in visitor.desk.crawls()])


@router.get("/crawls/{crawl}", response_model=shapes_crawls.Crawl, tags=["crawls"])
def crawl(visitor: Looking, crawl: CrawlRef) -> Response:
    """Show all that is known of a crawl: frontier, workers, domains."""
    return answer(crawl_object(visitor.desk.crawl(crawl)))


@router.get("/releases", response_model=list[shapes.ReleaseRow], tags=["releases"])
def releases(visitor: Looking, project: ProjectQuery = None) -> Response:
    """List the releases, newest first in each project, and which nodes hold them."""
    store = visitor.desk.store.releases
    chosen = _projects(visitor, project)
    active = {name: release.version for name, release in store.actives().items()}
    return answer(
        [
            release_row(
                release,
                is_active=active.get(name) == release.version,
                nodes=sorted(store.holders(name, release.version)),
            )
            for name in chosen
            for release in store.releases(name)
        ]
    )


@router.get("/releases/{project}/history", response_model=list[shapes.RolloutRow], tags=["releases"])
def history(visitor: Looking, project: ProjectRef, limit: LimitQuery = 50) -> Response:
    """List the rollouts of a project, newest first: who, when, on which nodes."""
    (name,) = _projects(visitor, project)
    return answer([rollout_row(rollout) for rollout in visitor.desk.rollouts(name, limit=limit)])


@router.get("/audit", response_model=list[shapes.AuditRow], tags=["cluster"])
def audit(visitor: Looking, limit: LimitQuery = 100, since: SinceQuery = None, before: EntryQuery = None) -> Response:
    """List who changed what, newest first; `before` is the id of the last entry that was seen."""
    found = visitor.desk.store.audit.entries(limit=limit, since=since, before=before)
    return answer([audit_row(entry) for entry in found])


def _projects(visitor: Visitor, project: str | None) -> list[ProjectName]:
    known = visitor.desk.projects()
    if project is not None and project not in known:
        raise NotFoundError(f"no release of {project!r} is known", hint="crawlctl deploy makes the first one")
    return [name for name in known if project in {None, name}]
