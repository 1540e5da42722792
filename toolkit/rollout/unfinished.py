"""The rollout in waves that a project may have open: what stands in others' way, and how they get past it."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.errors import NotFoundError, RefusedError, UsageError
from toolkit.model.names import ProjectName
from toolkit.model.releases import Rollout, RolloutLock
from toolkit.model.rollouts import RolloutState, WaveRollout, is_left
from toolkit.rollout.lock import operator
from toolkit.store.interfaces import Store

KIND = "waves"
_ALL = 1000


def clear_the_way(store: Store, project: ProjectName, lock: RolloutLock, *, steal: bool, doing: str) -> None:
    """Refuse to go on beside an open rollout of the project; with `steal` that one is abandoned, and left as it is.

    Whoever calls holds the project's lock.

    Raises:
        RefusedError: there is one; the message says which, how far it is and why.

    """
    rollout = store.rollouts.open(project)
    if rollout is None:
        return
    if not steal:
        raise RefusedError(
            f"{doing} has to wait: the rollout {rollout.id} of {project} {rollout.version} is "
            f"{state_text(store, rollout)}{place_text(rollout)}",
            hint=f"crawlctl rollouts resume {rollout.id}, or undo {rollout.id}; --steal abandons it",
        )
    why = f"abandoned for {doing} by {operator()}"
    closed = replace(
        rollout, state=RolloutState.ABANDONED, who=operator(), token=lock.token, changed_at=store.now(), why=why
    )
    store.rollouts.update(closed, lock)
    if store.shared is not None:
        store.shared.eggs.withdraw(project, rollout.version)
    store.releases.note(history_entry(store, closed, activated=False))


def find_rollout(store: Store, rollout_id: str | None, *, only_open: bool) -> WaveRollout:
    """Return the rollout whose id is, or begins with, the text; without one, the only open one.

    Raises:
        NotFoundError: there is none.
        UsageError: several fit, or none is named and several are open.
        RefusedError: an open one is wanted, and it is none any more.

    """
    known = store.rollouts.recent(limit=_ALL)
    found = [each for each in known if (each.state.is_open if rollout_id is None else each.id.startswith(rollout_id))]
    if len(found) > 1:
        names = ", ".join(f"{each.id} ({each.project})" for each in found[:5])
        raise UsageError(f"which rollout? {names}", hint="name one by its id")
    if not found:
        what = (
            "no rollout is under way or held" if rollout_id is None else f"no rollout's id begins with {rollout_id!r}"
        )
        raise NotFoundError(what, hint="crawlctl rollouts list --all shows those that are over as well")
    (rollout,) = found
    if only_open and not rollout.state.is_open:
        raise RefusedError(
            f"the rollout {rollout.id} of {rollout.project} {rollout.version} is {rollout.state.value} already",
            hint=f"crawlctl rollback -p {rollout.project} returns to the release before",
        )
    return rollout


def state_text(store: Store, rollout: WaveRollout) -> str:
    """Say where a rollout is in one word: its state, or `left` when nobody is at it who says so."""
    return "left" if is_left(rollout, store.releases.holder(rollout.project)) else rollout.state.value


def place_text(rollout: WaveRollout) -> str:
    """Say in which wave a rollout is, and why it waits there."""
    at = rollout.place
    where = "" if at is None else f" in wave {at + 1} of {len(rollout.waves)}"
    return f"{where} ({rollout.why})" if rollout.why else where


def history_entry(store: Store, rollout: WaveRollout, *, activated: bool) -> Rollout:
    """Return what the project's history keeps of a rollout in waves."""
    return Rollout(
        project=rollout.project,
        version=rollout.version,
        kind=KIND,
        at=store.now(),
        by=operator(),
        activated=activated,
        results=rollout.results,
    )
