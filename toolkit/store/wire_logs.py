"""How what is known of a shipped log looks at rest; its parts lie beside it, packed."""

from __future__ import annotations

import gzip
import zlib

from toolkit.model.errors import StoreUnreadableError
from toolkit.model.names import NodeName
from toolkit.model.shipped import MAX_PART_BYTES, LogPart, ShippedLog
from toolkit.store.envelope import read, write
from toolkit.store.fields import Fields


def write_log(log: ShippedLog) -> str:
    """Return what is known of a log as JSON; the node's name lies beside it."""
    return write(
        {
            "revision": log.revision,
            "place": log.place,
            "parts": [{"begin": part.begin, "length": part.length} for part in log.parts],
            "written_at": log.written_at.isoformat(),
            "is_complete": log.is_complete,
        }
    )


def read_log(body: str, *, node: NodeName) -> ShippedLog:
    """Return what the JSON says.

    Raises:
        StoreUnreadableError: it says nothing of a log, or is of a newer wire version.

    """
    fields = read(body, "shipped log")
    return ShippedLog(
        node=node,
        place=fields.text("place"),
        parts=tuple(_part(each) for each in fields.parts("parts")),
        written_at=fields.time("written_at"),
        is_complete=fields.flag("is_complete"),
        revision=fields.whole("revision"),
    )


def _part(fields: Fields) -> LogPart:
    part = LogPart(fields.whole("begin"), fields.whole("length"))
    # So much memory is made for it.
    if part.begin < 0 or not 0 < part.length <= MAX_PART_BYTES:
        raise StoreUnreadableError(f"a shipped log in the shared store names a part that is none: {part.name[:60]}")
    return part


def pack(content: bytes) -> bytes:
    """Return a part of a log as it is kept: what `gzip` makes of it, the same for the same bytes."""
    return gzip.compress(content, mtime=0)


def unpack(packed: bytes, part: LogPart) -> bytes:
    """Return the part's bytes; no more of them are unpacked than it has.

    Raises:
        StoreUnreadableError: they are not what its length says.

    """
    unpacking = zlib.decompressobj(wbits=31)
    try:
        content = unpacking.decompress(packed, part.length + 1)
    except zlib.error as error:
        raise StoreUnreadableError("a part of a shipped log cannot be unpacked") from error
    if len(content) != part.length:
        raise StoreUnreadableError(f"a part of a shipped log has not the {part.length} bytes that it should have")
    return content
