"""What a process held of a crawl is given back when the process is gone, as soon as Redis can be told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from toolkit.model.errors import RefusedError, StoreUnreachableError
from toolkit.model.names import WorkerName
from toolkit.node import departures
from toolkit.node.departures import Departures

ONE, OTHER = WorkerName("job-1~7:node-1:life"), WorkerName("job-2~8:node-1:life")
STOPPED = WorkerName("job-3~9:node-1:life")


class Road:
    """A membership whose Redis answers or does not, and a frontier that notes what it is told."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.released: list[WorkerName] = []
        self.stopped: list[WorkerName] = []
        self.departures = Departures(self)  # type: ignore[arg-type]

    def ask(self, work: Callable[[Any], bool]) -> Deferred[bool]:
        if self.problem is not None:
            return fail(self.problem)
        return succeed(work(SimpleNamespace(crawls=self)))

    def release(self, worker: WorkerName, *, has_died: bool) -> bool:
        (self.released if has_died else self.stopped).append(worker)
        return True


def test_a_process_that_is_gone_is_told_of_once() -> None:
    road = Road()
    road.departures.tell(ONE, has_died=True)
    road.departures.retry()

    assert road.released == [ONE]


def test_it_is_known_how_long_a_telling_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    road = Road()
    answer: Deferred[bool] = Deferred()
    monkeypatch.setattr(road, "ask", lambda _: answer)
    road.departures.tell(ONE, has_died=True)
    assert road.departures.is_telling

    answer.callback(True)  # noqa: FBT003 - a Deferred's value
    assert not road.departures.is_telling


def test_while_redis_is_away_it_is_told_again_after_each_heartbeat() -> None:
    road = Road()
    road.problem = StoreUnreachableError("away")
    for worker in (ONE, OTHER):
        road.departures.tell(worker, has_died=True)
    road.departures.tell(STOPPED, has_died=False)
    road.departures.retry()
    assert (road.released, road.stopped) == ([], [])

    road.problem = None
    road.departures.retry()
    road.departures.retry()
    assert (road.released, road.stopped) == ([ONE, OTHER], [STOPPED])


def test_what_redis_refuses_is_told_once_and_no_more() -> None:
    road = Road()
    road.problem = RefusedError("no")
    road.departures.tell(ONE, has_died=True)
    road.problem = None
    road.departures.retry()

    assert road.released == []


def test_of_too_many_the_oldest_are_left_to_their_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "MAX_UNTOLD", 2)
    road = Road()
    road.problem = StoreUnreachableError("away")
    workers = [WorkerName(f"job-{number}~token") for number in range(4)]
    for worker in workers:
        road.departures.tell(worker, has_died=True)
    road.problem = None
    road.departures.retry()

    assert road.released == workers[2:]
