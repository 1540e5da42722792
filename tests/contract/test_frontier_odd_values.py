"""Whatever a spider pushes, yields or is called, one entry's odd values never harm the others."""

from __future__ import annotations

import random

import pytest
from support.crawl_desk import CrawlDesk, a_plan, a_push, acknowledge

from toolkit.model.crawls import Disposition, Done, Filter, ItemsKind, QueueOrder, Shelf
from toolkit.model.names import CrawlId

BOOKS = CrawlId("books")
ODD_BODIES = [b"", b"\x00", b" ", b"0", b"-1", b"\r\n$3\r\n", bytes(range(256)) * 3, "ü 名前 🕷".encode(), b"\xff" * 9]


@pytest.mark.parametrize("order", list(QueueOrder))
@pytest.mark.parametrize("body", ODD_BODIES, ids=range(len(ODD_BODIES)))
def test_any_bytes_come_back_as_they_were(crawl: CrawlDesk, body: bytes, order: QueueOrder) -> None:
    crawl.plan = a_plan(order=order)
    worker = crawl.worker()
    worker.commit(a_push(body, filter=Filter.SEEN), loose_items=[body])
    leased = worker.take_one()
    assert leased.body == body
    heir = crawl.worker("heir")
    crawl.kill(worker)
    (peeked,) = crawl.crawls.peek(BOOKS, Shelf.PENDING, limit=5)
    assert peeked.leased.body == body
    again = heir.take_one()
    assert (again.body, again.entry, again.deaths) == (body, leased.entry, 1)
    heir.finish(again, items=[body])
    assert crawl.items() == [body, body]
    assert heir.commit().is_over


def test_a_huge_body_goes_its_way(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    body = random.Random(1).randbytes(5_000_000)  # noqa: S311 - only has to be odd
    worker.commit(a_push(body), a_push("small"))
    taken = worker.take(2)
    assert [leased.body for leased in taken] == [body, b"small"]
    worker.commit(done=[*acknowledge(taken[0], items=[body]), *acknowledge(taken[1])])
    assert crawl.items() == [body]


@pytest.mark.parametrize("filter_", list(Filter))
def test_thousands_of_pushes_go_into_one_commit(crawl: CrawlDesk, filter_: Filter) -> None:
    worker = crawl.worker()
    answer = worker.commit(*(a_push(f"{number:05}", filter=filter_) for number in range(12_000)))
    assert (answer.pending, answer.duplicates) == (12_000, ())
    assert worker.take(1)[0].body == b"00000"
    leased = worker.take(11_999)
    assert [int(each.body) for each in leased] == list(range(1, 12_000))
    assert worker.finish_all().is_over
    assert crawl.view().pages == 12_000


def test_a_worker_with_thousands_in_hand_may_die(crawl: CrawlDesk) -> None:
    dead, heir = crawl.workers(2)
    heir.commit(*(a_push(f"{number:05}") for number in range(12_000)))
    while len(dead.in_hand) < 5_000:
        dead.take(6_000)
    crawl.kill(dead)
    assert crawl.view().pending == 12_000
    assert crawl.view().in_flight == 0


@pytest.mark.parametrize(
    "priorities",
    [
        [2**53, 0, -(2**53)],
        [10**30, 10**18, -(10**18), -(10**30)],
        [10**400, 1, 0, -1, -(10**400)],
        [1_000_000_007, 1_000_000_006, 1_000_000_005],
        [2**40 + 1, 2**40, -(2**40), -(2**40) - 1],
    ],
)
def test_priorities_of_any_size_are_in_order(crawl: CrawlDesk, priorities: list[int]) -> None:
    worker = crawl.worker()
    worker.commit(*(a_push(str(index), priority=priority) for index, priority in reversed([*enumerate(priorities)])))
    taken = worker.take(10)
    assert [int(leased.body) for leased in taken] == list(range(len(priorities)))
    heir = crawl.worker("heir")
    worker.leave()
    assert heir.work_off() == [str(index) for index in range(len(priorities))]


def test_the_same_priority_keeps_its_order_however_great(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(*(a_push(f"{number}", priority=10**17) for number in range(10)))
    assert worker.work_off() == [str(number) for number in range(10)]


@pytest.mark.parametrize("why", ["", "ü 🕷", "x" * 100_000, "a\0b\r\n\x1b[0m", "half \ud83d and \udcff"])
def test_any_reason_is_kept(crawl: CrawlDesk, why: str) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    worker.commit(done=[Done(worker.take_one().entry, Disposition.DEAD, why=why)])
    (dead,) = crawl.crawls.peek(BOOKS, Shelf.DEAD, limit=5)
    expected = why.encode(errors="replace").decode()
    assert dead.why == expected or (len(expected) > 1000 and expected.startswith(dead.why[:900]))
    assert worker.work_off() == ["b"]


@pytest.mark.parametrize("kind", list(ItemsKind))
def test_items_of_any_bytes_are_delivered(crawl: CrawlDesk, kind: ItemsKind) -> None:
    crawl.plan = a_plan(items=kind)
    worker = crawl.worker()
    worker.push("a")
    items = (*ODD_BODIES, b"x" * 1_000_000)
    worker.finish(worker.take_one(), items=items)
    if kind == ItemsKind.LIST:
        assert crawl.redis.lrange("books:items", 0, -1) == [*items]
    else:
        assert crawl.items() == [*items]


@pytest.mark.parametrize(
    "name",
    ["w", "node-1.example:6800/0a1b", "ü 🕷", "a b\nc", "x" * 500, "*", "{tag}", "w1:inflight", "0", "-1", '"', "%s"],
)
def test_a_worker_of_any_name_works_and_dies(crawl: CrawlDesk, name: str) -> None:
    worker, heir = crawl.worker(name), crawl.worker("heir")
    worker.push("a", "b", "c")
    leased = worker.take_one()
    assert {each.name for each in crawl.view().workers} == {name, "heir"}
    worker.finish(leased)
    worker.take_one()
    assert crawl.crawls.release(worker.name, has_died=True)
    assert heir.work_off() == ["b", "c"]


def test_no_bytes_of_an_entry_pass_for_another(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    leased = worker.take_one()
    tricky = [leased.entry, leased.entry + b"a", leased.entry + leased.score.encode(), b"0 " + leased.entry, b"S a"]
    worker.commit(*(a_push(bytes(body)) for body in tricky))
    taken = worker.take(10)
    assert [each.body for each in taken] == [bytes(body) for body in tricky]
    assert not any(each.is_seed for each in taken)
    crawl.kill(worker)
    heir = crawl.worker("heir")
    assert sorted(each.body for each in heir.take(10)) == sorted([b"a", *tricky])


@pytest.mark.parametrize("ttl_s", [0.0, -5.0, 0.0004, 1e9])
def test_leases_of_odd_lengths_are_leases(crawl: CrawlDesk, ttl_s: float) -> None:
    worker, heir = crawl.worker(ttl_s=ttl_s), crawl.worker("heir")
    heir.push("a")
    assert heir.work_off(at_once=3) == ["a"]
    assert worker.ttl_s == ttl_s
