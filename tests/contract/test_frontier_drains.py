"""Several sinks of one crawl, and a Redis that went back: no item is dropped that a sink still waits for."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from support.crawl_desk import LONG_S, SOON_S, CrawlDesk
from support.waiting import wait_until

from toolkit.model.errors import NotFoundError
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Behind, Drained
from toolkit.store.interfaces_crawls import HOLD_S, KEPT_HOLD_S
from toolkit.transfer.address import parse_place
from toolkit.transfer.drain import drain
from toolkit.transfer.sinks import open_sink
from toolkit.transfer.sources import NOTE_EVERY_S, StreamSource

BOOKS, ITEMS = CrawlId("books"), "books:items"
SKEW_MS = 20_000


def a_source(
    crawl: CrawlDesk, *, keeps: bool = False, again: bool = False, now: list[float] | None = None
) -> StreamSource:
    clock = (lambda: now[-1]) if now is not None else (lambda: 0.0)
    return StreamSource(crawl.crawls, BOOKS, ITEMS, redis="redis://desk", keeps=keeps, again=again, clock=clock)


def drained(crawl: CrawlDesk, to: str, *, keeps: bool = False, again: bool = False) -> Drained:
    """Drain all that is there, two items at once."""
    with closing(open_sink(parse_place(to))) as sink:
        *_, done = drain(a_source(crawl, keeps=keeps, again=again), sink, batch=2)
    return done


def find(crawl: CrawlDesk, *numbers: int) -> None:
    """Let a worker deliver items with these numbers."""
    crawl.worker().commit(loose_items=[b"%d" % number for number in numbers])


def find_ahead(crawl: CrawlDesk, *numbers: int) -> None:
    """Let items come whose ids are those of a server whose clock is ahead by `SKEW_MS`."""
    ahead_ms = round(now_s(crawl) * 1000) + SKEW_MS
    for number in numbers:
        crawl.redis.xadd(ITEMS, {"k": f"ahead-{number}", "v": str(number)}, id=f"{ahead_ms}-{number + 1}")


def now_s(crawl: CrawlDesk) -> float:
    seconds, microseconds = crawl.redis.time()
    return float(seconds + microseconds / 1e6)


def numbers_in(place: str) -> list[int]:
    if place.startswith("sqlite"):
        with closing(sqlite3.connect(place.removeprefix("sqlite:///"))) as connection:
            return sorted(int(item) for (item,) in connection.execute("SELECT item FROM items"))
    return [json.loads(line) for line in Path(place).read_text().splitlines()]


@pytest.fixture(params=["items.jsonl", "items.db"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{'sqlite:///' if request.param.endswith('db') else ''}{tmp_path / request.param}"


# --- a Redis that went back to an older state


def test_items_with_ids_of_a_clock_that_is_behind_are_not_lost(crawl: CrawlDesk, place: str) -> None:
    find(crawl, 0)
    replica = crawl.dump()
    find_ahead(crawl, 1, 2)
    assert drained(crawl, place).new == 3
    crawl.restore(replica)
    find(crawl, 3, 4, 5)
    done = drained(crawl, place)
    assert set(numbers_in(place)) == set(range(6))
    assert crawl.items() == []
    # A database knows by its key what came again; a file has it twice, and that is told.
    is_database = place.startswith("sqlite")
    assert Counter(numbers_in(place))[0] == (1 if is_database else 2)
    assert (done.known, done.has_repeated) == ((1, False) if is_database else (0, True))


def test_they_are_not_lost_either_when_later_ones_have_passed_the_place_of_the_sink(
    crawl: CrawlDesk, place: str
) -> None:
    find(crawl, 0)
    assert drained(crawl, place).new == 1
    replica = crawl.dump()
    find_ahead(crawl, 1)
    assert drained(crawl, place).new == 1
    crawl.restore(replica)
    find(crawl, 2)
    find_ahead(crawl, 3)
    assert drained(crawl, place).new == 2
    assert numbers_in(place) == [0, 1, 2, 3]
    assert crawl.items() == []


def test_an_item_that_has_taken_the_id_of_the_sinks_last_one_is_not_taken_for_it(crawl: CrawlDesk, place: str) -> None:
    find(crawl, 0)
    assert drained(crawl, place).new == 1
    replica = crawl.dump()
    find_ahead(crawl, 1)
    (last, _, _), *_ = crawl.crawls.items(BOOKS, after="", limit=1)
    assert drained(crawl, place).new == 1
    crawl.restore(replica)
    find(crawl, 2)
    crawl.redis.xadd(ITEMS, {"k": "another", "v": "3"}, id=last)
    assert drained(crawl, place).new == 2
    assert numbers_in(place) == [0, 1, 2, 3]


def test_redis_may_go_back_while_a_drain_runs_and_between_reading_and_dropping(crawl: CrawlDesk) -> None:
    find(crawl, 0)
    replica = crawl.dump()
    find_ahead(crawl, 1)
    source = a_source(crawl)
    source.begin("sink", "")
    read = source.following(10)
    assert [item.body for item in read] == [b"0", b"1"]
    crawl.restore(replica)
    find(crawl, 2, 3)
    source.finish(read)
    assert source.has_repeated
    assert [item.body for item in source.following(10)] == [b"0", b"2", b"3"]
    assert crawl.items() == [b"0", b"2", b"3"]


def test_redis_may_go_back_unseen_while_a_drain_runs(crawl: CrawlDesk) -> None:
    source = a_source(crawl)
    source.begin("sink", "")
    find(crawl, 0)
    source.finish(source.following(10))
    replica = crawl.dump()
    find_ahead(crawl, 1)
    source.finish(source.following(10))
    crawl.restore(replica)
    find(crawl, 2)
    find_ahead(crawl, 3)
    read = source.following(10)
    assert [item.body for item in read] == [b"2", b"3"]
    assert source.has_repeated
    source.finish(read)
    assert crawl.items() == []


def test_what_a_drain_has_finished_does_not_come_again_if_redis_went_back_to_before_that(crawl: CrawlDesk) -> None:
    source = a_source(crawl)
    source.begin("sink", "")
    find(crawl, 0, 1)
    replica = crawl.dump()
    source.finish(source.following(10))
    crawl.restore(replica)
    find(crawl, 2)
    assert [item.body for item in source.following(10)] == [b"2"]
    assert not source.has_repeated
    assert crawl.items() == [b"2"]


def test_a_drain_that_runs_while_the_items_are_cleared_goes_on_with_what_comes_then(crawl: CrawlDesk) -> None:
    source = a_source(crawl)
    source.begin("sink", "")
    find(crawl, 0)
    source.finish(source.following(10))
    crawl.crawls.clear(BOOKS, force=True, keep_items=False)
    find(crawl, 1)
    read = source.following(10)
    assert [item.body for item in read] == [b"1"]
    source.finish(read)
    assert crawl.items() == []


def test_a_redis_that_came_back_with_what_the_sink_has_gives_nothing_again(crawl: CrawlDesk, place: str) -> None:
    find(crawl, 0, 1, 2)
    replica = crawl.dump()
    assert drained(crawl, place).new == 3
    crawl.restore(replica)
    find(crawl, 3)
    assert drained(crawl, place).new == 1
    assert numbers_in(place) == [0, 1, 2, 3]
    assert crawl.items() == []


@pytest.mark.parametrize("keeps", [False, True])
def test_a_stream_that_was_deleted_and_began_anew_is_drained_whole(
    crawl: CrawlDesk, place: str, *, keeps: bool
) -> None:
    find_ahead(crawl, 0)
    assert drained(crawl, place, keeps=keeps).new == 1
    crawl.redis.delete(ITEMS)
    assert drained(crawl, place, keeps=keeps) == Drained()
    find(crawl, 1)
    assert drained(crawl, place, keeps=keeps).new == 1
    crawl.redis.delete(ITEMS)
    find_ahead(crawl, 2)
    assert drained(crawl, place, keeps=keeps).new == 1
    assert numbers_in(place) == [0, 1, 2]
    assert crawl.items() == ([b"2"] if keeps else [])


def test_a_file_goes_on_after_its_crawl_was_cleared_with_its_items(crawl: CrawlDesk, place: str) -> None:
    find(crawl, 0)
    assert drained(crawl, place).new == 1
    crawl.crawls.clear(BOOKS, force=True, keep_items=False)
    find(crawl, 1)
    assert drained(crawl, place) == Drained(new=1)
    assert numbers_in(place) == [0, 1]


def test_a_place_without_a_time_is_one_for_which_nothing_is_held(crawl: CrawlDesk) -> None:
    find(crawl, 0, 1)
    first, last = crawl.crawls.items(BOOKS, after="", limit=2)
    crawl.redis.hset("books:requests:drains", mapping={"sink": first[0], "other": "odd"})
    source = a_source(crawl)
    source.begin("sink", "")
    assert [item.id for item in source.following(10)] == [last[0]]
    assert crawl.items() == [b"1"]


def test_a_place_that_no_stream_ever_had_is_passed_over(crawl: CrawlDesk) -> None:
    find(crawl, 0)
    source = a_source(crawl)
    source.begin("sink", "0f3a9c-17 0f3a9c-17")
    assert [item.body for item in source.following(10)] == [b"0"]


# --- several sinks


def test_a_drain_drops_nothing_that_a_sink_that_keeps_has_not_read(crawl: CrawlDesk, tmp_path: Path) -> None:
    reader, mover = str(tmp_path / "reader.jsonl"), str(tmp_path / "mover.jsonl")
    find(crawl, 0)
    assert drained(crawl, reader, keeps=True) == Drained(new=1)
    find(crawl, 1)
    done = drained(crawl, mover)
    assert done.new == 2
    (behind,) = done.behind
    assert behind.sink == parse_place(reader).identity
    assert behind.held_until is not None
    held_s = behind.held_until.timestamp() - now_s(crawl)
    assert KEPT_HOLD_S - SOON_S < held_s <= KEPT_HOLD_S
    assert crawl.items() == [b"1"]
    assert drained(crawl, reader, keeps=True) == Drained(new=1)
    assert numbers_in(reader) == [0, 1]
    assert drained(crawl, mover) == Drained()
    assert crawl.items() == []


def test_two_drains_that_keep_nothing_each_get_all_items_while_they_run(crawl: CrawlDesk) -> None:
    one, other = a_source(crawl), a_source(crawl)
    one.begin("one", "")
    other.begin("other", "")
    assert (one.behind, other.behind) == ((), ())
    find(crawl, 0, 1)
    one.finish(one.following(10))
    (behind,) = one.behind
    assert behind.sink == "other"
    assert behind.held_until is not None
    assert 0 < behind.held_until.timestamp() - now_s(crawl) <= HOLD_S
    read = other.following(1)
    assert [item.body for item in read] == [b"0"]
    other.finish(read)
    assert other.behind == ()
    assert crawl.items() == [b"1"]
    find(crawl, 2)
    read = other.following(10)
    assert [item.body for item in read] == [b"1", b"2"]
    other.finish(read)
    assert crawl.items() == [b"2"]
    assert [item.body for item in one.following(10)] == [b"2"]


def test_a_drain_that_has_read_all_holds_its_place_while_nothing_comes(crawl: CrawlDesk) -> None:
    now = [0.0]
    idle = a_source(crawl, now=now)
    idle.begin("idle", "")
    crawl.crawls.drop_items(BOOKS, "idle", through="", keep=True, hold_s=0)
    now.append(NOTE_EVERY_S)
    assert idle.following(10) == []
    find(crawl, 0)
    other = a_source(crawl)
    other.begin("other", "")
    other.finish(other.following(10))
    (behind,) = other.behind
    assert behind.sink == "idle"
    assert [item.body for item in idle.following(10)] == [b"0"]


def test_a_sink_that_nobody_drains_to_any_more_holds_nothing_for_ever_and_that_is_told_once(crawl: CrawlDesk) -> None:
    find(crawl, 0)
    crawl.crawls.drop_items(BOOKS, "abandoned", through="", keep=True, hold_s=LONG_S)
    find(crawl, 1)
    source = a_source(crawl)
    source.begin("sink", "")
    source.finish(source.following(10))
    (behind,) = source.behind
    assert (behind.sink, behind.held_until is None) == ("abandoned", False)
    assert crawl.items() == [b"0", b"1"]
    crawl.crawls.forget_sink(BOOKS, "abandoned")
    find(crawl, 2)

    def is_passed() -> bool:
        if read := source.following(1):
            source.finish(read)
        else:
            source.begin("sink", "")
        return crawl.items() == []

    wait_until(is_passed, deadline_s=SOON_S, what="the items to be dropped")
    find(crawl, 3, 4)
    source.finish(source.following(1))
    assert source.behind == (Behind("abandoned", None),)
    another = a_source(crawl)
    another.begin("sink", "")
    another.finish(another.following(10))
    assert (another.behind, crawl.items()) == ((), [])


def test_a_sink_for_which_nothing_was_held_goes_on_with_what_is_left(
    crawl: CrawlDesk, place: str, tmp_path: Path
) -> None:
    find(crawl, 0, 1)
    assert drained(crawl, place).new == 2
    crawl.crawls.forget_sink(BOOKS, next(iter(map(bytes.decode, crawl.redis.hkeys("books:requests:drains")))))
    find(crawl, 2)
    mover = str(tmp_path / "mover.jsonl")
    wait_until(lambda: drained(crawl, mover) and not crawl.items(), deadline_s=SOON_S, what="the items to be dropped")
    find(crawl, 3)
    assert drained(crawl, place).new == 1
    assert numbers_in(place) == [0, 1, 3]


def test_a_drain_that_begins_again_is_given_all_that_is_there(crawl: CrawlDesk) -> None:
    find(crawl, 0, 1)
    first = a_source(crawl, keeps=True)
    first.begin("sink", "")
    first.finish(first.following(10))
    again, other = a_source(crawl, keeps=True, again=True), a_source(crawl)
    again.begin("sink", "")
    other.begin("other", "")
    other.finish(other.following(10))
    (behind,) = other.behind
    assert behind.sink == "sink"
    read = again.following(1)
    assert [item.body for item in read] == [b"0"]
    again.finish(read)
    # After Redis was away it goes on, and does not begin with the first once more.
    again.begin("sink", "")
    assert [item.body for item in again.following(10)] == [b"1"]


def test_a_sink_that_was_never_drained_to_cannot_be_forgotten(crawl: CrawlDesk) -> None:
    find(crawl, 0)
    with pytest.raises(NotFoundError, match="to a sink other"):
        crawl.crawls.forget_sink(BOOKS, "other")
