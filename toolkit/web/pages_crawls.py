"""The crawls: their frontiers, workers and domains, and how operators steer them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from toolkit.cluster.crawls import CrawlState, Obeyed, live_workers, start_hint, state_of
from toolkit.cluster.entries import read_entry
from toolkit.model.crawls import CrawlView, Shelf
from toolkit.model.errors import UsageError
from toolkit.model.names import job_of
from toolkit.web.acting import acted, counted
from toolkit.web.fields import decimal, whole
from toolkit.web.lookout import lookout_of
from toolkit.web.rendering import page
from toolkit.web.visitor import Looking, Operating

router = APIRouter(include_in_schema=False)

MAX_ENTRIES = 25
MAX_DOMAINS = 40
MAX_SHOWN = 500
Text = Annotated[str, Form()]


@router.get("/crawls")
def crawls(request: Request, visitor: Looking) -> HTMLResponse:
    """List the crawls, those that are over after all others."""
    views = lookout_of(request, visitor.desk).crawls()
    rows = sorted(((view, state_of(view), len(live_workers(view))) for view in views), key=_place)
    return page(request, "crawls.html", visitor=visitor, title="Crawls", rows=rows[:MAX_SHOWN], total=len(rows))


@router.get("/crawls/{crawl}")
def crawl(request: Request, visitor: Looking, crawl: str, shelf: str = "") -> HTMLResponse:
    """Show one crawl; of one shelf the first entries, if one is asked for."""
    glances = lookout_of(request, visitor.desk).glances
    report = glances.get(("crawl", crawl), lambda: visitor.desk.crawl(crawl))
    view = report.view
    entries = []
    if shelf in list(Shelf):
        peeked = visitor.desk.shared.crawls.peek(view.plan.crawl, Shelf(shelf), limit=MAX_ENTRIES)
        entries = [read_entry(entry) for entry in peeked]
    return page(
        request,
        "crawl.html",
        visitor=visitor,
        title=f"Crawl {view.plan.crawl}",
        view=view,
        state_word=state_of(view),
        live=live_workers(view),
        jobs=report.jobs,
        job_of=job_of,
        hint=start_hint(view),
        shelf=shelf,
        shelves=list(Shelf),
        entries=entries,
        domains=sorted(view.domains.items(), key=lambda each: -each[1])[:MAX_DOMAINS],
        limits={limit.domain: limit for limit in view.limits},
    )


@router.post("/crawls/{crawl}/pause")
def pause(request: Request, visitor: Operating, crawl: str) -> RedirectResponse:
    """Let no worker take an entry."""
    return acted(request, visitor, _path(crawl), lambda: f"paused: {_heard(visitor.acts.pause_crawl(crawl))}")


@router.post("/crawls/{crawl}/resume")
def resume(request: Request, visitor: Operating, crawl: str) -> RedirectResponse:
    """Let the workers go on."""
    act = visitor.acts.pause_crawl
    return acted(request, visitor, _path(crawl), lambda: f"it goes on: {_heard(act(crawl, is_paused=False))}")


@router.post("/crawls/{crawl}/tune")
def tune(
    request: Request, visitor: Operating, crawl: str, concurrency: Text = "", delay_s: Text = ""
) -> RedirectResponse:
    """Change how hard each worker works; empty fields give both back to the spider."""

    def act() -> str:
        wanted = whole(concurrency, "concurrency"), decimal(delay_s, "the delay")
        controls = visitor.acts.tune_crawl(
            crawl,
            concurrency=-1 if wanted[0] is None else wanted[0],
            delay_s=-1.0 if wanted[1] is None else wanted[1],
        )
        told = [
            "the spider's own" if value is None else f"{value:g}" for value in (controls.concurrency, controls.delay_s)
        ]
        return f"each worker: concurrency {told[0]}, delay {told[1]}"

    return acted(request, visitor, _path(crawl), act)


@router.post("/crawls/{crawl}/limit")
def limit(
    request: Request,
    visitor: Operating,
    crawl: str,
    *,
    domain: Text = "",
    per_second: Text = "",
    concurrency: Text = "",
) -> RedirectResponse:
    """Set what all workers together may ask of a domain; without numbers its limit is taken away."""

    def act() -> str:
        rate, at_once = decimal(per_second, "requests a second"), whole(concurrency, "concurrency")
        visitor.acts.limit_crawl(crawl, domain, per_second=rate, concurrency=at_once)
        return f"{domain} has no limit of its own any more" if rate is at_once is None else f"{domain} is limited"

    return acted(request, visitor, _path(crawl), act)


@router.post("/crawls/{crawl}/block")
def block(request: Request, visitor: Operating, crawl: str, pattern: Text = "") -> RedirectResponse:
    """Let no worker fetch from a domain, or what matches a pattern."""

    def act() -> str:
        visitor.acts.block(crawl, [_given(pattern)])
        return f"{pattern} is blocked"

    return acted(request, visitor, _path(crawl), act)


@router.post("/crawls/{crawl}/unblock")
def unblock(request: Request, visitor: Operating, crawl: str, pattern: Text = "") -> RedirectResponse:
    """Lift one block."""

    def act() -> str:
        count = visitor.acts.unblock(crawl, [_given(pattern)])
        return f"{pattern} is not blocked any more; entries that went back: {count}"

    return acted(request, visitor, _path(crawl), act)


@router.post("/crawls/{crawl}/requeue")
def requeue(request: Request, visitor: Operating, crawl: str) -> RedirectResponse:
    """Put all dead entries back into the queue."""
    return acted(
        request,
        visitor,
        _path(crawl),
        lambda: f"{visitor.acts.requeue_dead(crawl)} dead entries are in the queue again",
    )


def _heard(obeyed: Obeyed) -> str:
    """Say how many workers have heard of it."""
    if not obeyed.workers:
        return "no worker is there"
    return f"{obeyed.heard} of {counted(obeyed.workers, 'worker')} heard of it, {obeyed.in_flight} entries in flight"


def _path(crawl: str) -> str:
    return f"/crawls/{quote(crawl, safe='')}"


def _place(row: tuple[CrawlView, CrawlState, int]) -> tuple[bool, str]:
    return row[1] is CrawlState.OVER, row[0].plan.crawl


def _given(text: str) -> str:
    if not text.strip():
        raise UsageError("name a domain or a pattern")
    return text.strip()
