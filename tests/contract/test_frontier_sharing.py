"""No worker hoards what another could do."""

from __future__ import annotations

import math

import pytest
from support.crawl_desk import SOON_S, CrawlDesk, Worker
from support.waiting import wait_until

from toolkit.model.crawls import QueueOrder


def fill(worker: Worker, number: int) -> None:
    """Push so many entries."""
    worker.push(*(f"{each:03}" for each in range(number)))


@pytest.mark.parametrize(("pending", "workers"), [(10, 2), (10, 3), (1, 5), (2, 2), (100, 7)])
def test_nobody_is_leased_more_than_a_fair_share(crawl: CrawlDesk, pending: int, workers: int) -> None:
    first, *_ = crawl.workers(workers)
    fill(first, pending)
    leased = first.take(1000)
    assert 1 <= len(leased) <= math.ceil(pending / workers)


def test_a_worker_alone_has_all(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    fill(worker, 300)
    assert len(worker.take(1000)) == 300


def test_nobody_gets_more_than_wanted(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    fill(worker, 20)
    assert worker.take(0) == []
    assert len(worker.take(7)) == 7
    assert worker.take(-3) == []


def test_a_worker_whose_siblings_sleep_gets_to_the_end(crawl: CrawlDesk) -> None:
    worker, *_ = crawl.workers(4)
    fill(worker, 50)
    assert worker.work_off(at_once=100) == [f"{number:03}" for number in range(50)]


def test_all_get_something(crawl: CrawlDesk) -> None:
    workers = crawl.workers(5)
    fill(workers[0], 100)
    shares = [len(worker.take(100)) for worker in workers]
    assert min(shares) >= 5
    assert max(shares) <= 20


def test_the_dead_and_those_who_left_have_no_share(crawl: CrawlDesk) -> None:
    one, other, third = crawl.workers(3)
    other.leave()
    crawl.kill(third)
    fill(one, 9)
    answer = one.commit(want=9)
    assert len(answer.leased) == 9
    assert answer.workers == 1


def test_each_answer_says_how_many_work_and_what_waits(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    fill(one, 5)
    answer = other.commit(want=2)
    assert (answer.workers, answer.pending) == (2, 5 - len(answer.leased))


def test_siblings_that_wait_are_known(crawl: CrawlDesk) -> None:
    busy, hungry = crawl.workers(2)
    assert not busy.commit().is_hungry

    def is_known() -> bool:
        # Its hunger is forgotten when it asks no more for a second.
        assert hungry.take(8) == []
        return busy.commit(has_more=True).is_hungry

    wait_until(is_known, deadline_s=SOON_S, what="the hungry one to be known")
    fill(busy, 40)
    assert hungry.take(1) != []
    assert not busy.commit().is_hungry


def test_a_worker_alone_has_no_hungry_siblings(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.take(5)
    assert not worker.commit(want=5).is_hungry


@pytest.mark.parametrize("how", ["killed", "left"])
def test_nobody_is_hungry_for_long_who_is_gone(crawl: CrawlDesk, how: str) -> None:
    busy, hungry = crawl.workers(2)
    assert hungry.take(8) == []
    if how == "killed":
        crawl.kill(hungry)
    else:
        hungry.leave()
    wait_until(lambda: not busy.commit().is_hungry, deadline_s=SOON_S, what="the hungry one to be forgotten")


@pytest.mark.parametrize("order", list(QueueOrder))
def test_workers_in_turn_do_each_entry_once(crawl: CrawlDesk, order: QueueOrder) -> None:
    workers = crawl.workers(4)
    done: list[bytes] = []
    for turn in range(400):
        worker = workers[turn % 4]
        if turn < 100:
            worker.push(f"{turn}a {order}", f"{turn}b {order}")
        done += [leased.body for leased in worker.take(3)]
        worker.finish_all()
    assert len(done) == len(set(done)) == 200
    assert all(worker.commit().is_over for worker in workers)
