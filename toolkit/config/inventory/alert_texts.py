"""Small values of the section `alerts`: spans of time, lists of texts, quiet times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import time
from zoneinfo import ZoneInfo

import yaml

from toolkit.config.inventory.document import Document, Entry, Place, place_of, text_of
from toolkit.model.alerts import Quiet
from toolkit.model.errors import ConfigurationError

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds(span: str) -> float:
    """Return the seconds of a span as in `1h30m`, which was seen to be one."""
    return float(sum(int(count) * _UNITS_S[unit] for count, unit in re.findall(r"([0-9]+)([smhdw])", span)))


def texts(document: Document, entry: Entry, *, what: str) -> Iterator[tuple[str, Place]]:
    """Yield one text, or those of a list, each with its place; anything else is a mistake."""
    nodes = entry.value.value if isinstance(entry.value, yaml.SequenceNode) else [entry.value]
    if not nodes:
        document.blame(entry.place, f"{what} is an empty list")
    for node in nodes:
        text = text_of(node)
        if not text:
            document.blame(entry.place, f"{what} is a text, or a list of texts")
            return
        yield text, place_of(node)


def quiet(text: str) -> Quiet:
    """Return the quiet time that a text means, which was seen to have the shape of one.

    Raises:
        ConfigurationError: it begins when it ends, or there is no such zone.

    """
    span, _, zone = text.partition(" ")
    begin, _, end = span.partition("-")
    found = Quiet(time.fromisoformat(begin), time.fromisoformat(end), zone or "UTC")
    if found.begin == found.end:
        raise ConfigurationError(f"quiet begins when it ends: {span}")
    try:
        ZoneInfo(found.zone)
    except (KeyError, ValueError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError
        words = f"quiet: the tz database has no zone {found.zone!r}; they look like Europe/Berlin"
        raise ConfigurationError(words) from error
    return found
