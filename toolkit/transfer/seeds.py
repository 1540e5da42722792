"""Reads seeds for a crawl: URLs as words, lines of a file or of standard input, or the rows of a SQL query.

All of them are checked before the first is handed out, so that a mistake in the last line leaves the crawl untouched.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import BinaryIO

from toolkit.model.errors import ConfigurationError, UsageError
from toolkit.transfer.address import Place, PlaceKind, parse_place

KEPT_IN_MEMORY = 16 * 1024 * 1024
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+")
_WEB = re.compile(r"(?i)https?:(?://[^/?#\s]+)?")
_BOM = b"\xef\xbb\xbf"
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A query that has a column `url`; its other columns become fields of the seed."""

    place: Place
    query: str


def sql_query(url: str, query: str) -> SqlQuery:
    """Return the query to a database that is named by its URL.

    Raises:
        UsageError: the URL names no SQL database.

    """
    place = parse_place(url)
    if place.kind is not PlaceKind.SQL:
        raise UsageError(
            f"{place.shown} is no SQL database", hint="such as postgresql://user@host/name, or sqlite:///f.db"
        )
    return SqlQuery(place, query)


def read_seeds(
    urls: Sequence[str] = (),
    *,
    file: Path | None = None,
    stdin: BinaryIO | None = None,
    query: SqlQuery | None = None,
    are_checked: bool = True,
) -> Iterator[bytes]:
    """Yield seeds, each as scrapy-redis' spiders take them: a URL, or a JSON object with a field `url`.

    They come in this order: the words, the file's lines (`-` is standard input, or `stdin`), the query's rows. Empty
    lines and those that begin with `#` are left out. Before the first is yielded all were read and, unless
    `are_checked` is off (for spiders that make something else of a seed), found to be URLs; up to 16 MiB of them are
    kept in memory, the rest in a temporary file.

    Raises:
        UsageError: one of them is no seed; it is named with its number, and nothing was yielded.
        ConfigurationError: the file cannot be read.
        CrawlctlError: the database cannot be read (`database.rows`).

    """
    with tempfile.SpooledTemporaryFile(max_size=KEPT_IN_MEMORY) as kept:
        for where, seed in _all(urls, file, stdin, query):
            if are_checked and (why := seed_problem(seed)) is not None:
                raise UsageError(
                    f"{where}: {_shown(seed)} is no seed: {why}; nothing was pushed",
                    hint="a seed is a URL, or a JSON object with a field url",
                )
            kept.write(seed + b"\n")
        kept.seek(0)
        for line in kept:
            yield line[:-1]


def seed_problem(seed: bytes) -> str | None:
    """Say why a spider could not begin with this seed, or return `None`."""
    try:
        text = seed.decode()
    except UnicodeDecodeError:
        return "it is not UTF-8"
    if not text.startswith(("{", "[", '"')):
        return _url_problem(text)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON ({error})"
    if not isinstance(content, dict):
        return "it is JSON, but no object"
    url = content.get("url")
    return _url_problem(url) if isinstance(url, str) else "its field url is missing, or no text"


def _url_problem(text: str) -> str | None:
    if not _URL.fullmatch(text):
        return "a URL has a scheme such as https:, and no spaces"
    if (found := _WEB.match(text)) and "//" not in found[0]:
        return "it names no host"
    return None


def _all(
    urls: Sequence[str], file: Path | None, stdin: BinaryIO | None, query: SqlQuery | None
) -> Iterator[tuple[str, bytes]]:
    """Yield every seed with the words that say where it stands."""
    for number, url in enumerate(urls, 1):
        word = url.strip().encode("utf-8", "surrogateescape")
        if b"\n" in word:
            raise UsageError(f"word {number} has more than one line; nothing was pushed")
        yield f"word {number}", word
    if file is not None:
        with _opened(file, stdin) as (name, lines):
            yield from _lines(name, lines)
    if query is not None:
        yield from _rows(query)


@contextmanager
def _opened(file: Path, stdin: BinaryIO | None) -> Iterator[tuple[str, Iterable[bytes]]]:
    if str(file) == "-":
        yield "standard input", sys.stdin.buffer if stdin is None else stdin
        return
    try:
        with file.open("rb") as lines:
            yield str(file), lines
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror or error}") from error


def _lines(name: str, lines: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(lines, 1):
        seed = (line.removeprefix(_BOM) if number == 1 else line).strip()
        if seed and not seed.startswith(b"#"):
            yield f"{name}, line {number}", seed


def _rows(query: SqlQuery) -> Iterator[tuple[str, bytes]]:
    from toolkit.transfer.database import rows  # noqa: PLC0415 - SQLAlchemy is loaded only where it is used

    for number, row in enumerate(rows(query.place, query.query), 1):
        where = f"row {number}"
        if "url" not in row:
            found = ", ".join(row) or "none"
            raise UsageError(f"the query has no column url (it has: {found})", hint="SELECT address AS url, …")
        if not isinstance(row["url"], str):
            raise UsageError(f"{where}: its url is {row['url']!r}, no text; nothing was pushed")
        yield where, _row_seed(where, row)


def _row_seed(where: str, row: Mapping[str, object]) -> bytes:
    if list(row) == ["url"]:
        return str(row["url"]).strip().encode("utf-8", "replace")
    fields = {name: _plain(where, name, value) for name, value in row.items()}
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def _plain(where: str, name: str, value: object) -> object:
    """Return a column's value as JSON can say it: dates and times as ISO 8601, what else is no number as text."""
    if value is None or isinstance(value, bool | int | str | list | dict):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        raise UsageError(f"{where}: its column {name} is binary; nothing was pushed", hint="leave it out of the query")
    return str(value)


def _shown(seed: bytes) -> str:
    text = seed.decode("utf-8", "replace")
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
