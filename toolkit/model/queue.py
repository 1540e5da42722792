"""What crosses between the shared queue and those who use it: lines, claims, endings, wishes. Values and pure rules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, LineName, NodeName, ProjectName, SpiderName, Token, VersionName
from toolkit.model.nodes import NodeReport


@dataclass(frozen=True, slots=True)
class Line:
    """Pending jobs of one spider of one version that the same nodes may take; `on` is `None` when all may."""

    project: ProjectName
    version: VersionName
    spider: SpiderName
    place: str | None = None
    on: frozenset[NodeName] | None = None

    @property
    def name(self) -> LineName:
        """Name the line; equal lines have equal names."""
        return line_name(self.project, self.version, self.spider, self.place)


def line_name(project: ProjectName, version: VersionName, spider: SpiderName, place: str | None) -> LineName:
    """Name a line: a JSON list, so that the queue's scripts can read it too."""
    return LineName(json.dumps([project, version, spider, place or ""], separators=(",", ":")))


def place_of(on: Collection[NodeName] | None) -> str | None:
    """Name the set of nodes that may take a job: the same nodes in any order have one name; `None` when all may."""
    if on is None:
        return None
    return hashlib.sha256(json.dumps(sorted(set(on))).encode()).hexdigest()[:16]


def read_line_name(name: LineName) -> tuple[ProjectName, VersionName, SpiderName, str | None]:
    """Return what `line_name` was given."""
    project, version, spider, place = json.loads(name)
    return ProjectName(project), VersionName(version), SpiderName(spider), place or None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job that is now this node's, until its lease ends, under this token."""

    job: Job
    token: Token


@dataclass(frozen=True, slots=True)
class NothingToClaim:
    """No job for this node now; look again after `again_s` seconds if that is known, else when woken.

    `must_beat`: Redis has come back since the node's last heartbeat, and may have forgotten what the node holds or has
    told. It gives a sign of life first. `why` says what keeps every node from taking jobs now.
    """

    again_s: float | None = None
    must_beat: bool = False
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What a spider process says while it runs; `None` means not known yet.

    `statuses` counts what was answered by HTTP status, at most the 20 that came most.
    """

    state: JobState
    pages: int | None = None
    items: int | None = None
    errors: int | None = None
    retries: int | None = None
    bytes: int | None = None
    pages_per_minute: float | None = None
    memory_mb: float | None = None
    finish_reason: str | None = None
    statuses: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A job that a node says it has, how far it is, and the grace of its cancel, if the node knows of one."""

    job_id: JobId
    token: Token
    progress: Progress | None = None
    cancel_grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: what its launcher saw and what its reporter last said.

    `state` is finished or failed, or lost when the process ended only because its node was going away; the queue makes
    cancelled of it where somebody had asked for that. `ago_s` is how long ago it ended. `is_counted` is false for a
    lost one whose spider closed in order because its node was stopped on purpose: that is no attempt used up.
    `is_cancelled` says that the node was asked to cancel it, which Redis may have forgotten.
    """

    state: JobState
    reason: str
    exit_code: int | None = None
    signal: str | None = None
    progress: Progress | None = None
    ago_s: float = 0.0
    is_counted: bool = True
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """What operators want of an active job: the node makes it so, and again after any restart."""

    cancel_grace_s: float | None = None
    is_paused: bool = False
    concurrency: int | None = None
    delay_s: float | None = None

    @property
    def is_cancel(self) -> bool:
        """The job shall end."""
        return self.cancel_grace_s is not None


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """What the queue tells a node at its heartbeat.

    Claims are named by their tokens. `stale` ones are no longer this node's: it stops their processes and reports
    nothing. `unheard` ones have ended, and the queue does not know (any more) how: the node reports them again. Of
    `unknown` ones the queue does not know the job: the node brings it (`readmit`). `taken_up` ones were forgotten, or
    taken from the node and given to nobody, and are its own again. `wishes` are those of held claims. `releases` is a
    number that changes whenever a release is offered, made active or taken away. `live_nodes` counts the nodes with a
    fresh beat, `questions` what the node is asked and has not taken yet. `returned_ms` is when Redis last came back,
    started anew or taken over from another, by its own clock: what it held before may be forgotten since.
    """

    now: datetime
    is_draining: bool
    releases: int
    live_nodes: int
    stale: tuple[Token, ...] = ()
    unheard: tuple[Token, ...] = ()
    unknown: tuple[Token, ...] = ()
    taken_up: tuple[Token, ...] = ()
    wishes: Mapping[Token, Wish] = field(default_factory=dict)
    questions: int = 0
    returned_ms: int = 0


@dataclass(frozen=True, slots=True)
class Cap:
    """How many jobs of a project, or of one spider of it, may be active at once: in the cluster, and on one node."""

    project: ProjectName
    spider: SpiderName | None = None
    cluster: int | None = None
    per_node: int | None = None


def unfit(line: Line, *, node: NodeName, versions: Mapping[ProjectName, Collection[VersionName]]) -> str | None:
    """Say why a node may not take the jobs of a line, or return `None` when it may."""
    if line.on is not None and node not in line.on:
        return "was not picked by --on"
    if line.version not in versions.get(line.project, ()):
        return f"does not hold {line.project} {line.version}"
    return None


def stuck(lines: Sequence[Line], takers: Sequence[NodeReport]) -> list[Line]:
    """Return the lines whose jobs none of these nodes may take, whatever it runs now. Pure."""
    return [line for line in lines if all(unfit(line, node=report.name, versions=report.versions) for report in takers)]
