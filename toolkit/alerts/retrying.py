"""What follows a message that a sink did not take: another attempt after a pause, or giving it up. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from toolkit.alerts.planning import Step
from toolkit.model.alerts import Failed, Progressed, Sink
from toolkit.model.errors import SinkError

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
TRIES_OF_REFUSED = 5
"""How often a message is tried that the sink refuses for what it is."""


def pause_s(tries: int, *, chance: float, again_s: float | None = None) -> float:
    """Return the pause after so many attempts that failed in a row: doubled each time, half of it left to chance.

    What the sink itself asked for (`again_s`) counts if it is longer. `chance` is a random number from 0 to 1.
    """
    usual = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries - 1, 20))
    return max(usual * (0.5 + chance / 2), min(again_s or 0.0, LONGEST_PAUSE_S))


def after_failure(step: Step, sink: Sink, error: SinkError, *, tries: int, now: datetime, chance: float) -> Progressed:
    """Return what is noted when an attempt failed; `tries` counts it, and those that failed in a row before it."""
    is_refused = error.is_refusal and tries >= TRIES_OF_REFUSED
    if is_refused or is_too_old(step, sink, now=now):
        given_up = give_up(step, sink, error.message)
        # A sink that refuses one message may well take the next; one that is away keeps its pauses.
        left = 0 if is_refused else tries
        pause = 0.0 if is_refused else pause_s(tries, chance=chance, again_s=error.again_s)
        return replace(given_up, tries=left, pause_s=pause, error=error.message)
    pause = pause_s(tries, chance=chance, again_s=error.again_s)
    return Progressed(tries=tries, pause_s=pause, error=error.message)


def is_too_old(step: Step, sink: Sink, *, now: datetime) -> bool:
    """Tell whether a message waits for longer than it is tried."""
    return step.since is not None and (now - step.since).total_seconds() > sink.give_up_s


def give_up(step: Step, sink: Sink, why: str) -> Progressed:
    """Return what is noted when a message is not tried any more: all that its arrival would, but among the failed."""
    if step.message is None:
        raise ValueError("there is no message to give up")
    told = step.message
    failed = Failed(sink.name, told.key, told.events[-1].subject, told.rules, why, count=len(told.events))
    return Progressed(cursor=step.after.cursor, hold=step.after.hold, drop=step.after.drop, failed=(failed,))
