"""The jobs that ended on this node, for Scrapyd's own pages: from Redis at the start, then as they end.

The records themselves are the queue's, so nothing is lost with this process. On the reactor's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scrapyd.interfaces import IJobStorage
from twisted.logger import Logger
from zope.interface import implementer  # type: ignore[import-untyped]

from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import NodeName
from toolkit.node.machine import later, reactor
from toolkit.node.membership import membership
from toolkit.store.interfaces import Store

if TYPE_CHECKING:
    from scrapyd.config import Config

    from toolkit.node.run import Run

AGAIN_S = 5.0
_FINAL = frozenset(state for state in JobState if state.is_final)
_log = Logger()


@dataclass(frozen=True, slots=True)
class EndedJob:
    """What Scrapyd's pages show of a job that has ended; times are local and naive, as Scrapyd's are."""

    project: str
    spider: str
    job: str
    start_time: datetime
    end_time: datetime
    pid: int | None = None


@implementer(IJobStorage)
class SharedJobStorage:
    """The latest `finished_to_keep` jobs that ended on this node, newest first."""

    def __init__(self, config: Config) -> None:
        self._member = membership(config)
        self._jobs: deque[EndedJob] = deque(maxlen=self._member.settings.finished_to_keep)
        reactor().callWhenRunning(self._load)

    def add(self, job: Run) -> None:
        """Take in a run that has ended."""
        ended_at = job.end_time or datetime.now()  # noqa: DTZ005 - Scrapyd's pages want local time
        self._jobs.appendleft(EndedJob(job.project, job.spider, job.job, job.start_time, ended_at, job.pid))

    def list(self) -> Sequence[EndedJob]:
        """Return the jobs, newest first."""
        return list(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[EndedJob]:
        return iter(tuple(self._jobs))

    def _load(self) -> None:
        settings = self._member.settings
        loaded = self._member.call(lambda store: ended_here(store, settings.name, limit=settings.finished_to_keep))
        loaded.addCallbacks(self._loaded, self._failed)

    def _loaded(self, jobs: Sequence[EndedJob]) -> None:
        known = {job.job for job in self._jobs}
        self._jobs.extend(job for job in jobs[: (self._jobs.maxlen or 0) - len(known)] if job.job not in known)

    def _failed(self, failure: Any) -> None:
        if not failure.check(CrawlctlError):
            _log.failure("The jobs that ended here could not be read", failure=failure)
        later(AGAIN_S, self._load)


def ended_here(store: Store, node: NodeName, *, limit: int) -> Sequence[EndedJob]:
    """Return the jobs that ended on a node, newest first; waits for Redis."""
    jobs = store.jobs.recent(JobFilter(states=_FINAL, nodes=frozenset({node})), limit=limit)
    ended = [shown for job in jobs if (shown := _shown(job)) is not None]
    return sorted(ended, key=lambda job: job.end_time, reverse=True)


def _shown(job: Job) -> EndedJob | None:
    """Return what is shown of a job, `None` of one that never ran."""
    if job.started_at is None or job.ended_at is None:
        return None
    began, ended = (at.astimezone().replace(tzinfo=None) for at in (job.started_at, job.ended_at))
    return EndedJob(job.project, job.spider, job.id, began, ended, job.pid)
