"""Ranges in names: `crawler-[01:40]` stands for forty hosts, `node-[a:f]` for six. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, product, zip_longest
from math import prod

from toolkit.model.errors import ConfigurationError

MAX_NAMES = 10_000
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
NAME_WORDS = "letters, digits, '_', '-' and '.', and a letter or digit first"
MAX_CHARS = 200
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
RANGE_PATTERN = r"[0-9]{1,9}:[0-9]{1,9}|[a-z]:[a-z]|[A-Z]:[A-Z]"
_NUMBERS = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_LETTERS = re.compile(r"[a-z]:[a-z]|[A-Z]:[A-Z]")


def has_range(name: str) -> bool:
    """Tell whether the name holds a bracket, and so stands for several or is wrong."""
    return "[" in name or "]" in name


def expand(name: str) -> tuple[str, ...]:
    """Return every name that this one stands for, the rightmost range counting fastest; itself if it has no range.

    Both ends belong to a range. A first end with leading zeros sets the width: `[01:40]` counts 01, 02, … 40.

    Raises:
        ConfigurationError: a range is malformed, runs backwards or gives too many names, or a name has a character
            that could not be part of a file name, a URL and a pattern alike.

    """
    pieces = _BRACKETS.split(name)
    ranges = [_members(inner) for inner in pieces[1::2]]
    if prod(map(len, ranges)) > MAX_NAMES:
        raise ConfigurationError(f"{name} stands for more than {MAX_NAMES} names")
    if any(has_range(plain) for plain in pieces[::2]):
        raise ConfigurationError(f"{name} has a bracket without its partner; a range is written [1:9] or [a:f]")
    names = tuple(_joined(pieces[::2], chosen) for chosen in product(*ranges))
    for each in names:
        if not NAME.fullmatch(each) or len(each) > MAX_CHARS:
            raise ConfigurationError(f"{each!r} is no name of a host or group: {NAME_WORDS}")
    return names


def _members(inner: str) -> tuple[str, ...]:
    numbers = _NUMBERS.fullmatch(inner)
    letters = _LETTERS.fullmatch(inner)
    if not numbers and not letters:
        raise ConfigurationError(f"[{inner}] is no range; one is written [1:9], [01:40] or [a:f]")
    if numbers:
        return _counted(numbers[1], numbers[2])
    first, last = inner.split(":")
    _refuse_backwards(first, last, is_backwards=first > last)
    return tuple(chr(code) for code in range(ord(first), ord(last) + 1))


def _counted(first: str, last: str) -> tuple[str, ...]:
    low, high = int(first), int(last)
    _refuse_backwards(first, last, is_backwards=low > high)
    if high - low >= MAX_NAMES:
        raise ConfigurationError(f"[{first}:{last}] stands for more than {MAX_NAMES} names")
    is_padded = first.startswith("0") and first != "0"
    if is_padded and len(first) != len(last):
        raise ConfigurationError(f"the ends of [{first}:{last}] differ in length; with leading zeros both are as long")
    width = len(first) if is_padded else 0
    return tuple(str(number).zfill(width) for number in range(low, high + 1))


def _refuse_backwards(first: str, last: str, *, is_backwards: bool) -> None:
    if is_backwards:
        raise ConfigurationError(f"range [{first}:{last}] runs backwards: write [{last}:{first}]")


def _joined(plain: Sequence[str], chosen: Sequence[str]) -> str:
    return "".join(chain.from_iterable(zip_longest(plain, chosen, fillvalue="")))
