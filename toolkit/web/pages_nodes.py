"""The nodes: how each is, and which take no new job."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from toolkit.cluster.node_life import NodeRow
from toolkit.model.jobs import JobFilter
from toolkit.model.names import NodeName
from toolkit.model.snapshot import STOCK, NodeState
from toolkit.web.acting import acted, counted, picked
from toolkit.web.lookout import lookout_of
from toolkit.web.rendering import page
from toolkit.web.visitor import Looking, Operating

router = APIRouter(include_in_schema=False)

Names = Annotated[list[str], Form(alias="node", default_factory=list)]
NODE_JOBS = 15
MAX_SHOWN = 500


@router.get("/nodes")
def nodes(request: Request, visitor: Looking, q: str = "", state: str = "") -> HTMLResponse:
    """List all nodes, or those whose name, address or label holds a text, or that are in a state."""
    lookout = lookout_of(request, visitor.desk)
    rows = lookout.glances.get("nodes", visitor.desk.node_rows, fresh_s=lookout.nodes_fresh_s)
    shown = sorted((row for row in rows if _is_meant(row, q.strip().lower(), state)), key=_place)
    return page(
        request,
        "nodes.html",
        visitor=visitor,
        title="Nodes",
        rows=shown[:MAX_SHOWN],
        meant=len(shown),
        total=len(rows),
        q=q,
        chosen=state,
        states=list(NodeState),
        stock=STOCK,
    )


@router.get("/nodes/{name}")
def node(request: Request, visitor: Looking, name: str) -> HTMLResponse:
    """Show one node, what it holds and what it runs."""
    lookout = lookout_of(request, visitor.desk)
    row = lookout.glances.get(("node", name), lambda: visitor.desk.node_row(name))
    wanted = JobFilter(nodes=frozenset({NodeName(row.name)}))
    jobs = lookout.glances.get(
        ("node jobs", name), lambda: visitor.desk.jobs(wanted, limit=NODE_JOBS), fresh_s=lookout.nodes_fresh_s
    )
    return page(request, "node.html", visitor=visitor, title=row.name, row=row, jobs=jobs.jobs, stock=STOCK)


@router.post("/nodes/drain")
def drain(request: Request, visitor: Operating, names: Names, back: Annotated[str, Form()] = "") -> RedirectResponse:
    """Let nodes take no new job."""

    def act() -> str:
        done = visitor.acts.drain(picked(names, "node"))
        return f"{counted(len(done), 'node')} drained: no new job is taken there, and what runs goes on to its end"

    return acted(request, visitor, back or "/nodes", act)


@router.post("/nodes/resume")
def resume(request: Request, visitor: Operating, names: Names, back: Annotated[str, Form()] = "") -> RedirectResponse:
    """Let drained nodes take jobs again."""

    def act() -> str:
        return f"{counted(len(visitor.acts.resume_nodes(picked(names, 'node'))), 'node')} may take jobs again"

    return acted(request, visitor, back or "/nodes", act)


def _is_meant(row: NodeRow, text: str, state: str) -> bool:
    words = [row.name, row.address, *(f"{name}={value}" for name, value in row.labels.items())]
    return (not state or row.state == state) and (not text or any(text in word.lower() for word in words))


def _place(row: NodeRow) -> list[tuple[int, str]]:
    """Put node-2 before node-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", row.name)]
