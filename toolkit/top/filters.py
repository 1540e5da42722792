"""The filter of a table: words that must all be there, in any column; `-word` must not be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """What a filter asks for, in small letters."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Words:
        """Read what was typed."""
        words = text.casefold().split()
        return cls(
            tuple(word for word in words if not word.startswith("-")),
            tuple(word[1:] for word in words if word.startswith("-") and len(word) > 1),
        )

    def __bool__(self) -> bool:
        return bool(self.wanted or self.unwanted)

    def admits(self, texts: Iterable[object]) -> bool:
        """Tell whether a row with these texts is to be shown."""
        whole = "\n".join(str(text) for text in texts if text is not None).casefold()
        return all(word in whole for word in self.wanted) and not any(word in whole for word in self.unwanted)


def shown_words(text: str, found: int, of: int) -> Sequence[str]:
    """Say what a filter leaves of a table."""
    return (f"/{text}", f"{found:,} of {of:,}") if text.strip() else (f"{of:,}",)
