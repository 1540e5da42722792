"""Waves: how the nodes of a rollout are cut into a canary and growing shares. Pure, and reads what options say."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from toolkit.model.errors import UsageError
from toolkit.model.names import NodeName
from toolkit.model.rollouts import Allowance

EVERYBODY = (100.0,)
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%")
_COUNT = re.compile(r"[0-9]{1,6}")
_HINT = "write rising percentages that end at 100%, as in 10%,50%,100%"


def parse_waves(text: str) -> tuple[float, ...]:
    """Read `10%,50%,100%`: how much of the nodes has the release after each wave.

    Raises:
        UsageError: it is not written so, does not rise, or does not end at 100%.

    """
    shares: list[float] = []
    for part in (part.strip() for part in text.split(",")):
        found = _PERCENT.fullmatch(part)
        if found is None:
            raise UsageError(f"{part!r} is no percentage of the nodes", hint=_HINT)
        shares.append(float(found[1]))
    for before, after in zip([0.0, *shares], shares, strict=False):
        if after <= before:
            why = f"{after:g}% adds nothing to {before:g}%" if before else "a wave of 0% is none"
            raise UsageError(f"the waves {text} do not rise: {why}", hint=_HINT)
    if shares[-1] != EVERYBODY[0]:
        far = "leave nodes without the release" if shares[-1] < EVERYBODY[0] else "are more than there is"
        raise UsageError(f"the waves {text} {far}: the last one must be 100%", hint=_HINT)
    return tuple(shares)


def parse_allowance(text: str) -> Allowance:
    """Read `1` or `5%`: how many nodes may fail before a rollout stops.

    Raises:
        UsageError: it is neither, or 100% and more, with which nothing would ever stop.

    """
    if _COUNT.fullmatch(text):
        return Allowance(int(text))
    found = _PERCENT.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is no number of nodes", hint="write a number, as in 1, or a percentage, as in 5%")
    if float(found[1]) >= EVERYBODY[0]:
        raise UsageError(f"with {text} of failures allowed nothing would ever stop", hint="write less than 100%")
    return Allowance(percent=float(found[1]))


def cut(
    names: Sequence[NodeName], *, canary: int, shares: Sequence[float], lost: Collection[NodeName]
) -> tuple[tuple[NodeName, ...], ...]:
    """Cut the nodes into waves, in their order: `canary` first ones, then cumulative `shares` of the rest, rounded up.

    Nodes that are `lost` come in the last wave, since nothing can be learnt from them. A share that adds no node is no
    wave, so few nodes make fewer waves than were asked for; no node at all makes none.
    """
    there = [name for name in names if name not in lost]
    away = [name for name in names if name in lost]
    first, rest = there[:canary], there[canary:]
    bounds = [0, *(math.ceil(round(len(rest) * share / 100, 6)) for share in shares)]
    waves = [first, *(rest[begin:end] for begin, end in pairwise(bounds))]
    found = [tuple(wave) for wave in waves if wave]
    if not away:
        return tuple(found)
    return (*found[:-1], (*found[-1], *away)) if found else (tuple(away),)
