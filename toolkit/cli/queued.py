"""Jobs of the shared queue as commands name them: by the first characters of an id, and looked at again afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toolkit.model.errors import RefusedError

if TYPE_CHECKING:
    from toolkit.cli.session import Session
    from toolkit.model.errors import CrawlctlError
    from toolkit.model.jobs import Job
    from toolkit.model.names import NodeName

LOOK_EVERY_S = 0.1


def queued_jobs(session: Session, prefixes: Sequence[str]) -> list[Job]:
    """Return the jobs whose ids are, or begin with, these texts, each once; no node is asked.

    Raises:
        NotFoundError: there is no such job.
        UsageError: several ids begin so.
        RefusedError: the job was sent to a stock node, so it is in no shared queue.
        ConfigurationError: there is no shared queue at all.

    """
    from toolkit.cluster.queued import queued_jobs as find

    _ = session.shared
    return find(session.store.jobs, prefixes)


def fresh(session: Session, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs as they are recorded now; one that was forgotten meanwhile, as it was."""
    known = session.store.jobs.get_many([job.id for job in jobs])
    return [known.get(job.id, job) for job in jobs]


def look_until(session: Session, job: Job, is_so: Callable[[Job], bool], *, within_s: float) -> Job:
    """Look at a job again and again until it is so, or the time is over; return it as it is then."""
    deadline = time.monotonic() + within_s
    while True:
        (job,) = fresh(session, [job])
        if is_so(job) or time.monotonic() >= deadline:
            return job
        time.sleep(LOOK_EVERY_S)


def waiting_for_store(session: Session) -> Callable[[CrawlctlError], None]:
    """Return what says that a store that was there is away, and that this is no reason to end."""
    return lambda error: session.printer.say(f"{error.message}; waiting for it", style="yellow")


def plug_in_names(session: Session, pattern: str) -> list[NodeName]:
    """Return the plug-in nodes that a pattern of hosts picks.

    Raises:
        RefusedError: it picks stock nodes only, which take nothing out of the shared queue.

    """
    from toolkit.cluster.membership import registered, split

    picked = session.nodes(pattern)
    plugged, _ = split(picked, registered(session.store))
    if not plugged:
        raise RefusedError(
            f"none of the {len(picked)} picked node(s) is registered as a plug-in node",
            hint="crawlctl nodes lists them",
        )
    return sorted(plugged)
