"""Numbers out of a form's fields, which are texts until somebody has read them. Pure."""

from __future__ import annotations

from toolkit.model.errors import UsageError

MOST = 1_000_000
MAX_DIGITS = 20


def whole(text: str, what: str) -> int | None:
    """Return the whole number, at least 1; `None` where the field was left empty.

    Raises:
        UsageError: it is none.

    """
    given = text.strip()
    if not given:
        return None
    # Python refuses to read very long numbers at all.
    is_number = given.isascii() and given.isdigit() and len(given) <= MAX_DIGITS
    if not is_number or not 0 < int(given) < MOST:
        raise UsageError(f"{what} must be a whole number, 1 or more, not {given[:20]!r}")
    return int(given)


def decimal(text: str, what: str) -> float | None:
    """Return the number, at least 0; `None` where the field was left empty.

    Raises:
        UsageError: it is none.

    """
    given = text.strip()
    if not given:
        return None
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number < MOST:
        raise UsageError(f"{what} must be a number, 0 or more, not {given[:20]!r}")
    return number
