"""The entries of a crawl as an operator looks at them: what is asked for, where it stands, and why it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.model.crawls import EntryId, EntryView
from toolkit.model.errors import StoreUnreadableError, UsageError

ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class Peeked:
    """One entry and what its body says; of a body that cannot be read `problem` says why, and the rest is empty."""

    entry: EntryView
    url: str | None = None
    method: str | None = None
    callback: str | None = None
    priority: int = 0
    depth: int | None = None
    problem: str | None = None


def read_entry(entry: EntryView) -> Peeked:
    """Read the body of an entry. Pure; whatever it holds, this does not raise."""
    if entry.leased.is_seed:
        return Peeked(entry, url=entry.leased.body.decode("utf-8", "replace"))
    from toolkit.store.wire_requests import read_request  # noqa: PLC0415 - msgpack is loaded only where it is used

    try:
        fields = read_request(entry.leased.body)
    except StoreUnreadableError as error:
        return Peeked(entry, problem=error.message)
    meta = fields.get("meta")
    return Peeked(
        entry,
        url=_text(fields.get("url")),
        method=_text(fields.get("method")) or "GET",
        callback=_text(fields.get("callback")),
        priority=_whole(fields.get("priority")) or 0,
        depth=_whole(meta.get("depth")) if isinstance(meta, dict) else None,
    )


def entry_ids(texts: Sequence[str]) -> list[EntryId]:
    """Return the ids that `peek` shows as Redis knows them.

    Raises:
        UsageError: one is no id.

    """
    return [_entry_id(text) for text in texts]


def _entry_id(text: str) -> EntryId:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != ID_BYTES:
        raise UsageError(f"{text!r} is no entry's id", hint="crawlctl crawls peek CRAWL --dead shows the ids")
    return EntryId(found)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
