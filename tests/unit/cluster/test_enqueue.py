"""What an order means in the shared queue."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from support.registry import names
from support.stores import BEGIN, SHOP, V1

from toolkit.cluster.enqueue import Sender, enqueue, jobs_of
from toolkit.model.errors import RefusedError, UsageError
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, SpiderName
from toolkit.model.orders import Order
from toolkit.model.queue import line_name, place_of
from toolkit.store.open import open_store

BOOKS = SpiderName("books")
ANN = Sender(BEGIN, "ann@desk")


def test_a_job_says_who_wants_what_of_which_version_and_stands_in_its_line() -> None:
    order = Order(SHOP, BOOKS, V1, args={"n": "1"}, priority=3, job_id=JobId("j1"), timeout_s=60, retries_failed=True)
    (job,) = jobs_of([order], ANN)
    assert (job.id, job.version, job.state, job.priority) == ("j1", V1, JobState.PENDING, 3)
    assert (job.scheduled_by, job.scheduled_at, job.timeout_s, job.retries_failed) == ("ann@desk", BEGIN, 60, True)
    assert job.line == line_name(SHOP, V1, BOOKS, None)
    assert job.is_queued
    assert (job.node, job.on, job.attempts) == (None, None, 2)


def test_workers_are_as_many_jobs_with_ids_of_their_own() -> None:
    jobs = jobs_of([Order(SHOP, BOOKS, V1, count=3)], ANN)
    assert len({job.id for job in jobs}) == 3


def test_the_same_nodes_in_any_order_are_one_line() -> None:
    order = Order(SHOP, BOOKS, V1)
    one, other = (jobs_of([order], Sender(BEGIN, "ann", tuple(on)))[0] for on in (names("a", "b"), names("b", "a")))
    assert one.line == other.line == line_name(SHOP, V1, BOOKS, place_of(names("a", "b")))
    assert one.line != jobs_of([order], ANN)[0].line


def test_a_delay_counts_from_now_and_a_moment_wins() -> None:
    later = BEGIN + timedelta(hours=1)
    delayed, fixed = jobs_of(
        [Order(SHOP, BOOKS, V1, delay_s=90), Order(SHOP, BOOKS, V1, delay_s=90, due_at=later)], ANN
    )
    assert delayed.due_at == BEGIN + timedelta(seconds=90)
    assert fixed.due_at == later


@pytest.mark.parametrize(
    "wrong",
    [
        Order(SHOP, BOOKS, V1, priority=1001),
        Order(SHOP, BOOKS, V1, priority=-1001),
        Order(SHOP, BOOKS, V1, attempts=0),
        Order(SHOP, BOOKS, V1, timeout_s=0),
        Order(SHOP, BOOKS, V1, delay_s=-1),
        Order(SHOP, BOOKS, V1, args={"project": "x"}),
        Order(SHOP, BOOKS, V1, count=2, job_id=JobId("j1")),
    ],
)
def test_what_the_queue_could_not_keep_is_refused_before_anything_is_there(wrong: Order) -> None:
    with pytest.raises(UsageError):
        jobs_of([Order(SHOP, BOOKS, V1), wrong], ANN)


def test_there_is_no_queue_without_a_redis(tmp_path: Path) -> None:
    store = open_store(None, tmp_path)
    with pytest.raises(RefusedError, match="no shared queue without a Redis"):
        enqueue(store, [Order(SHOP, BOOKS, V1)], now=BEGIN, who="ann")
    store.close()
