"""What came from outside, made safe to show: a terminal obeys control characters, and nodes may send any."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

# C0 but tab and newline, DEL and C1; what turns the direction of writing; halves of characters.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Show each control character by its number, so that it says what it is and does nothing."""
    return _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)


def harmless_json(text: str) -> str:
    """Write the unsafe characters of a JSON text as JSON's own escapes; it means the same."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible_parts(parts: Iterable[bytes]) -> Iterator[str]:
    """Decode a stream as it comes, and make it visible; a character may be cut in two between its parts."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for part in parts:
        # A return before a newline is a line's end, and may come alone at the end of a part.
        text = rest + decoder.decode(part)
        rest = "\r" if text.endswith("\r") else ""
        yield visible(text.removesuffix("\r").replace("\r\n", "\n"))
    yield visible(rest + decoder.decode(b"", final=True))
