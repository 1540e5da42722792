"""What moves in and out of crawls, and how far that has come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Item:
    """One item: `id` is its place among the crawl's items, `key` what no other item of the crawl has."""

    id: str
    key: str
    body: bytes

    @property
    def at(self) -> datetime:
        """When it was delivered: a stream's ids begin with Redis' clock; for others, now."""
        ms = self.id.partition("-")[0]
        return datetime.fromtimestamp(int(ms) / 1000, UTC) if ms.isdecimal() else datetime.now(UTC)

    @property
    def mark(self) -> str:
        """Id and key, by which a sink remembers its last item: an id may be given out again, a key is not."""
        return f"{self.id} {self.key}"


@dataclass(frozen=True, slots=True)
class Behind:
    """A sink that has not read all the items that another one has."""

    sink: str
    held_until: datetime | None
    """They stay for it until then; `None`: they do not any more, and what it had not read was dropped."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What Redis remembers of a sink after a step: the last item that it has (`0-0`: none), and who has less."""

    last: str
    repeats: bool = False
    """The sink has more, of which Redis has lost track: items come again, or new ones with smaller ids."""
    behind: tuple[Behind, ...] = ()


@dataclass(frozen=True, slots=True)
class Drained:
    """How far a drain has come."""

    new: int = 0
    known: int = 0
    """The sink had them already."""
    altered: int = 0
    """Of the new ones: hold something that the sink cannot, and were changed there."""
    behind: tuple[Behind, ...] = ()
    """The other sinks of the crawl that have less than this one."""
    has_repeated: bool = False
    """Redis did not know all that the sink has, as after it went back to an older state: items may have come again."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """How far an adoption has come."""

    requests: int = 0
    fingerprints: int = 0
    kept: int = 0
    """Requests that could not be read or written; they are in `kept_in`."""
    kept_in: str = ""
    reasons: tuple[tuple[str, int], ...] = ()
    """Why, and how many for each reason."""
    fingerprints_kept: int = 0
    """What was no fingerprint in the dupefilter, and was left out."""


@dataclass(slots=True)
class CrawlCounts:
    """How much of a crawl a file holds."""

    entries: int = 0
    seeds: int = 0
    seen: int = 0
    """How many records; what a record is depends on the kind of seen set."""
