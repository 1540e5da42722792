"""Why a job waits, where it runs, or how it ended: a pure decision on what was just read, and the thin reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.cluster.files import read_log
from toolkit.cluster.membership import plug_in_error, registered
from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.model.queue import Cap, Line, read_line_name, unfit
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import Store
from toolkit.store.interfaces_queue import JobQueue

LOG_LINES = 20


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Whether one node could take a pending job now; `reason` says why not, or what it would wait for."""

    node: NodeName
    could: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What was read about a pending job: its place, the caps that count for it and how much of them is used."""

    position: int | None
    nodes: Sequence[NodeRecord]
    full_caps: Sequence[str] = ()
    full_caps_on: Mapping[NodeName, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One job and why it is as it is: `summary` in a sentence, then what stands behind it.

    `position` counts the jobs before a pending one, `nodes` holds a verdict each for it; `log` are the last lines of a
    job that did not finish well, and `log_error` says why they could not be read.
    """

    job: Job
    summary: str
    details: tuple[str, ...] = ()
    position: int | None = None
    nodes: tuple[NodeVerdict, ...] = ()
    log: tuple[str, ...] = ()
    log_error: str | None = None


def why(store: Store, job: Job, nodes: Nodes | None = None) -> Explanation:
    """Explain a job that was just looked up; `nodes` are those whose logs may be read by HTTP."""
    now = store.now()
    if job.state is JobState.PENDING and job.is_queued and store.shared is not None:
        waiting = _read_waiting(store.shared.queue, job, registered(store))
        return explain_pending(job, waiting, now=now)
    if not job.state.is_final:
        return explain_active(job, now=now)
    log, error = _log_end(job, nodes)
    return explain_ended(job, log=log, log_error=error)


def explain_pending(job: Job, waiting: Waiting, *, now: datetime) -> Explanation:
    """Say why a queued job waits, node by node. Pure."""
    raise NotImplementedError


def explain_active(job: Job, *, now: datetime) -> Explanation:
    """Say where a job is and since when. Pure."""
    raise NotImplementedError


def explain_ended(job: Job, *, log: Sequence[str], log_error: str | None) -> Explanation:
    """Say how a job ended. Pure."""
    raise NotImplementedError


def _read_waiting(queue: JobQueue, job: Job, records: Sequence[NodeRecord]) -> Waiting:
    raise NotImplementedError


def _log_end(job: Job, nodes: Nodes | None) -> tuple[tuple[str, ...], str | None]:
    raise NotImplementedError
