"""What happened, newest first: the stream of events, and the audit of who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from toolkit.cluster.audit_trail import AuditFilter, audit_trail
from toolkit.cluster.event_trail import EventFilter
from toolkit.model.events import Event, EventKind
from toolkit.store.interfaces_watch import Events
from toolkit.web.event_rows import row_of
from toolkit.web.lookout import lookout_of
from toolkit.web.rendering import page
from toolkit.web.visitor import Looking

router = APIRouter(include_in_schema=False)

PAGE = 100
SCAN, MAX_SCANS = 1_000, 20
GROUPS = tuple(dict.fromkeys(kind.value.partition(".")[0] for kind in EventKind))
Text = Annotated[str, Query(max_length=200)]


@router.get("/events")
def events(request: Request, visitor: Looking, kind: Text = "", subject: Text = "", before: Text = "") -> HTMLResponse:
    """List events, of one kind or group of kinds, or about one subject; `before` pages on."""
    lookout = lookout_of(request, visitor.desk)
    stream = visitor.desk.shared.events
    found, last = lookout.glances.get(
        ("events", kind, subject, before), lambda: older(stream, kind=kind, subject=subject.strip(), before=before)
    )
    return page(
        request,
        "events.html",
        visitor=visitor,
        title="Events",
        rows=[row_of(event) for event in found],
        kind=kind,
        subject=subject,
        before=before,
        older=last,
        groups=GROUPS,
        kinds=list(EventKind),
    )


@router.get("/audit")
def audit(request: Request, visitor: Looking, who: Text = "", action: Text = "") -> HTMLResponse:
    """List who changed what, newest first."""
    wanted = AuditFilter(who=who.strip() or None, action=action.strip() or None)
    store = visitor.desk.store
    glances = lookout_of(request, visitor.desk).glances
    entries = glances.get(("audit", wanted), lambda: audit_trail(store, wanted, limit=PAGE))
    return page(request, "audit.html", visitor=visitor, title="Audit", entries=entries, who=who, action=action)


def older(stream: Events, *, kind: str, subject: str, before: str) -> tuple[list[Event], str | None]:
    """Return a page of events that are meant, and the id to ask with for older ones, if any may be there.

    At most 20,000 are looked through at a time: then the page may be short, and the next goes on from there.
    """
    kinds = (kind if "." in kind else f"{kind}.*",) if kind else ()
    wanted = EventFilter(kinds=kinds, subject=subject or None)
    is_all = not kind and not subject
    found: list[Event] = []
    last = before or None
    for _ in range(MAX_SCANS):
        some = stream.entries(limit=PAGE + 1 if is_all else SCAN, before=last)
        for event in some:
            if len(found) == PAGE:
                return found, last
            last = event.id
            if wanted.admits(event):
                found.append(event)
        if len(some) < (PAGE + 1 if is_all else SCAN):
            return found, None
    return found, last
