"""What an operator does to crons: define, pause, resume, run one now, and compare a file with what there is."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import islice

from toolkit.config.nearest import did_you_mean
from toolkit.crons.checking import check_circles, check_cron
from toolkit.crons.due import dues, next_due
from toolkit.crons.firing import jobs_of
from toolkit.model.crons import Cron, CronView, Firing, FiringState, Proposal, Taken, Trigger
from toolkit.model.errors import ConflictError, NotFoundError
from toolkit.store.interfaces import Shared, Store

CRONS_A_CALL = 1000


def define(
    shared: Shared, crons: Sequence[Cron], *, by: str, now: datetime, expected: Mapping[str, str] | None = None
) -> frozenset[str]:
    """Define crons, or define them anew; return the names of those that are other than before.

    All are checked before any is written; then 1,000 at a time are written, all or none. `expected` are the revisions
    that they must have, as in `Crons.put`.

    Raises:
        UsageError: one of them could not fire as it is written, or some would follow each other in a circle.
        ConflictError: one was changed meanwhile.

    """
    for cron in crons:
        check_cron(cron, now=now)
    if any(cron.after is not None for cron in crons):
        check_circles(({view.cron.name: view.cron for view in shared.crons.all()} | _by_name(crons)).values())
    changed: set[str] = set()
    for begin in range(0, len(crons), CRONS_A_CALL):
        some = crons[begin : begin + CRONS_A_CALL]
        due = {cron.name: first for cron in some if (first := next_due(cron, after=now)) is not None}
        changed |= shared.crons.put(some, by=by, due=due, expected=expected)
    return frozenset(changed)


def find(shared: Shared, name: str) -> CronView:
    """Return one cron.

    Raises:
        NotFoundError: there is none of this name; the nearest is told.

    """
    view = shared.crons.get(name)
    if view is None:
        known = [each.cron.name for each in shared.crons.all()]
        near = did_you_mean(name, known) if known else ""
        raise NotFoundError(f"there is no cron {name[:80]!r}{near}", hint="crawlctl cron list shows them")
    return view


def pause(shared: Shared, name: str, *, by: str, now: datetime) -> CronView:
    """Let a cron fire no more until it is resumed; firings that wait for the one before them are given up.

    Raises:
        NotFoundError: there is none of this name.
        ConflictError: it was changed meanwhile.

    """
    return _set_paused(shared, name, is_paused=True, by=by, now=now)


def resume(shared: Shared, name: str, *, by: str, now: datetime) -> CronView:
    """Let a paused cron fire again, from its next due time on: what was due meanwhile is not made up for.

    Raises:
        NotFoundError: there is none of this name.
        ConflictError: it was changed meanwhile.

    """
    return _set_paused(shared, name, is_paused=False, by=by, now=now)


def remove(shared: Shared, names: Collection[str]) -> frozenset[str]:
    """Take crons away with their history; their jobs stay.

    Raises:
        NotFoundError: one of them is not there; then none was taken away.

    """
    for name in names:
        find(shared, name)
    return shared.crons.remove(names)


def run_now(
    store: Store,
    shared: Shared,
    name: str,
    *,
    by: str,
    anyway: bool = False,
    on_unkept: Callable[[], object] = lambda: None,
) -> Firing | None:
    """Fire a cron now, paused or not; its due times stay as they are. `None`: it waits for the end of the one before.

    It heeds the overlap policy unless it is to happen `anyway`. `on_unkept` is called if it was fired but no replica of
    Redis knows of it yet.

    Raises:
        NotFoundError: there is none of this name.
        UsageError: no active release, or several, have the spider.
        ConflictError: the cron was changed meanwhile.

    """
    view, now = find(shared, name), store.now()
    trigger = Trigger(now, word=secrets.token_hex(8))
    taken = Taken(view.cron, view.revision, trigger, last_success_at=view.last_success_at)
    jobs = jobs_of(taken, releases=store.releases.actives(), now=now)
    proposal = Proposal(taken, FiringState.FIRED, by, jobs=jobs, heeds_overlap=not anyway)
    (told,) = shared.crons.commit([proposal], on_unkept=on_unkept)
    if told is None and ((seen := shared.crons.get(name)) is None or seen.revision != view.revision):
        raise ConflictError(f"the cron {name} was changed by somebody else meanwhile; nothing was run")
    return told


def upcoming(cron: Cron, *, now: datetime, count: int) -> list[datetime]:
    """Return when the cron fires next, its jitter counted in; nothing for one that is paused or follows a spider."""
    return [due.fires_at for due in islice(dues(cron, after=now), count)]


@dataclass(frozen=True, slots=True)
class CronChange:
    """What applying a file does to one cron; `fields` maps what differs to its text before and after."""

    name: str
    kind: str
    fields: Mapping[str, tuple[str | None, str | None]]


def compared(wanted: Iterable[Cron], known: Sequence[CronView], *, prunes: bool) -> list[CronChange]:
    """Return what is to be added, changed and, with `prunes`, removed, sorted by name. Pure.

    A cron that was paused by hand stays so unless the file says otherwise: the caller lays that on `wanted` before.
    """
    before, after = {view.cron.name: view.cron for view in known}, _by_name(wanted)
    changes = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None:
            if prunes:
                changes.append(CronChange(name, "removed", {}))
        elif old is None:
            spider = {"spider": (None, str(new.spider))}
            changes.append(CronChange(name, "added", spider | _difference(Cron(name, new.spider), new)))
        elif difference := _difference(old, new):
            changes.append(CronChange(name, "changed", difference))
    return changes


def _difference(old: Cron, new: Cron) -> dict[str, tuple[str | None, str | None]]:
    names = [each.name for each in fields(Cron) if getattr(old, each.name) != getattr(new, each.name)]
    return {name: (_text(getattr(old, name)), _text(getattr(new, name))) for name in names}


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in sorted(value.items())) or None
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return value.isoformat() if isinstance(value, datetime) else str(getattr(value, "value", value))


def _by_name(crons: Iterable[Cron]) -> dict[str, Cron]:
    return {cron.name: cron for cron in crons}


def _set_paused(shared: Shared, name: str, *, is_paused: bool, by: str, now: datetime) -> CronView:
    view = find(shared, name)
    if view.cron.is_paused != is_paused:
        cron = replace(view.cron, is_paused=is_paused)
        due = next_due(cron, after=now)
        shared.crons.put([cron], by=by, due={name: due} if due else {}, expected={name: view.revision})
    return find(shared, name)
