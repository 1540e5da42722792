"""Jobs of the shared queue as they are named, by the first characters of an id, looked at again, and paused."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from toolkit.model.errors import CrawlctlError, NodesFailedError, NotFoundError, RefusedError, UsageError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId
from toolkit.store.interfaces import JobStore, Shared
from toolkit.store.interfaces_queue import JobQueue

HEARD_WITHIN_S = 10.0
"""How long a spider, or a crawl's workers, may take to obey before it is told that they have not yet."""

LOOK_EVERY_S = 0.1
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


def fresh(records: JobStore, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs as they are recorded now; one that was forgotten meanwhile, as it was."""
    known = records.get_many([job.id for job in jobs])
    return [known.get(job.id, job) for job in jobs]


def put_back(shared: Shared, ids: Sequence[JobId]) -> frozenset[JobId]:
    """Put jobs that did not finish well back into the queue, all their attempts before them; return those now pending.

    A crawl that was over for such a job is not over for it any more.
    """
    shared.crawls.forget_runs(ids)
    return shared.queue.retry(ids)


def look_until(records: JobStore, job: Job, is_so: Callable[[Job], bool], *, within_s: float) -> Job:
    """Look at a job again and again until it is so, or the time is over; return it as it is then."""
    deadline = time.monotonic() + within_s
    while True:
        (job,) = fresh(records, [job])
        if is_so(job) or time.monotonic() >= deadline:
            return job
        time.sleep(LOOK_EVERY_S)


def refuse_unless_active(job: Job, before: JobState | None, what: str) -> None:
    """Refuse what can only be done to a job that a node has; `before` is its state as the queue knew it.

    Raises:
        NotFoundError: the queue does not know the job.
        RefusedError: no node has it.

    """
    if before is None:
        raise NotFoundError(f"the queue does not know {job.id} any more")
    if not before.is_active:
        raise RefusedError(f"{job.id} is {before.value}: only a job that a node has can be {what}")


def wish_paused(queue: JobQueue, records: JobStore, job: Job, *, is_paused: bool) -> tuple[Job, CrawlctlError | None]:
    """Wish a spider paused or going on, and look until it says that it has obeyed; return the job, and why it has not.

    Raises:
        NotFoundError, RefusedError: see `refuse_unless_active`.

    """
    what, wanted = ("paused", JobState.PAUSED) if is_paused else ("resumed", JobState.RUNNING)
    refuse_unless_active(job, queue.pause(job.id, is_paused=is_paused), what)
    job = look_until(records, job, lambda job: job.state is wanted or not job.state.is_active, within_s=HEARD_WITHIN_S)
    if job.state.is_final:
        return job, RefusedError(f"{job.id} is {job.state.value} by now, and so was not {what}")
    if job.state is not wanted:
        text = f"{job.id} is {job.state.value}, not {what} yet; the wish stays until its spider has heard it"
        hint = "crawlctl nodes shows whether its node is live; a spider that is busy in its own code hears it later"
        return job, NodesFailedError(text, hint=hint)
    return job, None


def _one(records: JobStore, prefix: str) -> Job:
    exact = records.get(JobId(prefix))
    found = [exact] if exact else records.matching(prefix, limit=_MANY)
    if not found:
        raise NotFoundError(f"no job's id begins with {prefix!r}", hint="crawlctl jobs list shows the ids")
    if len(found) > 1:
        some = ", ".join(job.id for job in found[: _MANY - 1])
        raise UsageError(f"several jobs' ids begin with {prefix!r}: {some}", hint="type more of the id")
    return found[0]
