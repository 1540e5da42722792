"""Jobs of the shared queue as they are named: by the first characters of an id."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.errors import NotFoundError, RefusedError, UsageError
from toolkit.model.jobs import Job
from toolkit.model.names import JobId
from toolkit.store.interfaces import JobStore

_MANY = 6


def queued_jobs(records: JobStore, prefixes: Sequence[str]) -> list[Job]:
    """Return the jobs whose ids are, or begin with, these texts, each once; no node is asked.

    Raises:
        NotFoundError: there is no such job.
        UsageError: several ids begin so.
        RefusedError: the job was sent to a stock node, so it is in no shared queue.

    """
    found = [_one(records, prefix) for prefix in prefixes]
    for job in found:
        if not job.is_queued:
            where = f"{job.id} belongs to {job.node}, a stock node, and not to the shared queue"
            raise RefusedError(where, hint="a job on a stock node can only be cancelled")
    return list({job.id: job for job in found}.values())


def _one(records: JobStore, prefix: str) -> Job:
    exact = records.get(JobId(prefix))
    found = [exact] if exact else records.matching(prefix, limit=_MANY)
    if not found:
        raise NotFoundError(f"no job's id begins with {prefix!r}", hint="crawlctl jobs list shows the ids")
    if len(found) > 1:
        some = ", ".join(job.id for job in found[: _MANY - 1])
        raise UsageError(f"several jobs' ids begin with {prefix!r}: {some}", hint="type more of the id")
    return found[0]
