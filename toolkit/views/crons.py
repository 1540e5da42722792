"""How crons and their firings are shown: to programs in UTC, to people in the time zone of their machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from toolkit.model.crons import Cron, CronView, Firing, FiringState
from toolkit.views.contract import time_text
from toolkit.views.view import FittedTable, Styled, View, plain_table

if TYPE_CHECKING:
    from toolkit.cluster.crons import CronChange

_STYLES = {FiringState.FIRED: "green", FiringState.SKIPPED: "yellow", FiringState.FAILED: "red"}
_CHANGES = {"added": "green", "changed": "yellow", "removed": "red"}
MAX_JOBS = 3


def cron_row(view: CronView) -> dict[str, Any]:
    """Show a cron as `cron list` does; `next_at` is when it fires next, `null` where that is not known by time."""
    cron = view.cron
    return {
        "name": cron.name,
        "spider": cron.spider,
        "project": cron.project,
        "at": cron.at,
        "after": None if cron.after is None else {"spider": cron.after.spider, "outcome": cron.after.outcome.value},
        "timezone": cron.timezone,
        "paused": cron.is_paused,
        "next_at": time_text(view.next_at),
        "waiting": view.waiting,
        "waits_since": time_text(view.waits_since),
        "last_success_at": time_text(view.last_success_at),
        "last": None if view.last is None else firing_row(view.last),
    }


def cron_object(view: CronView) -> dict[str, Any]:
    """Show all that is known of one cron."""
    cron = view.cron
    return cron_row(view) | {
        "jitter_s": cron.jitter_s,
        "starts_at": time_text(cron.starts_at),
        "ends_at": time_text(cron.ends_at),
        "args": dict(cron.args),
        "settings": dict(cron.settings),
        "on": None if cron.on is None else list(cron.on),
        "priority": cron.priority,
        "attempts": cron.attempts,
        "timeout_s": cron.timeout_s,
        "workers": cron.workers,
        "crawl": cron.crawl,
        "overlap": cron.overlap.value,
        "late": cron.late.value,
        "comment": cron.comment,
        "by": view.by,
        "revision": view.revision,
    }


def firing_row(firing: Firing) -> dict[str, Any]:
    """Show what became of one due time."""
    return {
        "cron": firing.cron,
        "due_at": time_text(firing.due_at),
        "at": time_text(firing.at),
        "state": firing.state.value,
        "by": firing.by,
        "jobs": list(firing.jobs),
        "reason": firing.reason,
    }


def change_row(change: CronChange) -> dict[str, Any]:
    """Show what applying a file does to one cron."""
    fields = {name: {"before": before, "after": after} for name, (before, after) in change.fields.items()}
    return {"name": change.name, "change": change.kind, "fields": fields}


def crons_view(views: Sequence[CronView], *, now: datetime) -> View:
    """Show crons, a line each; times are those of this machine's clock, and it is said which that is."""

    def table() -> FittedTable:
        rows = [
            (
                view.cron.name,
                view.cron.spider,
                _next(view),
                _state(view.last),
                local_text(view.last.at) if view.last else None,
                when(view.cron),
            )
            for view in views
        ]
        shown = plain_table("NAME", "SPIDER", "NEXT", "LAST", "AT", "WHEN", rows=rows, spare=("AT", "SPIDER"))
        shown.caption = f"NEXT and AT are this machine's time: {zone_text(now)}"
        return shown

    return View([cron_row(view) for view in views], table)


def cron_view(view: CronView) -> View:
    """Show one cron, a line for each thing that is known of it."""
    shown = cron_object(view)
    lines = [(name, _plain(value)) for name, value in shown.items() if value not in (None, {}, [])]
    return View(shown, lambda: plain_table("FIELD", "VALUE", rows=lines))


def firings_view(firings: Sequence[Firing], *, now: datetime) -> View:
    """Show a cron's history, newest first."""

    def table() -> FittedTable:
        rows = [
            (local_text(each.due_at), _state(each), local_text(each.at), each.by, _jobs(each), each.reason)
            for each in firings
        ]
        columns = ("DUE", "STATE", "AT", "BY", "JOBS", "WHY")
        shown = plain_table(*columns, rows=rows, spare=("AT", "BY"), optional=("WHY",))
        shown.caption = f"times are this machine's: {zone_text(now)}"
        return shown

    return View([firing_row(firing) for firing in firings], table)


def upcoming_view(cron: Cron, times: Sequence[datetime]) -> View:
    """Show when a cron fires next, by its own clock and by this machine's."""
    from toolkit.crons.timetable import zone_of

    zone = zone_of(cron.timezone)
    rows = [(local_text(at), f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}") for at in times]
    return View(
        [{"at": time_text(at)} for at in times],
        lambda: plain_table("HERE", cron.timezone.upper(), rows=rows),
    )


def changes_view(changes: Sequence[CronChange]) -> View:
    """Show what applying a file does."""
    rows = [
        (Styled(change.kind, _CHANGES.get(change.kind, "")), change.name, field, before, after)
        for change in changes
        for field, (before, after) in (change.fields or {"": (None, None)}).items()
    ]
    return View(
        [change_row(change) for change in changes],
        lambda: plain_table("CHANGE", "CRON", "FIELD", "BEFORE", "AFTER", rows=rows),
    )


def removed_view(names: Sequence[str]) -> View:
    """Show which crons were taken away."""
    return View({"removed": list(names)}, lambda: plain_table("REMOVED", rows=[(name,) for name in names]))


def when(cron: Cron) -> str:
    """Say in a few words when a cron is due."""
    if cron.after is not None:
        return f"after {cron.after.spider} {cron.after.outcome.value}"
    return f"{cron.at} {cron.timezone}"


def local_text(at: datetime) -> str:
    """Tell a moment by this machine's clock."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def zone_text(now: datetime) -> str:
    """Name this machine's time zone and how far it is from UTC."""
    local = now.astimezone()
    return f"{local.tzname()} (UTC{local:%z})"


def _next(view: CronView) -> str | Styled | None:
    if view.cron.is_paused:
        return Styled("paused", "yellow")
    if view.waiting:
        return Styled(f"{view.waiting} wait(s)", "yellow")
    return None if view.next_at is None else local_text(view.next_at)


def _state(firing: Firing | None) -> Styled | None:
    return None if firing is None else Styled(firing.state.value, _STYLES[firing.state])


def _jobs(firing: Firing) -> str | None:
    more = f" and {len(firing.jobs) - MAX_JOBS} more" if len(firing.jobs) > MAX_JOBS else ""
    return f"{' '.join(firing.jobs[:MAX_JOBS])}{more}" or None


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_plain(each)}" for name, each in value.items() if each not in (None, [], {}))
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
