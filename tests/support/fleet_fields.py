"""How a simulated node reads the parameters of a call, and says no to them in Scrapyd's own words."""

from __future__ import annotations

Fields = dict[str, list[bytes]]


class SaysNoError(Exception):
    """The node answers with `"status": "error"` and this message."""


def check_method(method: str, expected: str) -> None:
    """Say no to another method than the endpoint's own."""
    if method != expected:
        raise SaysNoError(f"UnsupportedMethod: Expected one of [b'HEAD', b'OPTIONS', b'{expected}']")


def needed(fields: Fields, name: str) -> str:
    """Return a parameter that must be there."""
    value = given(fields, name)
    if value is None:
        raise SaysNoError(f"'{name}' parameter is required")
    return value


def given(fields: Fields, name: str) -> str | None:
    """Return a parameter, or nothing."""
    values = fields.get(name)
    if not values:
        return None
    try:
        return values[0].decode()
    except UnicodeDecodeError as error:
        raise SaysNoError(f"{name} is invalid: {error}") from error


def priority(fields: Fields) -> float:
    """Return the job's priority; 0 if none was given."""
    text = fields.get("priority", [b"0"])[0]
    try:
        return float(text)
    except ValueError as error:
        raise SaysNoError(f"priority is invalid: {error}") from error


def settings(fields: Fields) -> dict[str, str]:
    """Return the Scrapy settings of the job."""
    try:
        return dict(text.decode().split("=", 1) for text in fields.get("setting", []))
    except ValueError as error:
        raise SaysNoError(f"ValueError: {error}") from error
