"""The first page: the whole cluster at a glance, what needs attention, and what fires next."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from toolkit.web.drawing import cluster_columns, line_of
from toolkit.web.lookout import lookout_of, overview_of
from toolkit.web.rendering import page
from toolkit.web.visitor import Looking

router = APIRouter(include_in_schema=False)


@router.get("/")
def overview(request: Request, visitor: Looking) -> HTMLResponse:
    """Show the cluster."""
    seen = overview_of(lookout_of(request, visitor.desk))
    lines = {
        name: line_of([getattr(sample, f"{name}_per_s") for sample in seen.samples])
        for name in ("pages", "items", "errors")
    }
    return page(request, "overview.html", visitor=visitor, title="Overview", seen=seen, lines=lines)


@router.get("/samples")
def samples(request: Request, visitor: Looking) -> JSONResponse:
    """Return what the cluster did of late, as columns for a plot."""
    return JSONResponse(cluster_columns(lookout_of(request, visitor.desk).samples()))
