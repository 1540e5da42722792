"""The crons: what recurs, when it is due next, what became of each due time; paused, resumed, run by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from toolkit.cluster.crons import upcoming
from toolkit.model.crons import CronView, FiringState
from toolkit.model.errors import NotFoundError, RefusedError
from toolkit.store.interfaces_watch import Crons
from toolkit.web.acting import acted
from toolkit.web.lookout import Lookout, lookout_of
from toolkit.web.rendering import page
from toolkit.web.visitor import Looking, Operating
from toolkit.web.words import now

router = APIRouter(include_in_schema=False)

MAX_SHOWN = 200
MAX_READ = 1_000
FRESH_S = 2.0
MAX_FIRINGS = 50
NEXT_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Found:
    """Some of `total` crons; `is_part` says that there may be more that were meant."""

    views: Sequence[CronView]
    total: int
    is_part: bool = False


@router.get("/crons")
def crons(request: Request, visitor: Looking, q: Annotated[str, Query(max_length=200)] = "") -> HTMLResponse:
    """List all crons, or those whose name or spider holds a text."""
    lookout = lookout_of(request, visitor.desk)
    asked = q.strip().lower()
    found = lookout.glances.get(("crons", asked), lambda: find(visitor.desk.shared.crons, asked), fresh_s=FRESH_S)
    return page(request, "crons.html", visitor=visitor, title="Crons", found=found, q=q)


def find(crons: Crons, asked: str) -> Found:
    """Return the crons that are meant, the next first. Of very many only those that fire next are looked at."""
    total = crons.count()
    views = crons.all() if total <= MAX_READ else crons.soonest(limit=MAX_SHOWN)
    if total > MAX_READ and asked and (named := crons.get(asked)) is not None:
        views = [named]
    meant = [view for view in views if asked in view.cron.name.lower() or asked in view.cron.spider.lower()]
    shown = sorted(meant, key=_soonest)[:MAX_SHOWN]
    return Found(shown, total, is_part=total > MAX_READ or len(meant) > len(shown))


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
