"""How a request looks in the frontier: msgpack, or JSON for those who look at it by eye. No pickle, no eval.

The URL comes first, keys are one letter, and what is as Scrapy leaves it is not written by those who call. What the two
formats cannot say by themselves (bytes in JSON; tuples, sets, times, Decimals) is kept under a mark. A reader ignores
fields that it does not know; a format that it would misunderstand says `v`, which is absent in the first one.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import msgpack

from toolkit.model.errors import StoreUnreadableError, UnwritableError

FORMAT = 1


class Wire(StrEnum):
    """How a request is written; a reader tells them apart by itself."""

    MSGPACK = "msgpack"
    JSON = "json"


_LETTERS = {
    "url": "u",
    "callback": "c",
    "errback": "e",
    "method": "m",
    "headers": "h",
    "body": "b",
    "cookies": "k",
    "meta": "t",
    "encoding": "n",
    "priority": "p",
    "dont_filter": "d",
    "flags": "f",
    "cb_kwargs": "a",
    "class": "l",
}
_NAMES = {letter: name for name, letter in _LETTERS.items()}
_MARK = "~"


class _Kind(NamedTuple):
    code: int
    letter: str
    plain: Callable[[Any], Any]
    """Makes what both formats can say of a value."""
    back: Callable[[Any], Any]


# A code or a letter once given keeps its meaning. Looked up by exact type: a named tuple is not a tuple.
_KINDS: dict[type, _Kind] = {
    tuple: _Kind(1, "t", list, tuple),
    set: _Kind(2, "s", list, set),
    frozenset: _Kind(3, "z", list, frozenset),
    datetime: _Kind(4, "d", datetime.isoformat, datetime.fromisoformat),
    date: _Kind(5, "y", date.isoformat, date.fromisoformat),
    Decimal: _Kind(6, "n", str, Decimal),
    int: _Kind(7, "i", str, int),
    time: _Kind(8, "h", time.isoformat, time.fromisoformat),
    timedelta: _Kind(
        9, "l", lambda span: [span.days, span.seconds, span.microseconds], lambda parts: timedelta(*parts)
    ),
    UUID: _Kind(10, "u", str, UUID),
    # The rest are those that only JSON cannot say.
    bytes: _Kind(11, "b", lambda value: base64.b64encode(value).decode(), base64.b64decode),
    dict: _Kind(12, "m", lambda value: [list(pair) for pair in value.items()], dict),
    float: _Kind(13, "f", str, float),
}
_BY_CODE = {kind.code: kind for kind in _KINDS.values()}
_BY_LETTER = {kind.letter: kind for kind in _KINDS.values()}
# Written as what they are made of: lxml's strings, enumerations of texts, Scrapy's dictionaries.
_BASES: tuple[type[Any], ...] = (str, int, float, bytes, dict, list)


def write_request(fields: Mapping[str, object], wire: Wire = Wire.MSGPACK) -> bytes:
    """Return the request that has these fields, those left out being as Scrapy leaves them.

    Lists, dictionaries, texts, numbers, bytes, tuples, sets, dates, times, Decimals and UUIDs come back as they were;
    a subclass of a built-in type comes back as that type.

    Raises:
        UnwritableError: a field holds something else; the message says which field, where in it, and of which type.

    """
    try:
        return _write({_LETTERS[name]: value for name, value in fields.items()}, wire)
    except (TypeError, ValueError, OverflowError, RecursionError, KeyError):
        raise _explained(fields, wire) from None


def read_request(body: bytes) -> dict[str, Any]:
    """Return the fields of a request, in either format; at least the URL is among them.

    Raises:
        StoreUnreadableError: it is no request, or was written by a newer crawlctl.

    """
    try:
        content = json.loads(body, object_hook=_unmarked) if body[:1] == b"{" else _unpack(body)
    except (ValueError, TypeError, ArithmeticError, RecursionError, msgpack.UnpackException) as error:
        raise StoreUnreadableError(
            f"a request in the frontier is neither msgpack nor JSON ({body[:12]!r}…)", hint=_origin(body)
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("u"), str):
        raise StoreUnreadableError(f"a request in the frontier has no URL ({body[:12]!r}…)", hint=_origin(body))
    if "v" in content and content["v"] != FORMAT:
        raise StoreUnreadableError(
            f"a request in the frontier was written by a newer crawlctl (format {content['v']!r}, this one reads "
            f"{FORMAT})",
            hint="pip install --upgrade crawlctl",
        )
    names = _NAMES
    return {names[letter]: value for letter, value in content.items() if letter in names}


def _write(content: object, wire: Wire) -> bytes:
    if wire is Wire.JSON:
        return json.dumps(_marked(content), separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    return _pack(content)


def _pack(content: object) -> bytes:
    packed: bytes = msgpack.packb(
        content, default=_extended, use_bin_type=True, strict_types=True, unicode_errors="surrogatepass"
    )
    return packed


def _unpack(body: bytes) -> Any:
    return msgpack.unpackb(
        body, raw=False, strict_map_key=False, ext_hook=_from_extended, unicode_errors="surrogatepass"
    )


def _extended(value: object) -> object:
    kind = _KINDS.get(type(value))
    if kind is not None:
        return msgpack.ExtType(kind.code, _pack(kind.plain(value)))
    return _base(value)


def _base(value: object) -> object:
    """Return a value of a built-in type for one of a subclass."""
    if not (isinstance(value, tuple) or type(value) in _BASES):
        for base in _BASES:
            if isinstance(value, base):
                return base(value)
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__}")


def _from_extended(code: int, content: bytes) -> object:
    kind = _BY_CODE.get(code)
    if kind is None:
        raise ValueError(f"unknown kind {code}")
    return kind.back(_unpack(content))


def _marked(value: Any) -> Any:
    """Return the value as JSON can say it."""
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [_marked(part) for part in value]
    if kind is dict and _MARK not in value and all(type(key) is str for key in value):
        return {key: _marked(part) for key, part in value.items()}
    known = _KINDS.get(kind)
    if known is None:
        return _marked(_base(value))
    return {_MARK: known.letter, "=": _marked(known.plain(value))}


def _unmarked(content: dict[str, Any]) -> Any:
    letter = content.get(_MARK)
    if letter is None:
        return content
    kind = _BY_LETTER.get(letter)
    if kind is None or "=" not in content:
        raise ValueError(f"unknown kind {letter!r}")
    return kind.back(content["="])


def _explained(fields: Mapping[str, object], wire: Wire) -> UnwritableError:
    """Return the error that says which field of a request cannot be written, and why."""
    for name, value in fields.items():
        if name not in _LETTERS:
            return UnwritableError(f"a request has no field {name!r}", field=name, kind=type(value).__name__)
        why = _problem(value, wire)
        if why is None:
            continue
        place, inner = name, value
        while isinstance(inner, dict | list):
            parts = inner.items() if isinstance(inner, dict) else enumerate(inner)
            found = next(((key, part) for key, part in parts if _problem(part, wire) is not None), None)
            if found is None or len(place) > _MAX_PLACE_CHARS:
                break
            place, inner, why = f"{place}[{found[0]!r}]", found[1], _problem(found[1], wire) or why
        return UnwritableError(f"{place} cannot be written: {why}", field=name, kind=type(inner).__name__)
    return UnwritableError("a request cannot be written whole", field="url", kind="dict")


_MAX_PLACE_CHARS = 120


def _problem(value: object, wire: Wire) -> str | None:
    try:
        _write(value, wire)
    except TypeError as error:
        return f"it is of type {error}"
    except (ValueError, OverflowError, RecursionError) as error:
        return f"{error or 'it is nested too deeply'}"
    return None


def _origin(body: bytes) -> str | None:
    # What Python's pickle writes since protocol 2, and nothing of ours begins with.
    is_pickle = body[:1] == b"\x80" and body[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}
    return "it looks like a pickle of scrapy-redis, which is not read: it could run code" if is_pickle else None
