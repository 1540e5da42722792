"""What the queue's numbers, held against those of a while ago, make worth an event. Pure decisions.

Watched is `queue` (clear, growing or wedged) and `queue:look`: what was seen when the present window began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from toolkit.model.events import Change, Event, EventKind
from toolkit.model.nodes import NodeRecord
from toolkit.model.queue import Line, stuck

QUEUE, LOOK = "queue", "queue:look"
WINDOW_S = 60.0
RISES = 2
"""The queue grows when it rose over so many windows, one after another, and the slots are taken."""

IDLE_SHARE = 0.05
"""Slots are taken when at most so many of them are free: between two jobs each is free for a moment."""

WEDGED_AFTER_S = 10.0
"""How long jobs must have waited for nobody before that is told."""

_MAX_NAMED = 3
_PARTS = 4
_NOTHING = "nothing"
_CLEAR, _GROWING, _WEDGED = "clear", "growing", "wedged"
_KINDS = {_CLEAR: EventKind.QUEUE_CLEAR, _GROWING: EventKind.QUEUE_GROWING, _WEDGED: EventKind.QUEUE_WEDGED}


@dataclass(frozen=True, slots=True)
class QueueLook:
    """The queue at one moment: jobs that may be taken, all slots and free ones, and the lines that nobody may serve."""

    pending: int
    slots: int = 0
    idle: int = 0
    takers: int = 0
    stuck: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class _Then:
    """When the present window began, and with how many jobs; rises before it; since when (0: not) jobs are stuck."""

    at_ms: int
    pending: int
    rises: int = 0
    stuck_ms: int = 0


def look_at(records: Sequence[NodeRecord], counts: Mapping[str, int], lines: Sequence[Line]) -> QueueLook:
    """Sum up what nodes and queue have said. Pure."""
    takers = [record.report for record in records if record.may_take and record.report.unfit is None]
    return QueueLook(
        pending=max(0, counts.get("pending", 0) - counts.get("held", 0) - counts.get("delayed", 0)),
        slots=sum(report.slots for report in takers),
        idle=sum(max(0, report.slots - report.running) for report in takers),
        takers=len(takers),
        stuck=tuple(stuck(lines, takers)),
    )


def queue_changes(look: QueueLook, states: Mapping[str, str], *, now_ms: int) -> list[Change]:
    """Say whether the queue grows, waits for nobody, or does neither any more. Pure."""
    remembered, told = states.get(LOOK, ""), states.get(QUEUE, "")
    before = _read(remembered)
    then = _next(before, look, now_ms)
    state = _state(then, now_ms)
    changes = []
    if then != before:
        changes.append(Change(LOOK, _write(then), was=remembered))
    if state != told:
        is_news = bool(told) or state != _CLEAR
        event = Event(_KINDS[state], QUEUE, _about(look, state, told, before)) if is_news else None
        changes.append(Change(QUEUE, state, event, was=told))
    return changes


def _next(then: _Then | None, look: QueueLook, now_ms: int) -> _Then | None:
    if not look.pending:
        return None
    since_ms = then.stuck_ms if then is not None and then.stuck_ms else now_ms
    stuck_ms = since_ms if look.stuck else 0
    if then is None:
        return _Then(now_ms, look.pending, stuck_ms=stuck_ms)
    if now_ms - then.at_ms < WINDOW_S * 1000:
        return replace(then, stuck_ms=stuck_ms)
    is_rise = look.pending > then.pending and look.idle <= look.slots * IDLE_SHARE
    return _Then(now_ms, look.pending, rises=then.rises + 1 if is_rise else 0, stuck_ms=stuck_ms)


def _state(then: _Then | None, now_ms: int) -> str:
    if then is None:
        return _CLEAR
    if then.stuck_ms and now_ms - then.stuck_ms >= WEDGED_AFTER_S * 1000:
        return _WEDGED
    return _GROWING if then.rises >= RISES else _CLEAR


def _about(look: QueueLook, state: str, told: str, before: _Then | None) -> dict[str, str]:
    about = {"pending": str(look.pending)}
    if state == _CLEAR:
        return {**about, "was": told}
    if state == _GROWING:
        since = {} if before is None else {"before": str(before.pending), "window_s": f"{WINDOW_S:g}"}
        return {**about, **since, "slots": str(look.slots)}
    names = [f"{line.spider} of {line.project} {line.version}" for line in look.stuck[:_MAX_NAMED]]
    more = [f"{len(look.stuck) - _MAX_NAMED} more"] if len(look.stuck) > _MAX_NAMED else []
    reason = "no node may take them" if look.takers else "no node is there that takes jobs"
    return {**about, "lines": ", ".join(names + more), "reason": reason}


def _read(text: str) -> _Then | None:
    parts = text.split()
    return _Then(*map(int, parts)) if len(parts) == _PARTS and all(part.isdecimal() for part in parts) else None


def _write(then: _Then | None) -> str:
    return _NOTHING if then is None else f"{then.at_ms} {then.pending} {then.rises} {then.stuck_ms}"
