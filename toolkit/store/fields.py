"""Typed access to the fields of one JSON object at rest; whatever is not as it must be is named and refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from toolkit.model.errors import StoreUnreadableError

E = TypeVar("E", bound=StrEnum)


class Fields:
    """One JSON object; `what` says in messages what it should have been.

    Every method raises `StoreUnreadableError` when the field is of another kind; those named `maybe_…` return `None`
    for a field that is null or absent.
    """

    def __init__(self, content: Mapping[str, Any], *, what: str) -> None:
        self._content = content
        self._what = what

    def has(self, name: str) -> bool:
        """Tell whether the field is there, and not null."""
        return self._content.get(name) is not None

    def text(self, name: str) -> str:
        """Return a text."""
        value = self._content.get(name)
        return value if isinstance(value, str) else self._refuse(name, "a text")

    def maybe_text(self, name: str) -> str | None:
        """Return a text or nothing."""
        return None if self._content.get(name) is None else self.text(name)

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        value = self._content.get(name)
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return value
        return self._refuse(name, "a list of texts")

    def maybe_texts(self, name: str) -> list[str]:
        """Return a list of texts; what is absent is an empty one."""
        return [] if self._content.get(name) is None else self.texts(name)

    def whole(self, name: str) -> int:
        """Return a whole number."""
        value = self._content.get(name)
        # Redis' JSON writes 1e+14 for a hundred million millions.
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else self._refuse(name, "a whole number")

    def maybe_whole(self, name: str) -> int | None:
        """Return a whole number or nothing."""
        return None if self._content.get(name) is None else self.whole(name)

    def number(self, name: str) -> float:
        """Return a number."""
        value = self._content.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        return self._refuse(name, "a number")

    def maybe_number(self, name: str) -> float | None:
        """Return a number or nothing."""
        return None if self._content.get(name) is None else self.number(name)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        value = self._content.get(name)
        return value if isinstance(value, bool) else self._refuse(name, "true or false")

    def maybe_flag(self, name: str) -> bool:
        """Return true or false; what is absent is false."""
        return False if self._content.get(name) is None else self.flag(name)

    def time(self, name: str) -> datetime:
        """Return a moment in UTC, written in ISO 8601 with its zone."""
        try:
            moment = datetime.fromisoformat(self.text(name))
        except ValueError:
            return self._refuse(name, "an ISO 8601 time")
        return moment.astimezone(UTC) if moment.tzinfo is not None else self._refuse(name, "a time with its zone")

    def maybe_time(self, name: str) -> datetime | None:
        """Return a moment in UTC or nothing."""
        return None if self._content.get(name) is None else self.time(name)

    def maybe_moment(self, name: str) -> datetime | None:
        """Return a moment in UTC, written in milliseconds since 1970, or nothing."""
        value = self.maybe_number(name)
        if value is None:
            return None
        try:
            seconds, rest_us = divmod(round(value * 1000), 1_000_000)
            return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest_us)
        except (ValueError, OverflowError, OSError):
            return self._refuse(name, "a time in milliseconds")

    def choice(self, name: str, choices: type[E]) -> E:
        """Return one of the words of an enumeration."""
        try:
            return choices(self.text(name))
        except ValueError:
            return self._refuse(name, "one of " + ", ".join(choices))

    def maybe_mapping(self, name: str) -> dict[str, str] | None:
        """Return texts by name or nothing."""
        value = self._content.get(name)
        if value is None:
            return None
        if isinstance(value, dict) and all(isinstance(part, str) for part in value.values()):
            return value
        return self._refuse(name, "texts by name")

    def maybe_wholes(self, name: str) -> dict[str, int] | None:
        """Return whole numbers by name or nothing."""
        value = self._content.get(name)
        if value is None:
            return None
        if isinstance(value, dict):
            return {key: Fields(value, what=self._what).whole(key) for key in value}
        return self._refuse(name, "whole numbers by name")

    def lists(self, name: str) -> dict[str, list[str]]:
        """Return lists of texts by name."""
        value = self._content.get(name)
        if isinstance(value, dict):
            return {key: Fields(value, what=self._what).texts(key) for key in value}
        return self._refuse(name, "lists of texts by name")

    def part(self, name: str) -> Fields:
        """Return an object."""
        value = self._content.get(name)
        return Fields(value, what=self._what) if isinstance(value, dict) else self._refuse(name, "an object")

    def parts(self, name: str) -> list[Fields]:
        """Return a list of objects."""
        value = self._content.get(name)
        if isinstance(value, list) and all(isinstance(part, dict) for part in value):
            return [Fields(part, what=self._what) for part in value]
        return self._refuse(name, "a list of objects")

    def _refuse(self, name: str, wanted: str) -> NoReturn:
        found = repr(self._content[name])[:60] if name in self._content else "missing"
        raise StoreUnreadableError(
            f"a {self._what} in the shared store cannot be read: {name!r} should be {wanted}, but is {found}",
            hint="crawlctl may be older than the one that wrote it: pip install --upgrade crawlctl",
        )
