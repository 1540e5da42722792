"""In which order the entries of a crawl are taken, whatever came between."""

from __future__ import annotations

import random

import pytest
from support.crawl_desk import CrawlDesk, a_plan, a_push, hand_back, texts

from toolkit.model.crawls import QueueOrder, Shelf

ORDERS = list(QueueOrder)


def in_order(bodies: list[str], order: QueueOrder) -> list[str]:
    """Return entries of one priority as they are to be taken."""
    return bodies[::-1] if order == QueueOrder.LIFO else bodies


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_the_greatest_priority_is_first_and_then_who_came_first(crawl: CrawlDesk, at_once: int) -> None:
    priorities = [0, 5, -3, 5, 0, -3, 2**31, -(2**31), 10, 9, 0]
    pushes = [a_push(f"{number}", priority=priority) for number, priority in enumerate(priorities)]
    worker = crawl.worker()
    worker.commit(*pushes[:4])
    worker.commit(*pushes[4:])
    expected = sorted(range(len(priorities)), key=lambda number: -priorities[number])
    assert worker.work_off(at_once=at_once) == [str(number) for number in expected]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("at_once", [1, 7])
def test_entries_of_one_priority_keep_their_order_over_commits(
    crawl: CrawlDesk, order: QueueOrder, at_once: int
) -> None:
    worker = crawl.worker(plan=a_plan(order=order))
    bodies = [f"{number:04}" for number in range(300)]
    for first in range(0, 300, 60):
        worker.push(*bodies[first : first + 60])
    assert worker.work_off(at_once=at_once) == in_order(bodies, order)


@pytest.mark.parametrize("order", [QueueOrder.FIFO, QueueOrder.LIFO])
def test_a_queue_without_priorities_does_not_look_at_them(crawl: CrawlDesk, order: QueueOrder) -> None:
    worker = crawl.worker(plan=a_plan(order=order))
    worker.commit(*(a_push(body, priority=priority) for body, priority in [("a", 1), ("b", 9), ("c", -4)]))
    assert worker.work_off() == in_order(["a", "b", "c"], order)


@pytest.mark.parametrize("order", ORDERS)
def test_the_last_in_is_first_out_only_while_it_waits(crawl: CrawlDesk, order: QueueOrder) -> None:
    worker = crawl.worker(plan=a_plan(order=order))
    worker.push("a", "b", "c")
    first = worker.take_one()
    worker.push("d")
    rest = worker.work_off()
    expected = {QueueOrder.LIFO: ("c", ["d", "b", "a"])}.get(order, ("a", ["b", "c", "d"]))
    assert (texts([first])[0], rest) == expected


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_handed_back_has_its_old_place(crawl: CrawlDesk, order: QueueOrder) -> None:
    worker = crawl.worker(plan=a_plan(order=order))
    worker.push(*"abcdef")
    taken = worker.take(4)
    worker.push("g")
    worker.commit(done=hand_back(taken[2], taken[0]))
    expected = in_order(list("abcdefg"), order)
    gone = {taken[1].body.decode(), taken[3].body.decode()}
    assert worker.work_off(at_once=2) == [body for body in expected if body not in gone]


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_dead_worker_held_has_its_old_place(crawl: CrawlDesk, order: QueueOrder) -> None:
    dead, heir = crawl.workers(2, plan=a_plan(order=order))
    dead.commit(*(a_push(body, priority=1) for body in "abcdef"))
    dead.take(3)
    dead.commit(a_push("g", priority=1))
    crawl.kill(dead)
    assert heir.work_off() == in_order(list("abcdefg"), order)


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_worker_left_has_its_old_place(crawl: CrawlDesk, order: QueueOrder) -> None:
    leaver, heir = crawl.workers(2, plan=a_plan(order=order))
    leaver.push(*"abcdef")
    leaver.take(3)
    leaver.leave()
    assert heir.work_off() == in_order(list("abcdef"), order)


@pytest.mark.parametrize("order", ORDERS)
def test_the_operator_sees_what_is_next(crawl: CrawlDesk, order: QueueOrder) -> None:
    worker = crawl.worker(plan=a_plan(order=order))
    worker.push(*"abcde")
    peeked = crawl.crawls.peek(crawl.plan.crawl, Shelf.PENDING, limit=3)
    assert texts([entry.leased for entry in peeked]) == in_order(list("abcde"), order)[:3]
    assert worker.work_off() == in_order(list("abcde"), order)


def test_equal_requests_are_entries_of_their_own(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push(*["same"] * 10)
    assert crawl.view().pending == 10
    leased = worker.take(20)
    assert texts(leased) == ["same"] * 10
    assert len({entry.entry for entry in leased}) == 10


@pytest.mark.parametrize("order", ORDERS)
def test_an_entry_has_eight_bytes_that_rise_as_entries_come(crawl: CrawlDesk, order: QueueOrder) -> None:
    worker = crawl.worker(plan=a_plan(order=order))
    for number in range(20):
        worker.push(f"{number:02}a", f"{number:02}b")
    taken = sorted(worker.take(100), key=lambda leased: leased.body)
    ids = [leased.entry for leased in taken]
    assert len(ids) == 40
    assert ids == sorted(set(ids))
    assert {len(entry) for entry in ids} == {8}


def test_ids_are_never_reused_not_even_after_redis_came_back_older(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    dump = crawl.dump()
    given: set[bytes] = set()
    for _ in range(4):
        crawl.restore(dump)
        again = crawl.worker("w2")
        again.commit(*(a_push(f"{number}") for number in range(300)))
        ids = [leased.entry for leased in again.take(1000)]
        assert len(ids) >= 150
        assert given.isdisjoint(ids)
        given.update(ids)
    assert worker.number == 1


def test_ids_go_on_after_a_crawl_was_cleared(crawl: CrawlDesk) -> None:
    given: set[bytes] = set()
    for _ in range(3):
        worker = crawl.worker()
        worker.push(*"abc")
        ids = [leased.entry for leased in worker.take(3)]
        assert given.isdisjoint(ids)
        given.update(ids)
        crawl.crawls.clear(crawl.plan.crawl, force=True)


@pytest.mark.parametrize("order", ORDERS)
def test_many_priorities_of_several_workers_are_sorted_as_a_whole(crawl: CrawlDesk, order: QueueOrder) -> None:
    draw = random.Random(7)  # noqa: S311 - only has to be varied
    one, other = (crawl.worker(name, plan=a_plan(order=order)) for name in ("w1", "w2"))
    priorities = [draw.choice([-100, -1, 0, 0, 0, 1, 7, 1000]) for _ in range(400)]
    for number, priority in enumerate(priorities):
        draw.choice([one, other]).commit(a_push(str(number), priority=priority))
    other.leave()
    numbers = [int(body) for body in one.work_off(at_once=50)]
    by_order = {
        QueueOrder.PRIORITY: sorted(range(400), key=lambda number: -priorities[number]),
        QueueOrder.FIFO: list(range(400)),
        QueueOrder.LIFO: list(range(400))[::-1],
    }
    assert numbers == by_order[order]
