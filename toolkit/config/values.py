"""From the text of a value to the value of an option, or a sentence that says what it should have been.

Pure: it knows the option table, and neither YAML nor where a text came from.
"""

from __future__ import annotations

import math
import re
from urllib.parse import urlsplit

from toolkit.config.nearest import did_you_mean
from toolkit.config.option import Form, Option, Scope
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret

Value = str | int | float | Secret | None

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SHOWN_CHARS = 40
_NUMERIC = (Form.INTEGER, Form.NUMBER)


def parse_value(option: Option, text: str, *, is_shown: bool = True) -> Value:
    """Return the option's value for a text; a secret comes back as a `Secret`, a URL path without its last slash.

    With `is_shown` false, as for every secret, the message does not repeat the text.

    Raises:
        ConfigurationError: the text is no value of this option; the message says what one is.

    """
    quoted = f", not {_shortened(text)!r}" if is_shown and not option.is_secret else ""
    if not (text.replace("\n", "") if option.has_lines else text).isprintable():
        raise ConfigurationError(f"{option.name} holds a line break or another character that cannot be printed")
    if option.form is Form.CHOICE and text not in option.choices:
        raise ConfigurationError(f"{option.name} is {option.type_words}{quoted}{_near(text, option, quoted)}")
    if option.form in _NUMERIC:
        return _number(option, text, quoted)
    if option.pattern is not None and not re.search(option.pattern, text):
        raise ConfigurationError(f"{option.name} is {option.type_words}{_wrong_scheme(option, text) or quoted}")
    if option.scope in {Scope.INVENTORY, Scope.NODE} and option.name in {"redis", "redis_admin"}:
        _check_redis_url(text)
    if option.name == "path":
        return text.rstrip("/")
    return Secret(text) if option.is_secret else text


def _number(option: Option, text: str, quoted: str) -> int | float:
    form = _INTEGER if option.form is Form.INTEGER else _NUMBER
    refusal = ConfigurationError(f"{option.name} is {option.type_words}{quoted}")
    # The length first: Python refuses to read a number of thousands of digits.
    if len(text) > _SHOWN_CHARS or not form.fullmatch(text):
        raise refusal
    number = int(text) if option.form is Form.INTEGER else float(text)
    low = -math.inf if option.minimum is None else option.minimum
    high = math.inf if option.maximum is None else option.maximum
    if not low <= number <= high or (option.is_above_minimum and number == low):
        raise refusal
    return number


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def _near(text: str, option: Option, quoted: str) -> str:
    return did_you_mean(text, option.choices) if quoted else ""


def _wrong_scheme(option: Option, text: str) -> str:
    """Show no more of a secret URL than its scheme."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text)
    return f", not with {scheme[0]}" if option.is_secret and scheme else ""


def _check_redis_url(text: str) -> None:
    """Refuse a URL that a client would only stumble over later; nothing of it is repeated in the message."""
    if not text.startswith(("redis://", "rediss://")):
        return
    try:
        parts = urlsplit(text)
        is_good = parts.port != 0 and bool(parts.hostname) and not parts.fragment
    except ValueError:
        is_good = False
    if not is_good or not re.fullmatch(r"/?[0-9]*", parts.path):
        raise ConfigurationError(
            "redis is a URL like redis://HOST:PORT/DATABASE; in its password, write / as %2F, # as %23, @ as %40"
        )
