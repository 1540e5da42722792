"""The releases: which is active, who made it, which nodes hold it, and the way back to an earlier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from toolkit.cluster.desk import Desk
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.releases import Release, Rollout
from toolkit.model.snapshot import Snapshot
from toolkit.rollout.rollback import rollback
from toolkit.web.acting import acted
from toolkit.web.lookout import lookout_of
from toolkit.web.rendering import page
from toolkit.web.visitor import Administering, Looking

router = APIRouter(include_in_schema=False)

MAX_HISTORY = 30


@dataclass(frozen=True, slots=True)
class ProjectView:
    """One project: its releases, newest first, the active one, and the nodes that hold each."""

    project: ProjectName
    releases: Sequence[Release]
    active: VersionName | None
    holders: Mapping[VersionName, Sequence[NodeName]]
    nodes: int


def view_of(desk: Desk, project: ProjectName, snapshot: Snapshot) -> ProjectView:
    """Read what a page shows of a project."""
    releases = desk.releases(project)
    holders: dict[VersionName, list[NodeName]] = {release.version: [] for release in releases}
    for node in snapshot.nodes:
        for version in (node.projects or {}).get(project, ()):
            holders.setdefault(version, []).append(node.name)
    return ProjectView(project, releases, snapshot.active.get(project), holders, len(snapshot.nodes))


@router.get("/releases")
def releases(request: Request, visitor: Looking) -> HTMLResponse:
    """List all projects with their active releases."""
    lookout = lookout_of(request, visitor.desk)
    snapshot = lookout.snapshot()
    views = lookout.glances.get(
        "releases", lambda: [view_of(visitor.desk, name, snapshot) for name in visitor.desk.projects()], fresh_s=3.0
    )
    return page(request, "releases.html", visitor=visitor, title="Releases", views=views)


@router.get("/releases/{project}")
def project(request: Request, visitor: Looking, project: str) -> HTMLResponse:
    """Show one project's releases and their history."""
    lookout = lookout_of(request, visitor.desk)
    name = ProjectName(project)
    snapshot = lookout.snapshot()
    seen = lookout.glances.get(("releases", name), lambda: view_of(visitor.desk, name, snapshot), fresh_s=3.0)
    history: Sequence[Rollout] = lookout.glances.get(
        ("rollouts", name), lambda: visitor.desk.rollouts(name, limit=MAX_HISTORY), fresh_s=3.0
    )
    return page(request, "project.html", visitor=visitor, title=f"Releases of {project}", seen=seen, history=history)


@router.post("/releases/{project}/rollback")
def roll_back(
    request: Request, visitor: Administering, project: str, version: Annotated[str, Form()]
) -> RedirectResponse:
    """Make an earlier release active again, once the nodes have shown that they hold it."""

    def act() -> str:
        desk, name = visitor.desk, ProjectName(project)
        with visitor.acts.audited("rollback", f"{project} {version}"):
            done = rollback(
                desk.nodes, desk.store, name, to=VersionName(version), is_whole=desk.is_whole, who=visitor.who
            )
        return f"{done.version} is the active release of {project}" + ("" if done.is_changed else ", as it was before")

    return acted(request, visitor, f"/releases/{project}", act)
