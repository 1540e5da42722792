"""One reading for all who ask at once, an older one rather than a long wait, and no failure asked for in turn."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolkit.model.errors import StoreUnreachableError
from toolkit.web.glance import MAX_KEPT, STALE_S, Glances


class Clock:
    def __init__(self) -> None:
        self.at_s = 100.0

    def __call__(self) -> float:
        return self.at_s


class Source:
    """Something slow to read: it counts how often it is, and waits while it is closed."""

    def __init__(self) -> None:
        self.reads = 0
        self.open = threading.Event()
        self.open.set()

    def read(self) -> int:
        self.open.wait(10)
        self.reads += 1
        return self.reads


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source() -> Source:
    return Source()


def test_however_many_ask_at_once_it_is_read_once(clock: Clock, source: Source) -> None:
    glances = Glances(clock=clock)
    source.open.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(glances.get, "jobs", source.read) for _ in range(8)]
        source.open.set()
        assert {each.result() for each in asked} == {1}


def test_it_is_read_anew_once_it_is_old_or_somebody_changed_something(clock: Clock, source: Source) -> None:
    glances = Glances(clock=clock)
    assert glances.get("jobs", source.read) == 1
    clock.at_s += 0.9
    assert glances.get("jobs", source.read) == 1
    clock.at_s += 0.2
    assert glances.get("jobs", source.read) == 2
    glances.forget()
    assert glances.get("jobs", source.read) == 3


def test_an_older_reading_is_returned_where_a_new_one_takes_long_but_not_one_of_long_ago(
    clock: Clock, source: Source
) -> None:
    glances = Glances(clock=clock, patience_s=0.01)
    assert glances.get("nodes", source.read) == 1
    source.open.clear()
    clock.at_s += STALE_S - 1
    assert glances.get("nodes", source.read) == 1
    clock.at_s += 2
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(glances.get, "nodes", source.read)
        source.open.set()
        assert waiting.result() == 2


def test_what_is_not_there_at_once_is_nothing_to_a_page_that_does_not_wait(clock: Clock, source: Source) -> None:
    glances = Glances(clock=clock, patience_s=0.01)
    source.open.clear()
    assert glances.soon("log", source.read) is None
    source.open.set()
    assert glances.get("log", source.read) == 1


def test_a_failure_is_told_to_all_and_asked_for_again_later(clock: Clock) -> None:
    glances = Glances(clock=clock)
    asked = []

    def fail() -> int:
        asked.append(1)
        raise StoreUnreachableError("Redis is away")

    for _ in range(3):
        with pytest.raises(StoreUnreachableError):
            glances.get("board", fail)
    assert len(asked) == 1
    clock.at_s += 2
    assert glances.get("board", lambda: 7) == 7


def test_what_nobody_asks_for_any_more_is_let_go(clock: Clock, source: Source) -> None:
    glances = Glances(clock=clock)
    for number in range(MAX_KEPT + 1):
        glances.get(number, source.read)
    assert glances.get(MAX_KEPT, source.read) == MAX_KEPT + 1
    assert glances.get(0, source.read) == MAX_KEPT + 2
