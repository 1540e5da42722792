"""One simulated stock Scrapyd: its eggs and jobs in memory, its answers those of Scrapyd 1.6. No sockets here."""

from __future__ import annotations

import hashlib
import io
import re
import uuid
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from packaging.version import InvalidVersion, Version
from support.fleet_fields import Fields, SaysNoError, check_method, given, needed, priority, settings

JSON = dict[str, Any]

FINISHED_TO_KEEP = 100
END_OF_A_CANCELLED_JOB_S = 0.2
_SPIDER_NAME = re.compile(rb"""^\s+name\s*(?::[^=\n]+)?=\s*["']([^"'\n]+)["']""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Egg:
    """What a node remembers of an egg; `spiders` is `None` if it could not be imported."""

    digest: str
    size_bytes: int
    spiders: tuple[str, ...] | None


@dataclass(slots=True)
class SimulatedJob:
    """One job; times are seconds of the clock that the node was given."""

    id: str
    project: str
    spider: str
    version: str | None
    settings: dict[str, str]
    args: dict[str, str]
    priority: float
    duration_s: float
    scheduled_at: float
    pid: int = 0
    started_at: float = 0.0
    ends_at: float = 0.0


@dataclass(slots=True)
class SimulatedNode:
    """One node's state. A job runs for its spider argument `duration_s`, else for the node's `job_s`."""

    name: str
    now: Callable[[], float]
    slots: int = 4
    job_s: float = 2.0
    pickup_s: float = 0.0
    spiders: tuple[str, ...] = ()
    eggs: dict[str, dict[str, Egg]] = field(default_factory=dict)
    pending: list[SimulatedJob] = field(default_factory=list)
    running: list[SimulatedJob] = field(default_factory=list)
    finished: deque[SimulatedJob] = field(default_factory=lambda: deque(maxlen=FINISHED_TO_KEEP))
    epoch: datetime = field(default_factory=lambda: datetime.now().astimezone().replace(tzinfo=None))
    _last_pid: int = 10_000
    _slot_freed_at: float = 0.0

    def answer(self, method: str, endpoint: str, fields: Fields) -> JSON | None:
        """Return what Scrapyd answers, node name included; `None` where it has no such page."""
        known = _ENDPOINTS.get(endpoint)
        if known is None:
            return None
        its_method, act = known
        self.advance()
        try:
            check_method(method, its_method)
            result = {**act(self, fields), "status": "ok"}
        except SaysNoError as error:
            result = {"status": "error", "message": str(error)}
        return {**result, "node_name": self.name}

    def advance(self) -> None:
        """Bring the jobs to where they are now: started while a slot was free, finished when their time was up."""
        now = self.now()
        while True:
            ending = min(self.running, key=lambda job: job.ends_at, default=None)
            starting = self.pending[0] if self.pending and len(self.running) < self.slots else None
            start_at = max(starting.scheduled_at + self.pickup_s, self._slot_freed_at) if starting else now
            if ending and ending.ends_at <= now and (starting is None or ending.ends_at <= start_at):
                self.running.remove(ending)
                self.finished.append(ending)
                self._slot_freed_at = ending.ends_at
            elif starting and start_at <= now:
                self._start(self.pending.pop(0), at=start_at)
            else:
                return

    def hold(self, project: str, version: str, egg: Egg) -> None:
        """Put an egg into the node's storage, as Scrapyd does before it looks into it."""
        self.eggs.setdefault(project, {})[re.sub(r"[^A-Za-z0-9_-]", "_", version)] = egg

    def _start(self, job: SimulatedJob, *, at: float) -> None:
        self._last_pid += 1
        job.pid, job.started_at, job.ends_at = self._last_pid, at, at + job.duration_s
        self.running.append(job)

    # The endpoints, each named after its page.

    def daemonstatus(self, fields: Fields) -> JSON:
        """Count the jobs."""
        del fields
        return {"pending": len(self.pending), "running": len(self.running), "finished": len(self.finished)}

    def listprojects(self, fields: Fields) -> JSON:
        """List the projects that have an egg."""
        del fields
        return {"projects": list(self.eggs)}

    def listversions(self, fields: Fields) -> JSON:
        """List the versions of a project; none for an unknown one."""
        return {"versions": self._versions(needed(fields, "project"))}

    def listspiders(self, fields: Fields) -> JSON:
        """List the spiders of a version, or of what Scrapyd thinks the latest."""
        project = needed(fields, "project")
        return {"spiders": list(self._spiders(self._known(project), given(fields, "_version")))}

    def addversion(self, fields: Fields) -> JSON:
        """Store an egg, and only then look into it: a broken one stays."""
        project, version = needed(fields, "project"), needed(fields, "version")
        content = fields.get("egg", [None])[0]
        if content is None:
            raise SaysNoError("'egg' parameter is required")
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise SaysNoError("egg is not a ZIP file (if using curl, use egg=@path not egg=path)")
        if project in {"", ".", ".."} or "/" in project:
            raise SaysNoError(f"DirectoryTraversalError: {project}")
        egg = Egg(hashlib.sha256(content).hexdigest(), len(content), self.spiders or spiders_in(content))
        self.hold(project, version, egg)
        return {"project": project, "version": version, "spiders": len(_imported(egg))}

    def delversion(self, fields: Fields) -> JSON:
        """Remove one egg, and the project with its last one."""
        project, version = needed(fields, "project"), needed(fields, "version")
        held = self.eggs.get(project, {})
        if held.pop(re.sub(r"[^A-Za-z0-9_-]", "_", version), None) is None:
            raise SaysNoError(f"version '{version}' not found")
        if not held:
            del self.eggs[project]
        return {}

    def delproject(self, fields: Fields) -> JSON:
        """Remove every egg of a project."""
        project = needed(fields, "project")
        if self.eggs.pop(project, None) is None:
            raise SaysNoError(f"project '{project}' not found")
        return {}

    def schedule(self, fields: Fields) -> JSON:
        """Queue a job; an id that is there already is accepted again, as Scrapyd does."""
        project, spider = needed(fields, "project"), needed(fields, "spider")
        version, job_id = given(fields, "_version"), given(fields, "jobid")
        if spider not in self._spiders(self._known(project), version):
            raise SaysNoError(f"spider '{spider}' not found")
        own = {"project", "spider", "_version", "jobid", "priority", "setting"}
        args = {name: values[0].decode() for name, values in fields.items() if name not in own}
        job = SimulatedJob(
            id=job_id or uuid.uuid4().hex,
            project=project,
            spider=spider,
            version=version,
            settings=settings(fields),
            args=args,
            priority=priority(fields),
            duration_s=float(args.get("duration_s", self.job_s)),
            scheduled_at=self.now(),
        )
        self.pending.append(job)
        self.pending.sort(key=lambda waiting: -waiting.priority)
        return {"jobid": job.id}

    def cancel(self, fields: Fields) -> JSON:
        """Drop a pending job, or have a running one end soon; an unknown one is no error."""
        project, job_id = self._known(needed(fields, "project")), needed(fields, "job")
        signal = given(fields, "signal") or "INT"
        before = None
        for job in [job for job in self.pending if (job.project, job.id) == (project, job_id)]:
            self.pending.remove(job)
            before = "pending"
        for job in [job for job in self.running if (job.project, job.id) == (project, job_id)]:
            if signal not in {"INT", "TERM", "KILL", "HUP", "STOP"} and not signal.isdigit():
                raise SaysNoError("TypeError: 'str' object cannot be interpreted as an integer")
            job.ends_at = min(job.ends_at, self.now() + (0 if signal == "KILL" else END_OF_A_CANCELLED_JOB_S))
            before = "running"
        return {"prevstate": before}

    def status(self, fields: Fields) -> JSON:
        """Tell the state of one job; null for an unknown one."""
        job_id, project = needed(fields, "job"), given(fields, "project")
        if project is not None:
            self._known(project)
        for state, jobs in (("finished", self.finished), ("running", self.running), ("pending", self.pending)):
            if any(job.id == job_id and project in {None, job.project} for job in jobs):
                return {"currstate": state}
        return {"currstate": None}

    def listjobs(self, fields: Fields) -> JSON:
        """List every job that the node remembers."""
        project = given(fields, "project")
        if project is not None:
            self._known(project)
        return {
            "pending": [self._pending_row(job) for job in self.pending if project in {None, job.project}],
            "running": [self._running_row(job) for job in self.running if project in {None, job.project}],
            "finished": [self._finished_row(job) for job in self.finished if project in {None, job.project}],
        }

    def _known(self, project: str) -> str:
        if project not in self.eggs:
            raise SaysNoError(f"project '{project}' not found")
        return project

    def _versions(self, project: str) -> list[str]:
        held = list(self.eggs.get(project, {}))
        try:
            return sorted(held, key=Version)
        except InvalidVersion:
            return sorted(held)

    def _spiders(self, project: str, version: str | None) -> tuple[str, ...]:
        held = self.eggs[project]
        egg = held.get(re.sub(r"[^A-Za-z0-9_-]", "_", version or self._versions(project)[-1]))
        if egg is None:
            raise SaysNoError(f"version '{version}' not found")
        return _imported(egg)

    def _time(self, at: float) -> str:
        return str(self.epoch + timedelta(seconds=at))

    def _pending_row(self, job: SimulatedJob) -> JSON:
        return {
            "id": job.id,
            "project": job.project,
            "spider": job.spider,
            "version": job.version,
            "settings": job.settings,
            "args": job.args,
        }

    def _running_row(self, job: SimulatedJob) -> JSON:
        return {
            "id": job.id,
            "project": job.project,
            "spider": job.spider,
            "pid": job.pid,
            "start_time": self._time(job.started_at),
            "log_url": None,
            "items_url": None,
        }

    def _finished_row(self, job: SimulatedJob) -> JSON:
        row = self._running_row(job)
        del row["pid"]
        return {**dict(list(row.items())[:4]), "end_time": self._time(job.ends_at), "log_url": None, "items_url": None}


def spiders_in(content: bytes) -> tuple[str, ...] | None:
    """Guess an egg's spiders from its sources, sorted as `scrapy list` does; `None` if it names no settings."""
    with zipfile.ZipFile(io.BytesIO(content)) as egg:
        if "EGG-INFO/entry_points.txt" not in egg.namelist():
            return None
        return tuple(
            sorted({name.decode() for source in _spider_sources(egg) for name in _SPIDER_NAME.findall(source)})
        )


def _spider_sources(egg: zipfile.ZipFile) -> Iterator[bytes]:
    return (egg.read(path) for path in egg.namelist() if path.endswith(".py") and "/spiders" in path)


def _imported(egg: Egg) -> tuple[str, ...]:
    if egg.spiders is None:
        raise SaysNoError("RunnerError: Traceback (most recent call last):\nscrapyd.exceptions.BadEggError\n")
    return egg.spiders


_ENDPOINTS: Mapping[str, tuple[str, Callable[[SimulatedNode, Fields], JSON]]] = {
    "daemonstatus.json": ("GET", SimulatedNode.daemonstatus),
    "listprojects.json": ("GET", SimulatedNode.listprojects),
    "listversions.json": ("GET", SimulatedNode.listversions),
    "listspiders.json": ("GET", SimulatedNode.listspiders),
    "listjobs.json": ("GET", SimulatedNode.listjobs),
    "status.json": ("GET", SimulatedNode.status),
    "addversion.json": ("POST", SimulatedNode.addversion),
    "delversion.json": ("POST", SimulatedNode.delversion),
    "delproject.json": ("POST", SimulatedNode.delproject),
    "schedule.json": ("POST", SimulatedNode.schedule),
    "cancel.json": ("POST", SimulatedNode.cancel),
}
