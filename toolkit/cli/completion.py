"""What the shell offers when Tab is pressed: hosts of the inventory, projects, spiders and jobs of the store.

It never speaks and never fails: without an inventory, or with a Redis that is away, it offers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolkit.model.errors import CrawlctlError

if TYPE_CHECKING:
    from toolkit.store.interfaces import Store

MAX_JOBS = 100


def hosts(incomplete: str) -> list[str]:
    """Offer hosts and groups; within a pattern, its last term."""
    import os
    from pathlib import Path

    from toolkit.config.inventory import find, load

    try:
        inventory = load(find(None, start=Path.cwd(), environ=os.environ), resolve=False)
    except CrawlctlError:
        return []
    cut = max(incomplete.rfind(mark) for mark in ":,&!") + 1
    names = [*inventory.groups, *(host.name for host in inventory.hosts)]
    return _beginning(incomplete[cut:], names, before=incomplete[:cut])


def projects(incomplete: str) -> list[str]:
    """Offer projects with releases."""
    with _store() as store:
        return _beginning(incomplete, store.releases.projects()) if store else []


def spiders(incomplete: str) -> list[str]:
    """Offer the spiders of the active releases."""
    with _store() as store:
        active = store.releases.actives().values() if store else ()
        return _beginning(incomplete, sorted({spider for release in active for spider in release.spiders}))


def versions(incomplete: str) -> list[str]:
    """Offer the versions of all releases."""
    with _store() as store:
        names = store.releases.projects() if store else ()
        known = [release.version for name in names for release in store.releases.releases(name)] if store else []
        return _beginning(incomplete, known)


def jobs(incomplete: str) -> list[str]:
    """Offer the ids of the newest jobs."""
    from toolkit.model.jobs import JobFilter

    with _store() as store:
        recent = store.jobs.recent(JobFilter(), limit=MAX_JOBS) if store else ()
        return _beginning(incomplete, [job.id for job in recent])


def topics(incomplete: str) -> list[str]:
    """Offer the topics of `crawlctl docs`."""
    from toolkit.cli.topics import topic_names

    return _beginning(incomplete, topic_names())


@contextmanager
def _store() -> Iterator[Store | None]:
    from toolkit.cli.session import GlobalOptions, Session

    session = Session(GlobalOptions())
    try:
        store: Store | None = session.store
    except CrawlctlError:
        store = None
    try:
        yield store
    finally:
        session.close()


def _beginning(text: str, words: Iterable[str], *, before: str = "") -> list[str]:
    return [before + word for word in words if word.startswith(text)]
