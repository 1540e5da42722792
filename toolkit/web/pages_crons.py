"""The crons: what recurs, when it is due next, what became of each due time; paused, resumed, run by hand."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from toolkit.cluster.crons import upcoming
from toolkit.model.crons import CronView, FiringState
from toolkit.model.errors import NotFoundError, RefusedError
from toolkit.web.acting import acted
from toolkit.web.lookout import Lookout, lookout_of
from toolkit.web.rendering import page
from toolkit.web.visitor import Looking, Operating
from toolkit.web.words import now

router = APIRouter(include_in_schema=False)

MAX_SHOWN = 200
MAX_FIRINGS = 50
NEXT_SHOWN = 5


@router.get("/crons")
def crons(request: Request, visitor: Looking, q: str = "") -> HTMLResponse:
    """List all crons, or those whose name or spider holds a text."""
    views = lookout_of(request, visitor.desk).crons()
    text = q.strip().lower()
    shown = [view for view in views if text in view.cron.name.lower() or text in view.cron.spider.lower()]
    return page(
        request,
        "crons.html",
        visitor=visitor,
        title="Crons",
        rows=sorted(shown, key=_soonest)[:MAX_SHOWN],
        total=len(shown),
        q=q,
    )


@router.get("/crons/{name}")
def cron(request: Request, visitor: Looking, name: str) -> HTMLResponse:
    """Show one cron and its history."""
    lookout = lookout_of(request, visitor.desk)
    view = cron_of(lookout, name)
    firings = lookout.glances.get(
        ("firings", name), lambda: lookout.desk.shared.crons.firings(view.cron.name, limit=MAX_FIRINGS)
    )
    return page(
        request,
        "cron.html",
        visitor=visitor,
        title=f"Cron {name}",
        view=view,
        cron=view.cron,
        firings=firings,
        upcoming=[] if view.cron.is_paused else upcoming(view.cron, now=now(), count=NEXT_SHOWN),
    )


@router.post("/crons/{name}/pause")
def pause(request: Request, visitor: Operating, name: str) -> RedirectResponse:
    """Let a cron fire no more until it is resumed."""

    def act() -> str:
        visitor.acts.pause_cron(name)
        return f"{name} is paused: it fires no more until it is resumed"

    return acted(request, visitor, f"/crons/{name}", act)


@router.post("/crons/{name}/resume")
def resume(request: Request, visitor: Operating, name: str) -> RedirectResponse:
    """Let a paused cron fire again."""

    def act() -> str:
        visitor.acts.resume_cron(name)
        return f"{name} fires again"

    return acted(request, visitor, f"/crons/{name}", act)


@router.post("/crons/{name}/run")
def run(request: Request, visitor: Operating, name: str) -> RedirectResponse:
    """Fire a cron now, by hand."""

    def act() -> str:
        firing = visitor.acts.run_cron(name)
        if firing is None:
            return f"{name} waits for the end of its last firing, and fires then"
        if firing.state is not FiringState.FIRED:
            raise RefusedError(f"{name} was {firing.state.value}: {firing.reason or 'no reason is known'}")
        return f"{name} was run: {', '.join(firing.jobs) or 'no job'}"

    return acted(request, visitor, f"/crons/{name}", act)


def cron_of(lookout: Lookout, name: str) -> CronView:
    """Return one cron.

    Raises:
        NotFoundError: there is none of this name.

    """
    view = lookout.glances.get(("cron", name), lambda: lookout.desk.shared.crons.get(name))
    if view is None:
        raise NotFoundError(f"there is no cron {name[:80]!r}", hint="crawlctl cron list")
    return view


def _soonest(view: CronView) -> tuple[bool, str, str]:
    return view.next_at is None, str(view.next_at or ""), view.cron.name
