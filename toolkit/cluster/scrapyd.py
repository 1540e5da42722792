"""The one door to Scrapyd's HTTP API: python-scrapyd-api over our transport, and what that library lacks.

Endpoints and answers are those of Scrapyd 1.6 (`scrapyd/webservice.py`); every error is one of `model/errors.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from scrapyd_api import ScrapydAPI
from scrapyd_api.constants import ADD_VERSION_ENDPOINT, DEFAULT_ENDPOINTS

from toolkit.cluster.transport import UPLOAD_PATIENCE, NodeTransport
from toolkit.model.errors import NodeAnswerError, NodeRefusedError
from toolkit.model.hosts import Host
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName

MAX_EXCERPT_BYTES = 1024 * 1024
STATUS, DAEMON_STATUS = "status", "daemon_status"
_ENDPOINTS = {**DEFAULT_ENDPOINTS, STATUS: "/status.json", DAEMON_STATUS: "/daemonstatus.json"}
_PARTIAL, _NOT_FOUND, _RANGE_PAST_END, _OK = 206, 404, 416, 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What `daemonstatus.json` tells: jobs waiting, running and remembered as finished on this node.

    Of a plug-in node `running_here` is what it runs itself; where it names its `cluster`, the others are that one's.
    """

    pending: int
    running: int
    finished: int
    node_name: str
    running_here: int | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class ListedJob:
    """One row of `listjobs.json`; the times are in the node's own time zone, which Scrapyd does not tell.

    A plug-in node lists the whole cluster's jobs, each with its `node` and `state`; a stock node only its own.
    """

    job: Job
    local_start: str | None
    local_end: str | None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a file on the node: its first byte's position, the file's whole size, when it was last written."""

    content: bytes
    begins_at: int
    size: int
    written_at: str | None = None


class ScrapydNode(ScrapydAPI):  # type: ignore[misc] # the library carries no types
    """One node's Scrapyd. Reads are repeated over broken connections, writes are never sent twice.

    Every method raises `NodeUnreachableError`, `NodeTimeoutError`, `NodeUnauthorizedError` or `NodeAnswerError` when
    the node does not answer as Scrapyd does, and `NodeRefusedError` when Scrapyd says no.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.transport = NodeTransport(host)
        # The library joins URLs in a way that drops the path of a node behind a prefix; so the endpoints carry it.
        paths = {name: host.path + path for name, path in _ENDPOINTS.items()}
        super().__init__(host.url, endpoints=paths, client=self.transport)

    @property
    def name(self) -> NodeName:
        """The node's name in the inventory."""
        return self.host.name

    def load(self) -> NodeLoad:
        """Return how busy the node is."""
        answer = self._get(DAEMON_STATUS)
        return self._shaped(
            DAEMON_STATUS,
            lambda: NodeLoad(
                int(answer["pending"]),
                int(answer["running"]),
                int(answer["finished"]),
                str(answer.get("node_name")),
                running_here=None if (here := answer.get("running_here")) is None else int(here),
                cluster=None if (cluster := answer.get("cluster")) is None else str(cluster),
            ),
        )

    def projects(self) -> tuple[ProjectName, ...]:
        """Return the projects that the node holds, sorted."""
        return tuple(sorted(ProjectName(name) for name in self._names("listprojects", self.list_projects)))

    def versions(self, project: ProjectName) -> tuple[VersionName, ...]:
        """Return the versions of a project that the node holds, in Scrapyd's order; none when it is unknown there."""
        return tuple(VersionName(name) for name in self._names("listversions", lambda: self.list_versions(project)))

    def spiders(self, project: ProjectName, version: VersionName) -> tuple[SpiderName, ...]:
        """Return the spiders of one version; the first call for a version makes the node run `scrapy list`."""
        answer = self._get("list_spiders", {"project": project, "_version": version}, patience=UPLOAD_PATIENCE)
        return tuple(SpiderName(name) for name in self._names("listspiders", lambda: answer["spiders"]))

    def upload(
        self,
        project: ProjectName,
        version: VersionName,
        egg: bytes,
        *,
        digest: str | None = None,
        signature: str | None = None,
    ) -> int:
        """Store an egg and return how many spiders the node found in it.

        A plug-in node holds the egg against the `digest`, and its release against the `signature`. A refusal of a stock
        one does not mean that nothing was stored: Scrapyd 1.6 keeps an egg that it could not list.
        """
        if digest is None:
            return self._shaped("addversion", lambda: int(self.add_version(project, version, egg)))
        form = {"project": project, "version": version, "digest": digest}
        if signature is not None:
            form["signature"] = signature
        answer = self.transport.post(self._build_url(ADD_VERSION_ENDPOINT), data=form, files={"egg": egg})
        return self._shaped("addversion", lambda: int(answer["spiders"]))

    def remove(self, project: ProjectName, version: VersionName) -> bool:
        """Delete a version; tell whether it was there. Idempotent."""
        try:
            self.delete_version(project, version)
        except NodeRefusedError as error:
            if "not found" in error.why:
                return False
            raise
        return True

    def start(self, job: Job) -> None:
        """Put a job into the node's own queue, under its id and version. Not idempotent: Scrapyd runs an id twice."""
        form = {"jobid": job.id, "_version": job.version, "priority": str(job.priority or 0), **(job.args or {})}
        told = self._shaped(
            "schedule", lambda: self.schedule(job.project, job.spider, dict(job.settings or {}), **form)
        )
        if told != job.id:
            raise NodeAnswerError(self.name, "schedule.json", f"it took the job under another id, {told!r}")

    def signal(self, job: Job, signal: str) -> JobState | None:
        """Remove a waiting job or signal a running one; return the state before, `None` when the node knows no such."""
        return self._shaped("cancel", lambda: _state(self.cancel(job.project, job.id, signal=signal)))

    def state_of(self, job_id: JobId) -> JobState | None:
        """Return pending, running or finished; `None` when the node knows no such job (any more)."""
        answer = self._get(STATUS, {"job": job_id})
        return self._shaped(STATUS, lambda: _state(answer["currstate"]))

    def jobs(self) -> tuple[ListedJob, ...]:
        """Return the jobs that the node remembers, of all projects."""
        answer = self._get("list_jobs")
        return self._shaped(
            "listjobs",
            lambda: tuple(
                self._listed(state, row)
                for state in (JobState.PENDING, JobState.RUNNING, JobState.FINISHED)
                for row in answer[state]
            ),
        )

    def log(self, job: Job, *, begin: int = 0, most: int = MAX_EXCERPT_BYTES) -> Excerpt | None:
        """Return at most `most` bytes of the job's log from `begin` on; `None` when there is no log (yet)."""
        return self._file("logs", job, "log", begin, most)

    def log_end(self, job: Job, *, most: int) -> Excerpt | None:
        """Return the last bytes of the job's log, in one call where it is short, else in two."""
        # Not "the last n bytes": Twisted answers 500 to that when the file is shorter than n.
        first = self.log(job, most=most)
        if first is None or first.size <= most:
            return first
        return self.log(job, begin=first.size - most, most=most)

    def items(self, job: Job, *, begin: int = 0) -> Excerpt | None:
        """Return at most 1 MiB of the job's items file; `None` when the node keeps none (its `items_dir` is empty)."""
        return self._file("items", job, "jl", begin, MAX_EXCERPT_BYTES)

    def close(self) -> None:
        """Let go of the connections."""
        self.transport.close()

    def _get(self, endpoint: str, params: Mapping[str, str] | None = None, *, patience: int = 1) -> dict[str, Any]:
        timeout_s = self.host.timeout_s * patience
        return self.transport.get(self._build_url(endpoint), params=params, timeout=timeout_s)

    def _shaped(self, doing: str, read: Callable[[], T]) -> T:
        """Read an answer's fields; a missing or odd one means that it is not Scrapyd that answered."""
        try:
            return read()
        except KeyError as error:
            raise NodeAnswerError(self.name, f"{doing}.json", f"an answer without {error}") from error
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise NodeAnswerError(self.name, f"{doing}.json", f"an answer that is not Scrapyd's: {error}") from error

    def _names(self, doing: str, read: Callable[[], object]) -> list[str]:
        return self._shaped(doing, lambda: [_text(name) for name in _typed(read(), list)])

    def _listed(self, state: JobState, row: Mapping[str, Any]) -> ListedJob:
        settings, args = _texts(row.get("settings")), _texts(row.get("args"))
        job = Job(
            id=JobId(str(row["id"])),
            project=ProjectName(str(row["project"])),
            spider=SpiderName(str(row["spider"])),
            state=_state(row.get("state")) or state,
            version=None if row.get("version") is None else VersionName(str(row["version"])),
            node=NodeName(_text(row["node"])) if row.get("node") else self.name,
            args=None if args is None else {key: value for key, value in args.items() if key not in _NOT_ARGUMENTS},
            settings=settings,
        )
        return ListedJob(job, _moment(row.get("start_time")), _moment(row.get("end_time")))

    def _file(self, folder: str, job: Job, ending: str, begin: int, most: int) -> Excerpt | None:
        name = "/".join(quote(part, safe="") for part in (job.project, job.spider, f"{job.id}.{ending}"))
        doing = f"{folder} of {job.id}"
        span = {"Range": f"bytes={begin}-{begin + most - 1}"}
        answer = self.transport.send("GET", f"{self.host.path}/{folder}/{name}", doing=doing, headers=span)
        written = answer.headers.get("last-modified")
        if answer.code == _NOT_FOUND:
            return None
        if answer.code == _RANGE_PAST_END:
            size = _span(answer.headers, r"bytes \*/(\d+)") or [0]
            return Excerpt(b"", begin, size[0], written)
        if answer.code == _PARTIAL and (place := _span(answer.headers, r"bytes (\d+)-\d+/(\d+)")):
            return Excerpt(answer.body, place[0], place[1], written)
        if answer.code == _OK:  # something on the way does not know of parts, and sent the whole
            return Excerpt(answer.body[begin : begin + most], begin, len(answer.body), written)
        raise self.transport.refusal(answer, doing)


# Scrapyd lists these among a pending job's arguments, since they came in the same form.
_NOT_ARGUMENTS = frozenset({"project", "spider", "priority", "setting", "jobid", "_version", "_job"})


def _typed(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} where a {kind.__name__} belongs")
    return value


def _text(value: object) -> str:
    return _typed(value, str)


def _texts(value: object) -> dict[str, str] | None:
    return None if value is None else {_text(key): str(item) for key, item in _typed(value, dict).items()}


def _moment(value: object) -> str | None:
    """Let a time pass that can be read as one; it has no zone, since Scrapyd tells none."""
    if value is None or value == "":
        return None
    if datetime.fromisoformat(_text(value)).tzinfo is not None:
        raise ValueError(f"{value!r:.40} where a local time belongs")
    return _text(value)


def _state(value: object) -> JobState | None:
    return None if value is None else JobState(_text(value))


def _span(headers: Mapping[str, str], shape: str) -> Sequence[int]:
    match = re.fullmatch(shape, headers.get("content-range", ""))
    return [int(group) for group in match.groups()] if match else []
