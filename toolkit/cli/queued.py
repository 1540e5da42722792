"""Jobs of the shared queue as commands name them: by the first characters of an id, and looked at again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toolkit.model.errors import RefusedError

if TYPE_CHECKING:
    from toolkit.cli.session import Session
    from toolkit.model.errors import CrawlctlError
    from toolkit.model.jobs import Job
    from toolkit.model.names import NodeName


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
    from toolkit.cluster.queued import fresh as look_again

    return look_again(session.store.jobs, jobs)


def waiting_for_store(session: Session) -> Callable[[CrawlctlError], None]:
    """Return what says that a store that was there is away, and that this is no reason to end."""
    return lambda error: session.printer.say(f"{error.message}; waiting for it", style="yellow")


def saying_unkept(session: Session, what: str) -> Callable[[], None]:
    """Return what says that this is done, but would be lost together with the Redis that has it."""
    text = f"{what} accepted, but no replica of Redis has it yet: a failover now may lose it"
    return lambda: session.printer.say(text, style="yellow")


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
