"""The body of an item on its way out of a crawl, as the sinks of each kind can hold it."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

_REPLACED = "\ufffd"


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink made of some items."""

    new: int = 0
    known: int = 0
    """It had them already: a drain before was ended between writing them and saying so."""
    altered: int = 0
    """Of the new ones: hold something that the sink cannot, and were changed there (`plain`)."""


def line_of(body: bytes) -> tuple[bytes, bool]:
    """Return an item as one line of JSON, and whether it had to be altered; valid JSON on one line passes as it is.

    `NaN` and infinities, which JSON has not, become texts. What is no JSON at all becomes an object with the one field
    `raw`, or `raw_base64` where it is no text either.
    """
    try:
        content = json.loads(body, parse_constant=_NotJson.of)
    except (ValueError, RecursionError):
        return json.dumps(_raw(body), ensure_ascii=False).encode(), True
    except _NotJson:
        return json.dumps(plain(json.loads(body))[0]).encode(), True
    if b"\n" not in body and b"\r" not in body:
        return body, False
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"), False


def document_of(body: bytes) -> tuple[Any, bool]:
    """Return an item as what JSON means, made of what every database can hold, and whether it had to be altered."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return plain(_raw(body))[0], True
    return plain(content)


def plain(value: Any) -> tuple[Any, bool]:
    """Return a JSON value without what databases refuse, and whether anything was changed.

    NUL and halves of characters become the replacement character, `NaN` and infinities texts, and numbers beyond 64
    bits texts too.
    """
    if isinstance(value, str):
        mended = _plain_text(value)
        return mended, mended != value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value), True
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return str(value), True
    if isinstance(value, list):
        parts = [plain(part) for part in value]
        return [part for part, _ in parts], any(changed for _, changed in parts)
    if isinstance(value, dict):
        fields = {_plain_text(name): plain(part) for name, part in value.items()}
        changed = any(altered for _, altered in fields.values()) or fields.keys() != value.keys()
        return {name: part for name, (part, _) in fields.items()}, changed
    return value, False


class _NotJson(Exception):  # noqa: N818 - never leaves this module
    @classmethod
    def of(cls, constant: str) -> Any:
        raise cls(constant)


def _plain_text(text: str) -> str:
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", _REPLACED).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _raw(body: bytes) -> dict[str, str]:
    try:
        return {"raw": body.decode()}
    except UnicodeDecodeError:
        return {"raw_base64": base64.b64encode(body).decode()}
