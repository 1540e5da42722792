"""Crons from a file: every one is checked, with its place in the file, before any is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from toolkit.cluster.crons import CronChange, compared
from toolkit.config.inventory import Inventory
from toolkit.config.inventory.crons import WrittenCron, load_crons, mistaken
from toolkit.crons.checking import check_cron
from toolkit.model.crons import Cron, CronView
from toolkit.model.errors import ConfigurationError, CrawlctlError, Mistake


@dataclass(frozen=True, slots=True)
class CronPlan:
    """What applying a file comes to: the crons to write, those to take away, and every difference to be shown.

    `revisions` are those that were compared, "" for a cron that is new: one that was changed since is not written.
    """

    changes: Sequence[CronChange]
    writes: Sequence[Cron]
    removes: Sequence[str]
    revisions: Mapping[str, str]


def crons_of_file(path: Path, inventory: Inventory, *, now: datetime) -> list[WrittenCron]:
    """Return the crons of an inventory or of a file of their own, each with the hosts that its pattern means now.

    Raises:
        ConfigurationError: the file cannot be read, or names no crons.
        InventoryError: crons in it are wrong; it carries every mistake.

    """
    written = load_crons(path)
    if written is None:
        raise ConfigurationError(f"{path} names no crons", hint="crawlctl docs cron shows how they are written")
    found: list[WrittenCron] = []
    mistakes: list[Mistake] = []
    for each in written:
        try:
            hosts = None if each.on is None else tuple(host.name for host in inventory.pick(each.on))
            cron = replace(each.cron, on=hosts)
            check_cron(cron, now=now)
            found.append(replace(each, cron=cron))
        except CrawlctlError as error:
            mistakes.append(each.mistake(f"{error.message}{f' ({error.hint})' if error.hint else ''}"))
    if mistakes:
        raise mistaken(mistakes)
    return found


def planned(written: Sequence[WrittenCron], known: Sequence[CronView], *, prunes: bool) -> CronPlan:
    """Compare a file with the crons that there are. Pure.

    One that was paused by hand stays so where the file says nothing of it; with `prunes`, those that are not in the
    file go.
    """
    paused = {view.cron.name for view in known if view.cron.is_paused}
    wanted = {
        each.cron.name: each.cron if each.says_paused else replace(each.cron, is_paused=each.cron.name in paused)
        for each in written
    }
    changes = compared(wanted.values(), known, prunes=prunes)
    writes = [wanted[change.name] for change in changes if change.kind != "removed"]
    revisions = {view.cron.name: view.revision for view in known}
    return CronPlan(
        changes,
        writes,
        [change.name for change in changes if change.kind == "removed"],
        {cron.name: revisions.get(cron.name, "") for cron in writes},
    )
