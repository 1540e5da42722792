"""The nearest right word to a wrong one, for every message that refuses a name."""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = 0.6


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Return the word most like the given one, whatever its case, or `None` if none is much like it."""
    # Imported late: only a mistake needs it, and every command would pay for it.
    from difflib import get_close_matches  # noqa: PLC0415 - late

    spellings = {each.casefold(): each for each in words}
    found = get_close_matches(word.casefold(), spellings, n=1, cutoff=_ALIKE)
    return spellings[found[0]] if found else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return `: did you mean 'port'?` to end a message with, or nothing if no word is near."""
    found = nearest(word, words)
    return "" if found is None else f": did you mean {found!r}?"
