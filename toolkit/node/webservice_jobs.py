"""The endpoints about jobs, true of the whole cluster: they write and read the shared queue, whichever node is asked.

What each does with the store stands in `cluster_jobs.py`, and runs in a thread; here it is put into Scrapyd's words.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scrapyd.webservice import param
from twisted.internet.defer import Deferred

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId
from toolkit.node.cluster_jobs import ClusterJobs, Wanted, cancel, enqueue, list_jobs, state_of
from toolkit.node.membership import shared_of
from toolkit.node.webservice_endpoint import Endpoint, said

STATUS_PATIENCE_S = 2.0
"""How long `daemonstatus.json` waits for Redis: what watches over a node wants an answer soon."""

_GRACE_S = 30.0
_FORCED = {"KILL": 0.0, "9": 0.0, "SIGKILL": 0.0}
_GENTLE = frozenset({"INT", "2", "SIGINT", "TERM", "15", "SIGTERM"})


@dataclass(frozen=True, slots=True)
class _Shown:
    """A job as Scrapyd's root wants one when it looks for its log."""

    project: str
    spider: str
    job: str


class Schedule(Endpoint):
    """`schedule.json`: a job enters the shared queue, under a version that is fixed now.

    The answer has `crawl` too where the crawl is not called as the spider, if that uses the frontier at all.
    """

    @param("project")  # type: ignore[untyped-decorator]
    @param("spider")  # type: ignore[untyped-decorator]
    @param("_version", dest="version", required=False, default=None)  # type: ignore[untyped-decorator]
    @param("jobid", required=False, default=lambda: uuid.uuid1().hex)  # type: ignore[untyped-decorator]
    @param("priority", required=False, default=0, type=float)  # type: ignore[untyped-decorator]
    @param("setting", required=False, default=list, multiple=True)  # type: ignore[untyped-decorator]
    async def render_POST(self, txrequest: Any, project: str, spider: str, **given: Any) -> dict[str, Any]:  # noqa: N802
        """Check and enqueue."""
        wanted = Wanted(
            project=project,
            spider=spider,
            version=given["version"],
            job_id=given["jobid"],
            priority=given["priority"],
            settings=dict(each.split("=", 1) for each in given["setting"]),
            args={name.decode(): values[0].decode() for name, values in txrequest.args.items()},
            who=f"api@{getattr(txrequest.getClientAddress(), 'host', 'local')}",
        )
        catalogue, is_here = self.node.catalogue, self.is_known(project)
        job = await self.ask(lambda store: enqueue(store, wanted, catalogue, is_here=is_here))
        return {"jobid": job.id, **({"crawl": job.crawl} if job.crawl else {})}


class Cancel(Endpoint):
    """`cancel.json`: a pending job is gone when this answers, an active one ends soon, on whichever node it is."""

    @param("project")  # type: ignore[untyped-decorator]
    @param("job")  # type: ignore[untyped-decorator]
    @param("signal", required=False, default="INT")  # type: ignore[untyped-decorator]
    async def render_POST(self, _txrequest: Any, project: str, job: str, signal: str) -> dict[str, Any]:  # noqa: N802
        """Cancel."""
        grace_s = grace_of(signal)
        is_here = self.is_known(project)
        before = await self.ask(lambda store: cancel(store, project, JobId(job), grace_s=grace_s, is_here=is_here))
        return {"prevstate": None if before is None else word(before)}


class Status(Endpoint):
    """`status.json`: the state of a job anywhere in the cluster; null when nobody knows it."""

    @param("job")  # type: ignore[untyped-decorator]
    @param("project", required=False)  # type: ignore[untyped-decorator]
    async def render_GET(self, _txrequest: Any, job: str, project: str | None) -> dict[str, Any]:  # noqa: N802
        """Look it up; while the store is away, only what runs here is known for sure."""
        is_here = project is None or self.is_known(project)
        try:
            state = await self.ask(lambda store: state_of(store, project, JobId(job), is_here=is_here))
        except StoreUnreachableError as error:
            if not any(process.job == job and project in {None, process.project} for process in self.running):
                raise
            return {"currstate": "running", "note": note(error)}
        return {"currstate": None if state is None else word(state)}

    @property
    def running(self) -> Iterable[Any]:
        """The processes of this node."""
        return list(self.root.launcher.processes.values())


class ListJobs(Endpoint):
    """`listjobs.json`: the cluster's jobs; of the ended ones the newest, as many as `finished_to_keep` says.

    While the store is away it is an error: a list that leaves jobs out would have its reader start them again.
    """

    @param("project", required=False)  # type: ignore[untyped-decorator]
    async def render_GET(self, _txrequest: Any, project: str | None) -> dict[str, Any]:  # noqa: N802 - Twisted's name
        """List them."""
        keep = self.node.settings.finished_to_keep
        is_here = project is None or self.is_known(project)
        jobs: ClusterJobs = await self.ask(lambda store: list_jobs(store, project, finished=keep, is_here=is_here))
        return {
            "pending": [_pending_row(job) for job in jobs.pending],
            "running": [self._row(job, pid=True) for job in jobs.active],
            "finished": [self._row(job, pid=False) for job in jobs.finished],
        }

    def _row(self, job: Job, *, pid: bool) -> dict[str, Any]:
        shown = _Shown(job.project, job.spider, job.id)
        # A log lies on the node that wrote it.
        is_here = job.node == self.node.settings.name
        return {
            "id": job.id,
            "project": job.project,
            "spider": job.spider,
            **({"pid": job.pid} if pid else {}),
            "start_time": time_text(job.started_at or job.scheduled_at),
            **({} if pid else {"end_time": time_text(job.ended_at)}),
            "log_url": self.root.get_log_url(shown) if is_here else None,
            "items_url": self.root.get_item_url(shown) if is_here else None,
            "node": job.node,
            "state": job.state,
        }


class DaemonStatus(Endpoint):
    """`daemonstatus.json`: the cluster's counts; while the store is away this node's own, with a note that says so.

    `running_here` is always this node's own, and `cluster` is named where the others are the whole cluster's.
    """

    async def render_GET(self, _txrequest: Any) -> dict[str, Any]:  # noqa: N802 - Twisted's name
        """Count."""
        launcher = self.root.launcher
        here = len(launcher.processes)
        try:
            counts = await self._counts()
        except StoreUnreachableError as error:
            own = {"pending": 0, "running": here, "finished": len(launcher.finished)}
            return {**own, "running_here": here, "note": note(error)}
        cluster = {"pending": counts["pending"], "running": counts["active"], "finished": counts["ended"]}
        return {**cluster, "running_here": here, "cluster": self.node.settings.cluster}

    def _counts(self) -> Deferred[Any]:
        return self.ask(lambda store: shared_of(store).queue.counts(), patience_s=STATUS_PATIENCE_S)


def word(state: JobState) -> str:
    """Return Scrapyd's word for a state: it knows three."""
    if state is JobState.PENDING:
        return "pending"
    return "running" if state.is_active else "finished"


def grace_of(signal: str) -> float:
    """Return the seconds that a spider has to close by itself when it is cancelled with this signal.

    Raises:
        twisted.web.error.Error: it is no signal that ends a job.

    """
    name = signal.upper()
    if name in _FORCED:
        return _FORCED[name]
    if name in _GENTLE:
        return _GRACE_S
    raise said(f"signal is invalid: {signal!r} ends no job here; INT, TERM and KILL do")


def time_text(at: datetime | None) -> str:
    """Return a moment as Scrapyd prints one: in this machine's time zone, without naming it."""
    return "" if at is None else str(at.astimezone().replace(tzinfo=None))


def note(error: StoreUnreachableError) -> str:
    """Say what an answer without the store leaves out."""
    return f"this is of this node alone: {error.message}"


def _pending_row(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "project": job.project,
        "spider": job.spider,
        "version": job.version,
        "settings": dict(job.settings or {}),
        "args": dict(job.args or {}),
    }
