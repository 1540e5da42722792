"""What the shell offers when Tab is pressed: hosts of the inventory; projects, spiders, jobs, crawls of the store.

It never speaks and never fails: without an inventory, or with a Redis that is away, it offers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from toolkit.model.errors import CrawlctlError

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory
    from toolkit.store.interfaces import Store

MAX_JOBS = 100


def hosts(incomplete: str) -> list[str]:
    """Offer hosts and groups; within a pattern, its last term."""
    inventory = _inventory()
    if inventory is None:
        return []
    cut = max(incomplete.rfind(mark) for mark in ":,&!") + 1
    names = [*inventory.groups, *(host.name for host in inventory.hosts)]
    return _beginning(incomplete[cut:], names, before=incomplete[:cut])


def nodes(incomplete: str) -> list[str]:
    """Offer the nodes that are registered, and the hosts of the inventory."""

    def names(store: Store) -> Iterable[str]:
        return [record.name for record in store.shared.nodes.all()] if store.shared is not None else ()

    inventory = _inventory()
    listed = [host.name for host in inventory.hosts] if inventory else []
    return _beginning(incomplete, sorted({*_stored(names), *listed}))


def projects(incomplete: str) -> list[str]:
    """Offer projects with releases."""
    return _beginning(incomplete, _stored(lambda store: store.releases.projects()))


def spiders(incomplete: str) -> list[str]:
    """Offer the spiders of the active releases."""

    def names(store: Store) -> Iterable[str]:
        return sorted({spider for release in store.releases.actives().values() for spider in release.spiders})

    return _beginning(incomplete, _stored(names))


def versions(incomplete: str) -> list[str]:
    """Offer the versions of all releases."""

    def names(store: Store) -> Iterable[str]:
        releases = store.releases
        return [release.version for name in releases.projects() for release in releases.releases(name)]

    return _beginning(incomplete, _stored(names))


def jobs(incomplete: str) -> list[str]:
    """Offer the ids of the newest jobs."""
    from toolkit.model.jobs import JobFilter

    return _beginning(
        incomplete, _stored(lambda store: [job.id for job in store.jobs.recent(JobFilter(), limit=MAX_JOBS)])
    )


def crawls(incomplete: str) -> list[str]:
    """Offer the crawls that are known."""

    def names(store: Store) -> Iterable[str]:
        return [plan.crawl for plan in store.shared.crawls.all()] if store.shared is not None else ()

    return _beginning(incomplete, _stored(names))


def event_kinds(incomplete: str) -> list[str]:
    """Offer the kinds of events, and all of those of one subject."""
    from toolkit.model.events import EventKind

    subjects = dict.fromkeys(f"{kind.value.partition('.')[0]}.*" for kind in EventKind)
    return _beginning(incomplete, [*subjects, *(kind.value for kind in EventKind)])


def crons(incomplete: str) -> list[str]:
    """Offer the crons that are defined."""

    def names(store: Store) -> Iterable[str]:
        return [view.cron.name for view in store.shared.crons.all()] if store.shared is not None else ()

    return _beginning(incomplete, _stored(names))


def sinks(incomplete: str) -> list[str]:
    """Offer the sinks of the alerts."""
    return _beginning(incomplete, _stored(lambda store: store.shared.alerts.read().sinks if store.shared else ()))


def rules(incomplete: str) -> list[str]:
    """Offer the rules of the alerts."""
    return _beginning(incomplete, _stored(lambda store: store.shared.alerts.read().rules if store.shared else ()))


def checks(incomplete: str) -> list[str]:
    """Offer what `crawlctl doctor --only` takes."""
    from toolkit.doctor.checks import CHECKS

    subjects = dict.fromkeys(name.partition("-")[0] for name in CHECKS)
    return _beginning(incomplete, [*subjects, *CHECKS])


def topics(incomplete: str) -> list[str]:
    """Offer the topics of `crawlctl docs`."""
    from toolkit.cli.topics import topic_names

    return _beginning(incomplete, topic_names())


def _inventory() -> Inventory | None:
    import os
    from pathlib import Path

    from toolkit.config.inventory import find, load

    try:
        return load(find(None, start=Path.cwd(), environ=os.environ), resolve=False)
    except CrawlctlError:
        return None


def _stored(names: Callable[[Store], Iterable[str]]) -> Iterable[str]:
    from toolkit.cli.session import GlobalOptions, Session

    session = Session(GlobalOptions())
    try:
        return names(session.store)
    except CrawlctlError:
        return ()
    finally:
        session.close()


def _beginning(text: str, words: Iterable[str], *, before: str = "") -> list[str]:
    return [before + word for word in words if word.startswith(text)]
