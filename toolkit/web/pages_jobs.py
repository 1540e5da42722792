"""The jobs: found by id, spider, project, node and state, page by page; picked ones cancelled or put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import NodeName
from toolkit.web.acting import acted, counted, picked
from toolkit.web.lookout import lookout_of
from toolkit.web.rendering import page, query
from toolkit.web.visitor import Looking, Operating, Visitor

router = APIRouter(include_in_schema=False)

PAGE = 50
MAX_PAGE = 20_000
ACTIVE = "active"
"""In place of a state: starting, running or paused."""
MAX_TEXT = 200

Picked = Annotated[list[str], Form(alias="job", default_factory=list)]
Back = Annotated[str, Form()]


@dataclass(frozen=True, slots=True)
class Search:
    """What was asked for, as it stands in the page's address."""

    q: str = ""
    state: str = ""
    spider: str = ""
    project: str = ""
    node: str = ""
    page: int = 1

    @property
    def wanted(self) -> JobFilter:
        """The filter that the store understands."""
        return JobFilter(
            states=states_of(self.state),
            spider=self.spider or None,
            project=self.project or None,
            nodes=frozenset({NodeName(self.node)}) if self.node else frozenset(),
        )

    def path(self, **changed: object) -> str:
        """Return the address of this list, or of one that differs in something."""
        fields = {name: getattr(self, name) for name in self.__slots__} | changed
        return "/jobs" + query(**{name: value for name, value in fields.items() if (name, value) != ("page", 1)})


def search_of(
    *,
    q: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    state: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    spider: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    project: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    node: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    page: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 1,
) -> Search:
    """Read what is asked for out of a page's address."""
    return Search(q.strip(), state, spider.strip(), project.strip(), node.strip(), page)


@dataclass(frozen=True, slots=True)
class Found:
    """One page of jobs; `is_more` says that older ones follow, `note` what it may lack, or how it was read."""

    jobs: Sequence[Job]
    is_more: bool = False
    note: str | None = None


def states_of(text: str) -> frozenset[JobState]:
    """Return the states that a word of the page's address means; none for any."""
    if text == ACTIVE:
        return frozenset(state for state in JobState if state.is_active)
    return frozenset({JobState(text)}) if text in list(JobState) else frozenset()


def find(visitor: Visitor, asked: Search) -> Found:
    """Read one page of jobs. A text is the begin of an id, or else a spider's name."""
    if asked.q:
        wanted = asked.wanted
        by_id = visitor.desk.store.jobs.matching(asked.q, limit=PAGE + 1)
        matching = [job for job in by_id if wanted.admits(job)]
        if matching:
            return Found(matching[:PAGE], note="more begin so: type more of the id" if len(by_id) > PAGE else None)
        asked = replace(asked, spider=asked.q)
    listed = visitor.desk.jobs(asked.wanted, limit=PAGE + 1, offset=(asked.page - 1) * PAGE)
    notes = [f"{node} could not be asked" for node in listed.unseen]
    notes += [listed.note.message] if listed.note else []
    return Found(listed.jobs[:PAGE], len(listed.jobs) > PAGE, "; ".join(notes) or None)


@router.get("/jobs")
def jobs(request: Request, visitor: Looking, asked: Annotated[Search, Depends(search_of)]) -> HTMLResponse:
    """List jobs, newest first."""
    lookout = lookout_of(request, visitor.desk)
    found = lookout.glances.get(("jobs", asked), lambda: find(visitor, asked), fresh_s=lookout.nodes_fresh_s / 2)
    return page(
        request,
        "jobs.html",
        visitor=visitor,
        title="Jobs",
        asked=asked,
        found=found,
        states=[ACTIVE, *JobState],
        first=(asked.page - 1) * PAGE + 1,
    )


@router.post("/jobs/cancel")
def cancel(request: Request, visitor: Operating, ids: Picked, back: Back = "/jobs") -> RedirectResponse:
    """Cancel the picked jobs."""

    def act() -> str:
        done = visitor.acts.cancel(picked(ids, "job"))
        left = [f"{each.job.id}: {each.error.message}" for each in done if each.error is not None]
        gone = sum(each.error is None and not each.before.is_final for each in done)
        ended = sum(each.before.is_final for each in done)
        told = [f"{counted(gone, 'job')} cancelled"] + ([f"{ended} had ended before"] if ended else [])
        return "; ".join([*told, *left])

    return acted(request, visitor, back, act)


@router.post("/jobs/retry")
def retry(request: Request, visitor: Operating, ids: Picked, back: Back = "/jobs") -> RedirectResponse:
    """Put the picked jobs back into the queue."""

    def act() -> str:
        return f"{counted(len(visitor.acts.retry(picked(ids, 'job'))), 'job')} back in the queue"

    return acted(request, visitor, back, act)
