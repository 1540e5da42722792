"""The JSON around everything at rest: an object with a format version, refused when a newer crawlctl wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolkit.model.errors import StoreUnreadableError
from toolkit.store.fields import Fields

WIRE_VERSION = 1


def write(body: Mapping[str, Any]) -> str:
    """Return the content as JSON, with the format's version."""
    return json.dumps({"v": WIRE_VERSION, **body}, separators=(",", ":"))


def read(body: str | bytes, what: str) -> Fields:
    """Return the content's fields; `what` says in messages what it should be.

    Raises:
        StoreUnreadableError: it is no JSON object, or of a newer format.

    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise StoreUnreadableError(f"a {what} in the shared store is not JSON") from error
    if not isinstance(content, dict):
        raise StoreUnreadableError(f"a {what} in the shared store is not a JSON object")
    fields = Fields(content, what=what)
    found = fields.whole("v")
    if found > WIRE_VERSION:
        raise StoreUnreadableError(
            f"a {what} in the shared store was written by a newer crawlctl (format {found}, this one reads up to "
            f"{WIRE_VERSION})",
            hint="pip install --upgrade crawlctl",
        )
    return fields
