"""Which events are shown, and that whoever follows them sees each once, also over an outage of Redis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from toolkit.cluster.event_trail import EventFilter, check_kinds, event_trail, follow
from toolkit.model.errors import StoreUnreachableError, UsageError
from toolkit.model.events import Event, EventKind

BEGIN = datetime(2026, 11, 21, tzinfo=UTC)


class Stream:
    """A stream as `Events` reads it; `fails` calls of `after` go wrong before the next one works."""

    def __init__(self, *subjects: str) -> None:
        self.events: list[Event] = []
        self.fails = 0
        for subject in subjects:
            self.add(subject)

    def add(self, subject: str, kind: EventKind = EventKind.JOB_FAILED) -> None:
        at = BEGIN + timedelta(seconds=len(self.events))
        self.events.append(Event(kind, subject, at=at, id=f"{int(at.timestamp() * 1000)}-0"))

    def newest(self) -> str:
        return self.events[-1].id if self.events else "0-0"

    def after(self, event_id: str, *, limit: int = 1000) -> Sequence[Event]:
        if self.fails:
            self.fails -= 1
            raise StoreUnreachableError("Redis is away")
        return [event for event in self.events if event.id > event_id][:limit]

    def entries(self, *, limit: int = 100, since: datetime | None = None, before: str | None = None) -> Sequence[Event]:
        found = [
            event
            for event in reversed(self.events)
            if (since is None or (event.at or BEGIN) >= since) and (before is None or event.id < before)
        ]
        return found[:limit]


def subjects(events: Sequence[Event]) -> str:
    return "".join(event.subject for event in events)


def trail(stream: Stream, wanted: EventFilter, *, limit: int = 10) -> str:
    return subjects(event_trail(stream, wanted, limit=limit))  # type: ignore[arg-type]


def test_a_rare_event_is_found_however_old_it_is() -> None:
    stream = Stream("x", *("y" * 2500))
    assert trail(stream, EventFilter(subject="x")) == "x"
    assert trail(stream, EventFilter(), limit=3) == "yyy"
    assert trail(stream, EventFilter(), limit=0) == ""


def test_only_what_lies_between_two_moments_is_shown() -> None:
    stream = Stream(*"abcde")
    wanted = EventFilter(since=BEGIN + timedelta(seconds=1), until=BEGIN + timedelta(seconds=3))
    assert trail(stream, wanted) == "dcb"


@pytest.mark.parametrize(
    ("subject", "kinds", "admits"),
    [
        ("3f2a", (), True),
        ("2a91c0", (), False),
        ("*91c0", (), True),
        ("v1", (), False),
        (None, ("job.*",), True),
        (None, ("node.*", "job.failed"), True),
        (None, ("node.*",), False),
        ("3f2a", ("node.*",), False),
    ],
)
def test_a_subject_is_known_by_its_begin_or_a_pattern_and_a_kind_by_its_group(
    subject: str | None, kinds: tuple[str, ...], *, admits: bool
) -> None:
    event = Event(EventKind.JOB_FAILED, "3f2a91c0")
    assert EventFilter(subject=subject, kinds=kinds).admits(event) is admits


def test_a_release_is_known_by_its_version_too() -> None:
    assert EventFilter(subject="v1").admits(Event(EventKind.RELEASE_DEPLOYED, "shop v1"))


def test_a_kind_that_is_none_is_refused() -> None:
    assert check_kinds(["node.*", "job.lost"]) == ("node.*", "job.lost")
    with pytest.raises(UsageError, match=r"'jobs\.lost' is no kind"):
        check_kinds(["jobs.lost"])


def test_who_follows_sees_each_event_once_also_over_an_outage_which_is_said_once() -> None:
    stream = Stream(*"abc")
    said: list[StoreUnreachableError] = []
    later = iter("defg")

    def wait(_: float) -> None:
        stream.add(next(later))

    found = follow(stream, EventFilter(), limit=2, on_away=said.append, wait=wait)  # type: ignore[arg-type]
    assert subjects(list(islice(found, 3))) == "bcd"
    stream.fails = 2
    assert subjects(list(islice(found, 3))) == "efg"
    assert len(said) == 1


def test_who_follows_without_the_past_begins_with_what_comes() -> None:
    stream = Stream(*"abc")
    found = follow(
        stream,  # type: ignore[arg-type]
        EventFilter(kinds=("node.*",)),
        limit=0,
        on_away=lambda _: None,
        wait=lambda _: stream.add("n", EventKind.NODE_LOST),
    )
    assert next(found).subject == "n"
