"""Scrapyd's queue of one project, on the queue that all nodes share.

Scrapyd's own pages ask it synchronously, on the reactor's thread, where nobody may wait for Redis: they see a mirror,
which is renewed while somebody looks, and so is as old as the last look at most. The plug-in's web services ask Redis.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapyd.interfaces import ISpiderQueue
from twisted.logger import Logger
from zope.interface import implementer  # type: ignore[import-untyped]

from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId
from toolkit.model.orders import new_job_id
from toolkit.node.cluster_jobs import Wanted, enqueue
from toolkit.node.machine import later
from toolkit.node.membership import Membership, membership
from toolkit.store.interfaces import Store

if TYPE_CHECKING:
    from scrapyd.config import Config
    from twisted.internet.defer import Deferred

MAX_SHOWN = 1_000
"""How many pending jobs Scrapyd's pages show, the first ones; `listjobs.json` has all."""

FRESH_S = 1.0
WATCHED_S = 60.0
CANCEL_GRACE_S = 30.0
_log = Logger()

Message = dict[str, Any]


@implementer(ISpiderQueue)
class SharedSpiderQueue:
    """The pending jobs of one project in the cluster, in Scrapyd's form."""

    def __init__(self, config: Config, project: str, *_: str) -> None:
        self._member = membership(config)
        self._project = project
        self._mirror = _mirror_of(self._member)

    def add(self, name: str, priority: float = 0.0, **spider_args: Any) -> Deferred[Job]:
        """Put a job into the shared queue; it fires when the job is there, or fails with why it is not."""
        args = dict(spider_args)
        wanted = Wanted(
            project=self._project,
            spider=name,
            job_id=str(args.pop("_job", None) or new_job_id()),
            version=args.pop("_version", None),
            settings=args.pop("settings", {}),
            priority=priority,
            args=args,
            who=f"scrapyd@{self._member.settings.name}",
        )
        catalogue = self._member.catalogue
        return self._member.call(lambda store: enqueue(store, wanted, catalogue, is_here=True))

    def pop(self) -> None:
        """Give nothing: jobs leave the shared queue by a claim only."""

    def count(self) -> int:
        """Return how many jobs of the project are pending, as far as known."""
        return len(self._mirror.of(self._project))

    def list(self) -> Sequence[Message]:
        """Return the pending jobs of the project, as far as known."""
        return list(self._mirror.of(self._project))

    def remove(self, func: Callable[[Message], bool]) -> int:
        """Cancel the pending jobs, of those that are known, for which `func` is true; return how many those are."""
        doomed = [JobId(message["_job"]) for message in self._mirror.of(self._project) if func(message)]
        if doomed:
            done = self._member.ask(lambda shared: shared.queue.cancel(doomed, grace_s=CANCEL_GRACE_S))
            done.addErrback(lambda failure: _log.error("Not cancelled: {why}", why=failure.getErrorMessage()))
        return len(doomed)

    def clear(self) -> None:
        """Cancel all pending jobs of the project that are known."""
        self.remove(lambda _: True)


class Mirror:
    """What was last seen of the pending jobs of all projects; renewed every second as long as somebody looks."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._messages: Mapping[str, Sequence[Message]] = {}
        self._seen_at = self._asked_at = float("-inf")
        self._is_renewing = False

    def of(self, project: str) -> Sequence[Message]:
        """Return a project's pending jobs in the order in which they are taken."""
        self._asked_at = time.monotonic()
        self._renew()
        return self._messages.get(project, ())

    def _renew(self) -> None:
        if self._is_renewing or time.monotonic() - self._seen_at < FRESH_S:
            return
        self._is_renewing = True
        seen = self._member.call(pending_messages)
        seen.addCallbacks(self._renewed, self._failed)

    def _renewed(self, messages: Mapping[str, Sequence[Message]]) -> None:
        self._messages, self._seen_at, self._is_renewing = messages, time.monotonic(), False
        if self._seen_at - self._asked_at < WATCHED_S:
            later(FRESH_S, self._renew)

    def _failed(self, failure: Any) -> None:
        self._is_renewing = False
        if not failure.check(CrawlctlError):
            _log.failure("The pending jobs could not be read", failure=failure)


def pending_messages(store: Store) -> Mapping[str, Sequence[Message]]:
    """Return the first pending jobs of each project in Scrapyd's form; waits for Redis."""
    pending = store.jobs.recent(JobFilter(states=frozenset({JobState.PENDING})), limit=MAX_SHOWN)
    found: dict[str, list[Message]] = {}
    oldest_first = list(reversed(pending))
    for job in sorted(oldest_first, key=lambda job: -(job.priority or 0.0)):
        found.setdefault(job.project, []).append(message_of(job))
    return found


def message_of(job: Job) -> Message:
    """Return a pending job as Scrapyd's pages and services want it."""
    return {
        **(job.args or {}),
        "name": job.spider,
        "_job": job.id,
        "settings": dict(job.settings or {}),
        **({"_version": job.version} if job.version else {}),
    }


_MIRRORS: WeakKeyDictionary[Membership, Mirror] = WeakKeyDictionary()


def _mirror_of(member: Membership) -> Mirror:
    """Return the one mirror of a process: Scrapyd makes a queue for each project again and again."""
    known = _MIRRORS.get(member)
    if known is None:
        known = _MIRRORS[member] = Mirror(member)
    return known
