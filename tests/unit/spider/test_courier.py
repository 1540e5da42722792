"""One thread carries calls in their order, and keeps the lease alive while nobody asks, but not for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.waiting import wait_until

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.names import WorkerName
from toolkit.spider import courier
from toolkit.spider.clock import _Threads
from toolkit.spider.courier import Courier, Outcome

TTL_S = 0.2


class Line(_Threads):
    """A frontier that notes what it is asked, and the clock of the thread that asks."""

    def __init__(self) -> None:
        self.renewed: list[int] = []
        self.is_away = False
        self.is_closed = False
        self.outcomes: list[Outcome] = []
        self.threads: set[str] = set()

    def renew(self, worker: WorkerName, token: int, *, ttl_s: float) -> bool:
        assert (worker, ttl_s) == ("w1", TTL_S)
        self.threads.add(threading.current_thread().name)
        self.renewed.append(token)
        if self.is_away:
            raise StoreUnreachableError("nothing listens there")
        return True

    def close(self) -> None:
        self.is_closed = True

    def soon(self, call: Callable[..., object], *args: object) -> None:
        call(*args)


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def sent(line: Line) -> Iterator[Courier]:
    made: Any = Courier(line, line, worker=WorkerName("w1"), ttl_s=TTL_S)  # type: ignore[arg-type]  # as far as it is asked
    yield made
    made.close()
    wait_until(lambda: line.is_closed, deadline_s=10, what="the frontier to be closed")


def test_calls_are_made_in_their_order_and_errors_come_back(line: Line, sent: Courier) -> None:
    def fails(_: object) -> None:
        raise StoreUnreachableError("away")

    for number in range(5):
        sent.send(lambda _, number=number: number, line.outcomes.append)  # type: ignore[misc]  # mypy knows no such lambda
    sent.send(fails, line.outcomes.append)
    wait_until(lambda: len(line.outcomes) == 6, deadline_s=10, what="six outcomes")
    assert [each.result for each in line.outcomes[:5]] == [0, 1, 2, 3, 4]
    assert isinstance(line.outcomes[5].error, StoreUnreachableError)


def test_the_lease_is_kept_while_nobody_asks(line: Line, sent: Courier) -> None:
    sent.keep(7)
    wait_until(lambda: len(line.renewed) > 3, deadline_s=10, what="the lease to be renewed again and again")
    assert set(line.renewed) == {7}
    assert line.threads == {"frontier"}


def test_without_a_lease_nothing_is_kept(line: Line, sent: Courier) -> None:
    sent.keep(7)
    wait_until(lambda: line.renewed, deadline_s=10, what="the lease to be renewed")
    sent.keep(None)
    line.renewed.clear()
    ended = threading.Event()
    assert not ended.wait(TTL_S * 3)
    assert len(line.renewed) <= 1


def test_an_absence_of_redis_does_not_end_the_keeping(line: Line, sent: Courier) -> None:
    line.is_away = True
    sent.keep(7)
    wait_until(lambda: len(line.renewed) > 1, deadline_s=10, what="the lease to be renewed in vain")
    line.is_away = False
    count = len(line.renewed)
    wait_until(lambda: len(line.renewed) > count + 1, deadline_s=10, what="the lease to be renewed")


def test_a_thread_that_is_silent_for_too_long_counts_as_stuck(
    line: Line, sent: Courier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "MAX_SILENCE_S", TTL_S)
    sent.keep(7)
    ended = threading.Event()
    assert not ended.wait(TTL_S * 2)
    line.renewed.clear()
    assert not ended.wait(TTL_S * 2)
    assert line.renewed == []
