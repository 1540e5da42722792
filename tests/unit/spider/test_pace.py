"""A worker commits at once when it is about to have nothing or has gathered enough, and else seldom."""

from __future__ import annotations

import pytest

from toolkit.model.crawls import Answer, EntryId, Leased, Verdict
from toolkit.spider.pace import MAX_POLL_S, Gathered, Pace

TTL_S = 30.0


def leased(count: int) -> tuple[Leased, ...]:
    return tuple(Leased(EntryId(number.to_bytes(8, "big")), b"") for number in range(count))


def a_pace(*, per_second: float = 400.0, pending: int = 100, got: int = 10, is_hungry: bool = False) -> Pace:
    """Return a pace that has seen a steady crawl for a while, until the time 10."""
    pace = Pace(ttl_s=TTL_S, now=0.0)
    for step in range(100):
        answer = Answer(Verdict.DONE, leased=leased(got), pending=pending, is_hungry=is_hungry)
        pace.answered(answer, now=(step + 1) / 10, took_s=0.001, handed=round(per_second / 10), pushed=0)
    return pace


def due_in(pace: Pace, gathered: Gathered, *, at: float = 10.0, is_taking: bool = True) -> float:
    return pace.due_at(gathered, now=at, is_taking=is_taking) - at


def test_enough_endings_or_pushes_go_at_once() -> None:
    pace = a_pace()
    busy = Gathered(ready=50, working=16, endings=20, since=9.99)
    assert due_in(pace, busy) <= 0
    assert due_in(pace, Gathered(ready=50, working=16, pushes=200, since=9.99)) <= 0


def test_a_worker_with_enough_to_do_lets_things_gather() -> None:
    gathered = Gathered(ready=50, working=16, endings=2, pushes=14, since=10.0)
    assert 0.02 <= due_in(a_pace(), gathered) <= 0.1
    assert due_in(a_pace(per_second=10), gathered) == pytest.approx(1.0, abs=0.1)


def test_what_siblings_wait_for_does_not_wait_long() -> None:
    gathered = Gathered(ready=50, working=16, pushes=3, since=10.0)
    assert due_in(a_pace(per_second=5, is_hungry=True), gathered) == pytest.approx(0.02)


def test_when_hardly_anything_is_left_and_more_is_there_it_is_fetched_at_once() -> None:
    assert due_in(a_pace(), Gathered(ready=0, working=16), at=10.05) <= 0


def test_a_worker_that_has_nothing_to_do_sends_what_it_found_at_once() -> None:
    pace = a_pace(pending=0, got=0)
    assert due_in(pace, Gathered(free=16, pushes=1, since=10.0)) <= 0
    assert due_in(pace, Gathered(free=16, endings=1, since=10.0)) <= 0


def test_a_worker_whose_pages_are_under_way_waits_some_milliseconds_for_more() -> None:
    gathered = Gathered(free=10, working=6, pushes=1, since=10.0)
    assert 0 < due_in(a_pace(pending=0, got=0), gathered) <= 0.01


def test_an_idle_worker_asks_ever_more_seldom_down_to_four_times_a_second() -> None:
    pace = Pace(ttl_s=TTL_S, now=0.0)
    now, pauses = 0.0, []
    for _ in range(20):
        pace.answered(Answer(Verdict.DONE), now=now, took_s=0.001, handed=0, pushed=0)
        pauses.append(pace.due_at(Gathered(free=16), now=now, is_taking=True) - now)
        now += pauses[-1]
    assert pauses == pytest.approx(sorted(pauses))
    assert 0.01 <= pauses[0] < 0.02
    assert pauses[-1] == pytest.approx(MAX_POLL_S)
    pace.answered(Answer(Verdict.DONE, leased=leased(1)), now=now, took_s=0.001, handed=0, pushed=0)
    assert pace.due_at(Gathered(free=16, working=1), now=now, is_taking=True) - now == pytest.approx(0.01)


def test_the_turn_of_a_domain_is_awaited_and_not_missed() -> None:
    pace = Pace(ttl_s=TTL_S, now=0.0)
    for _ in range(20):
        pace.answered(Answer(Verdict.DONE, pending=5, again_s=0.05), now=0.0, took_s=0.001, handed=0, pushed=0)
    assert pace.due_at(Gathered(free=16), now=0.0, is_taking=True) == pytest.approx(0.05)


def test_a_paused_worker_hears_of_the_end_of_its_pause_and_keeps_its_lease() -> None:
    assert 0 < due_in(a_pace(), Gathered(free=16), is_taking=False) <= MAX_POLL_S
    busy = Gathered(ready=50, working=16)
    assert due_in(a_pace(), busy) <= 1.0
    assert due_in(Pace(ttl_s=1.5, now=10.0), busy) <= 0.5


def test_what_is_asked_for_fills_the_engine_and_a_batch_and_no_more() -> None:
    assert a_pace().want(Gathered(free=16)) == pytest.approx(16 + 24, abs=3)
    assert a_pace(per_second=1).want(Gathered(free=0)) <= 3
    assert a_pace().want(Gathered(free=0, ready=100)) == 0


def test_a_slow_line_makes_a_worker_ask_for_what_it_uses_meanwhile() -> None:
    pace = Pace(ttl_s=TTL_S, now=0.0)
    for step in range(100):
        answer = Answer(Verdict.DONE, leased=leased(10), pending=100)
        pace.answered(answer, now=(step + 1) / 10, took_s=0.05, handed=40, pushed=0)
    assert pace.low == pytest.approx(20, abs=2)


def test_a_fast_crawl_takes_fewer_than_a_hundred_round_trips_for_a_thousand_pages() -> None:
    pace = Pace(ttl_s=TTL_S, now=0.0)
    now, ready, pages, trips, handed, endings, since = 0.0, 0, 0, 0, 0, 0, 0.0
    while pages < 5000:
        gathered = Gathered(ready=ready, working=16, free=0, endings=endings, pushes=endings * 7, since=since)
        if pace.due_at(gathered, now=now, is_taking=True) <= now:
            want = pace.want(gathered)
            ready += want
            trips += 1
            now += 0.001
            answer = Answer(Verdict.DONE, leased=leased(want), pending=1000)
            pace.answered(answer, now=now, took_s=0.001, handed=handed, pushed=endings * 7)
            handed = endings = 0
        now += 0.0025
        if ready:
            ready, pages, handed, endings = ready - 1, pages + 1, handed + 1, endings + 1
            since = since if endings > 1 else now
    assert trips < 500
