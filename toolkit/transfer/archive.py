"""A crawl as a file: JSON lines, gzip where the name ends in `.gz`. Written and read as a stream, whatever its size.

The first line says what crawl it is, then come its entries, its seeds and its seen set, and the last line counts them,
so that a file that was cut off is known as such. Bytes are base64. Items are not in it: drain them.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from toolkit.model.crawls import Controls, CrawlPlan, CrawlView, DomainLimit, EntryId, EntryView, Leased, Shelf
from toolkit.model.errors import ConfigurationError, StoreUnreadableError, UsageError
from toolkit.model.names import check_crawl
from toolkit.model.transfers import CrawlCounts
from toolkit.store.wire_crawls import (
    ID_BYTES,
    read_controls,
    read_limit,
    read_plan,
    write_controls,
    write_limit,
    write_plan,
)
from toolkit.transfer.files import replacing

FORMAT = "crawlctl crawl"
VERSION = 1
_GZIP_LEVEL = 6
_LINE_BYTES = 200_000
_COUNTED = ("entries", "seeds", "seen")


@dataclass(frozen=True, slots=True)
class Head:
    """What the first line says."""

    plan: CrawlPlan
    controls: Controls
    limits: tuple[DomainLimit, ...]


class Writer:
    """Writes a crawl into an open file, and counts."""

    def __init__(self, file: IO[bytes]) -> None:
        self.counts = CrawlCounts()
        self._file = file
        self._records: list[str] = []
        self._bytes = 0

    def head(self, view: CrawlView) -> None:
        """Write the first line."""
        limits = [{"domain": e.domain, "per_second": e.per_second, "concurrency": e.concurrency} for e in view.limits]
        self._line(
            {
                "format": FORMAT,
                "v": VERSION,
                "at": view.now.isoformat(),
                "plan": json.loads(write_plan(view.plan)),
                "controls": json.loads(write_controls(view.controls)),
                "limits": limits,
            }
        )

    def entry(self, entry: EntryView) -> None:
        """Write an entry."""
        leased = entry.leased
        fields: dict[str, Any] = {"entry": leased.entry.hex(), "shelf": entry.shelf.value, "score": leased.score}
        if leased.deaths:
            fields["deaths"] = leased.deaths
        if leased.is_seed:
            fields["is_seed"] = True
        if entry.why:
            fields["why"] = entry.why
        self._line(fields | {"body": _text(leased.body)})
        self.counts.entries += 1

    def seed(self, seed: bytes, score: float) -> None:
        """Write a seed."""
        self._line({"seed": _text(seed)} | ({"score": score} if score else {}))
        self.counts.seeds += 1

    def record(self, record: bytes) -> None:
        """Write a record of the seen set; many of them share a line."""
        self._records.append(_text(record))
        self._bytes += len(self._records[-1])
        self.counts.seen += 1
        if self._bytes >= _LINE_BYTES:
            self._flush()

    def end(self) -> None:
        """Write the last line."""
        self._flush()
        self._line({"end": {name: getattr(self.counts, name) for name in _COUNTED}})

    def _flush(self) -> None:
        if self._records:
            self._line({"seen": self._records})
            self._records, self._bytes = [], 0

    def _line(self, content: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(content, separators=(",", ":")).encode() + b"\n")


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """Give a writer of a file, which is there when the block ends well, and whole.

    Raises:
        ConfigurationError: the disk is full, or the file cannot be written; what was there before is there still.

    """
    try:
        with replacing(path) as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0) as packed:
                    yield Writer(cast("BinaryIO", packed))
            else:
                yield Writer(file)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error


class Archive:
    """A file that was exported; it can be read again and again.

    Raises:
        ConfigurationError: from every method: it cannot be read, is not a crawl, or was cut off or changed.

    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> tuple[Head, CrawlCounts]:
        """Read all of it, and return its head and its counts."""
        counts = CrawlCounts()
        end: Any = None
        for line in self._lines():
            if end is not None:
                raise self._broken("something follows its last line")
            counts.entries += "entry" in line
            counts.seeds += "seed" in line
            counts.seen += len(line.get("seen", ()))
            end = line.get("end")
        if end is None:
            raise self._broken("its last line is missing: it was cut off")
        if end != {name: getattr(counts, name) for name in _COUNTED}:
            raise self._broken("it does not hold what its last line counts")
        for _ in (*self.entries(), *self.seeds(), *self.records()):
            pass
        return self.head(), counts

    def head(self) -> Head:
        """Return what the first line says."""
        line = next(self._lines(), {})
        if line.get("format") != FORMAT:
            raise self._broken("its first line is none of an exported crawl")
        if line.get("v") != VERSION:
            hint = "pip install --upgrade crawlctl"
            raise self._broken(f"it is of the format {line.get('v')}, and this crawlctl reads {VERSION}", hint=hint)
        with self._read():
            limits = tuple(_limit(each) for each in line["limits"])
            return Head(_plan(line["plan"]), read_controls(json.dumps(line["controls"])), limits)

    def entries(self) -> Iterator[EntryView]:
        """Return the entries, in their order."""
        for line in self._lines():
            if "entry" in line:
                with self._read():
                    found = _entry(line)
                yield found

    def seeds(self) -> Iterator[tuple[bytes, float]]:
        """Return the seeds with their scores."""
        for line in self._lines():
            if "seed" in line:
                with self._read():
                    found = _bytes(line["seed"]), float(line.get("score", 0))
                yield found

    def records(self) -> Iterator[bytes]:
        """Return the records of the seen set."""
        for line in self._lines():
            with self._read():
                found = [_bytes(each) for each in line.get("seen", ())]
            yield from found

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            with self._path.open("rb") as file:
                is_packed = file.read(2) == b"\x1f\x8b"
                file.seek(0)
                for line in gzip.GzipFile(fileobj=file) if is_packed else file:
                    content = json.loads(line)
                    if not isinstance(content, dict):
                        raise self._broken("a line of it is no object")
                    yield content
        except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
            raise self._broken("it was cut off, or changed") from error
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be read: {error.strerror or error}") from error

    @contextmanager
    def _read(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, ArithmeticError, KeyError, TypeError, StoreUnreadableError, UsageError) as error:
            raise self._broken(f"a line of it cannot be read ({type(error).__name__}: {error})") from error

    def _broken(self, why: str, *, hint: str | None = None) -> ConfigurationError:
        return ConfigurationError(f"{self._path} is no whole export of a crawl: {why}", hint=hint)


def _plan(fields: Mapping[str, Any]) -> CrawlPlan:
    plan = read_plan(json.dumps(fields))
    check_crawl(plan.crawl)
    if not 0 < plan.bloom_error < 1:
        raise ValueError(f"bloom_error is {plan.bloom_error}")
    return plan


def _limit(fields: Mapping[str, Any]) -> DomainLimit:
    limit = DomainLimit(**fields)
    return read_limit(str(limit.domain), write_limit(limit))


def _entry(line: Mapping[str, Any]) -> EntryView:
    entry, deaths, score = EntryId(bytes.fromhex(line["entry"])), int(line.get("deaths", 0)), str(line["score"])
    if len(entry) != ID_BYTES or deaths < 0 or math.isnan(float(score)):
        raise ValueError(f"the entry {entry.hex()} cannot be one: {deaths} deaths, score {score}")
    leased = Leased(entry, _bytes(line["body"]), is_seed=bool(line.get("is_seed", False)), deaths=deaths, score=score)
    came_at = datetime.fromtimestamp(int.from_bytes(entry, "big") / 1e6).astimezone()
    return EntryView(leased, Shelf(line["shelf"]), came_at, why=str(line.get("why", "")))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
