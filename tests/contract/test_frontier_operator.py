"""What operators see of a crawl, and bring into it or out of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.crawl_desk import SOON_S, CrawlDesk, a_plan, a_push, texts
from support.waiting import wait_until

from toolkit.model.crawls import MAX_PUSHES, Disposition, Done, Filter, ItemsKind, QueueOrder, SeedsKind, Shelf
from toolkit.model.errors import NotFoundError
from toolkit.model.names import CrawlId

BOOKS, NOBODYS = CrawlId("books"), CrawlId("nobodys")


def on_every_shelf(crawl: CrawlDesk) -> dict[Shelf, str]:
    """Put one entry on each shelf; return their bodies."""
    worker = crawl.worker("w1")
    worker.push("dead", "blocked", "in flight")
    taken = {leased.body: leased for leased in worker.take(3)}
    worker.push("suspect")
    for number in range(2):
        victim = crawl.worker(f"victim-{number}")
        victim.take_one()
        crawl.kill(victim)
    # A suspect comes to free hands only: these are full when it becomes one.
    dead, blocked = taken[b"dead"].entry, taken[b"blocked"].entry
    worker.commit(
        a_push("pending"),
        done=[Done(dead, Disposition.DEAD, why="because"), Done(blocked, Disposition.BLOCKED)],
    )
    return {shelf: shelf.value.replace("-", " ") for shelf in Shelf}


def test_each_shelf_shows_its_entries(crawl: CrawlDesk) -> None:
    bodies = on_every_shelf(crawl)
    before = crawl.dump()
    for shelf, body in bodies.items():
        entries = crawl.crawls.peek(BOOKS, shelf, limit=10)
        assert [entry.leased.body.decode() for entry in entries if entry.shelf == shelf] == [body]
        (entry,) = entries
        assert abs(entry.came_at - crawl.view().now) < timedelta(minutes=1)
        assert entry.worker == ("w1" if shelf == Shelf.IN_FLIGHT else None)
        assert (entry.taken_at is not None) == (shelf == Shelf.IN_FLIGHT)
        assert entry.why == ("because" if shelf == Shelf.DEAD else entry.why)
        assert len(entry.leased.entry) == 8
    assert crawl.dump() == before


def test_a_worker_shows_the_entry_that_it_has_had_in_hand_for_longest(crawl: CrawlDesk) -> None:
    worker = crawl.worker("w1")
    assert [each.oldest for each in crawl.view().workers] == [None]
    worker.push("slow", "quick")
    slow = worker.take_one()
    begin = crawl.view().now
    wait_until(lambda: crawl.view().now - begin > timedelta(milliseconds=50), deadline_s=SOON_S, what="some time")
    worker.take_one()
    view = crawl.view()
    seen = view.held_for(0.05)
    assert seen is not None
    assert seen == view.workers[0].oldest
    assert (seen.leased.entry, seen.worker) == (slow.entry, worker.name)
    assert seen.taken_at is not None
    assert seen.taken_at <= begin
    assert view.held_for(60) is None
    worker.finish(slow)
    quick = crawl.view().workers[0].oldest
    assert quick is not None
    assert quick.leased.body == b"quick"
    crawl.lapse(worker)
    assert crawl.view().held_for(0) is None


def test_many_crawls_are_read_together_as_each_is_alone(crawl: CrawlDesk) -> None:
    on_every_shelf(crawl)
    fifo = a_plan("fifo", order=QueueOrder.FIFO, seeds=SeedsKind.ZSET, items=ItemsKind.LIST)
    crawl.worker("w1", plan=fifo).push("https://a.example/", "https://b.example/")
    for number in range(60):
        crawl.worker("w1", plan=a_plan(f"many-{number:02}")).push("one")
    assert [view.plan for view in crawl.crawls.views()] == list(crawl.crawls.all())
    for together in crawl.crawls.views():
        alone = crawl.crawls.view(together.plan.crawl)
        assert alone is not None
        assert replace(together, now=alone.now, workers=(), pages_per_minute=None, items_per_minute=None) == replace(
            alone, workers=(), pages_per_minute=None, items_per_minute=None
        )
        assert [worker.name for worker in together.workers] == [worker.name for worker in alone.workers]


def test_of_many_crawls_fewer_entries_are_looked_at_and_all_are_counted(crawl: CrawlDesk) -> None:
    crawl.worker("w1").push(*(f"https://a.example/{number}" for number in range(600)))
    assert crawl.view().domains == {"a.example": 600}
    for number in range(40):
        crawl.worker("w1", plan=a_plan(f"more-{number}"))
    (books,) = (view for view in crawl.crawls.views() if view.plan.crawl == BOOKS)
    assert books.pending == 600
    assert 100 < books.domains["a.example"] < 600


def test_all_entries_are_told_once_each(crawl: CrawlDesk) -> None:
    bodies = on_every_shelf(crawl)
    worker = crawl.worker("w9")
    worker.push(*(f"more {number}" for number in range(2_500)))
    entries = list(crawl.crawls.entries(BOOKS))
    assert sorted(texts([entry.leased for entry in entries])) == sorted(
        [*bodies.values(), *(f"more {number}" for number in range(2_500))]
    )
    assert {entry.shelf for entry in entries} == set(Shelf)
    assert len({entry.leased.entry for entry in entries}) == len(entries)


def test_a_view_counts_all(crawl: CrawlDesk) -> None:
    on_every_shelf(crawl)
    crawl.seed("a", "b")
    worker = crawl.stranger("w7")
    worker.join()
    worker.commit(a_push("x", filter=Filter.SEEN), a_push("x", filter=Filter.SEEN), loose_items=[b"1", b"2"])
    view = crawl.view()
    assert view.plan == crawl.plan
    counts = (view.pending, view.in_flight, view.suspects, view.dead, view.blocked, view.seeds)
    assert counts == (3, 1, 1, 1, 1, 2)
    assert (view.seen, view.items, view.items_waiting, view.duplicates) == (1, 2, 2, 1)
    assert view.created_at is not None
    assert view.created_at <= view.now
    assert view.oldest_at is None or view.oldest_at <= view.now
    assert not view.is_over
    assert view.needs_migration is None


def test_peeking_has_a_limit(crawl: CrawlDesk) -> None:
    crawl.worker().push(*(f"{number:02}" for number in range(30)))
    assert len(crawl.crawls.peek(BOOKS, Shelf.PENDING, limit=7)) == 7
    assert len(crawl.crawls.peek(BOOKS, Shelf.PENDING, limit=1000)) == 30
    assert len(crawl.crawls.peek(BOOKS, Shelf.PENDING, limit=0)) == 0
    with pytest.raises(NotFoundError, match="nobodys"):
        crawl.crawls.peek(NOBODYS, Shelf.PENDING, limit=7)


def test_requests_of_scrapy_redis_are_seen_to_need_migration(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.leave()
    crawl.redis.delete("books:requests")
    crawl.redis.zadd("books:requests", {b"\x80\x04\x95pickled": -1.0})
    view = crawl.view()
    assert view.needs_migration
    assert "books:requests" in view.needs_migration


@pytest.mark.parametrize("order", list(QueueOrder))
def test_entries_from_outside_are_as_those_of_workers(crawl: CrawlDesk, order: QueueOrder) -> None:
    plan = a_plan(order=order)
    pushes = [a_push(f"{number:04}", filter=Filter.SEEN) for number in range(MAX_PUSHES * 2 + 7)]
    assert crawl.crawls.pushes(plan, [*pushes, pushes[0], pushes[9]]) == len(pushes)
    assert list(crawl.crawls.all()) == [plan]
    assert crawl.view().pending == len(pushes)
    worker = crawl.stranger(plan=plan)
    joined = worker.join()
    assert joined.pending == len(pushes)
    worker.commit()
    numbers = [int(body) for body in worker.work_off(at_once=100)]
    assert numbers == sorted(numbers, reverse=order == QueueOrder.LIFO)
    assert len(numbers) == len(pushes)
    assert worker.commit(pushes[3]).duplicates == (0,)


def test_entries_come_from_outside_while_workers_work(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    assert worker.commit().is_over
    assert crawl.crawls.pushes(crawl.plan, [a_push("a"), a_push("b", priority=4)]) == 2
    assert not worker.commit().is_over
    assert worker.work_off() == ["b", "a"]


def test_a_drain_remembers_how_far_it_is(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(loose_items=[b"%d" % number for number in range(10)])
    assert crawl.crawls.drained(BOOKS, "shop.csv") == ""
    first = crawl.crawls.items(BOOKS, after="", limit=4)
    assert [body for _, _, body in first] == [b"0", b"1", b"2", b"3"]
    crawl.crawls.drop_items(BOOKS, "shop.csv", through=first[-1][0])
    assert crawl.crawls.drained(BOOKS, "shop.csv") == first[-1][0]
    assert crawl.crawls.drained(BOOKS, "other.csv") == ""
    rest = crawl.crawls.items(BOOKS, after=first[-1][0], limit=100)
    assert [body for _, _, body in rest] == [b"%d" % number for number in range(4, 10)]
    assert crawl.view().items_waiting == 6
    assert crawl.view().items == 10


def test_a_drain_may_keep_what_it_has_read(crawl: CrawlDesk) -> None:
    crawl.worker().commit(loose_items=[b"1", b"2", b"3"])
    first = crawl.crawls.items(BOOKS, after="", limit=2)
    crawl.crawls.drop_items(BOOKS, "one", through=first[1][0], keep=True)
    assert crawl.crawls.drained(BOOKS, "one") == first[1][0]
    assert crawl.items() == [b"1", b"2", b"3"]
    assert [body for *_, body in crawl.crawls.items(BOOKS, after=first[1][0], limit=9)] == [b"3"]


def test_dropping_all_items_takes_none_that_come_later(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(loose_items=[b"1"])
    ((last, _, _),) = crawl.crawls.items(BOOKS, after="", limit=9)
    worker.commit(loose_items=[b"2"])
    crawl.crawls.drop_items(BOOKS, "one", through=last)
    assert crawl.items() == [b"2"]
    ((last, _, _),) = crawl.crawls.items(BOOKS, after="", limit=9)
    crawl.crawls.drop_items(BOOKS, "one", through=last)
    worker.commit(loose_items=[b"3"])
    assert [body for *_, body in crawl.crawls.items(BOOKS, after=last, limit=9)] == [b"3"]


def test_items_of_a_crawl_that_was_cleared_can_still_be_drained(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(loose_items=[b"1", b"2"])
    assert worker.leave(is_finished=True)
    found = crawl.crawls.items(BOOKS, after="", limit=9)
    assert [body for *_, body in found] == [b"1", b"2"]
    crawl.crawls.drop_items(BOOKS, "one", through=found[0][0])
    assert crawl.items() == [b"2"]


def test_there_are_no_items_of_a_crawl_that_nobody_knows(crawl: CrawlDesk) -> None:
    assert list(crawl.crawls.items(NOBODYS, after="", limit=9)) == []
    assert crawl.crawls.drained(NOBODYS, "one") == ""


@pytest.mark.parametrize("kind", list(SeedsKind))
def test_seeds_of_each_kind_are_counted(crawl: CrawlDesk, kind: SeedsKind) -> None:
    crawl.worker(plan=a_plan(seeds=kind))
    crawl.crawls.seed(BOOKS, [b"a", b"b", b"c"])
    assert crawl.view().seeds == 3


def test_items_of_a_list_are_counted(crawl: CrawlDesk) -> None:
    worker = crawl.worker(plan=a_plan(items=ItemsKind.LIST))
    worker.commit(loose_items=[b"1", b"2"])
    assert (crawl.view().items, crawl.view().items_waiting) == (2, 2)


def test_speed_is_told_while_a_crawl_runs(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push(*(f"{number}" for number in range(50)))
    worker.finish(*worker.take(50), items=[b"x"])
    view = crawl.view()
    assert view.pages == 50
    assert view.pages_per_minute is None or view.pages_per_minute >= 0
    assert [(each.name, each.pages) for each in view.workers] == [("w1", 50)]


@pytest.mark.parametrize("order", list(QueueOrder))
def test_entries_go_back_to_the_shelves_that_they_were_on(crawl: CrawlDesk, order: QueueOrder) -> None:
    crawl.plan = a_plan(order=order)
    on_every_shelf(crawl)
    worker = crawl.worker("w9")
    worker.commit(*(a_push(f"{number:04}", priority=number % 3) for number in range(1200)))
    crawl.crawls.seed(BOOKS, [b"seed"])
    entries = list(crawl.crawls.entries(BOOKS))
    pending = [entry for entry in entries if entry.shelf == Shelf.PENDING]
    crawl.crawls.clear(BOOKS, force=True)

    assert crawl.crawls.restore(crawl.plan, entries) == len(entries)
    again = list(crawl.crawls.entries(BOOKS))
    shelf_of = {entry.leased: Shelf.PENDING if entry.shelf == Shelf.IN_FLIGHT else entry.shelf for entry in entries}
    assert {entry.leased: entry.shelf for entry in again} == shelf_of
    assert {entry.why for entry in again} == {entry.why for entry in entries}
    view = crawl.view()
    assert (view.pending, view.suspects, view.dead, view.blocked) == (1203, 1, 1, 1)
    bodies = [body for body in crawl.worker("w10").work_off(at_once=100) if body not in {"in flight", "suspect"}]
    assert bodies == texts([entry.leased for entry in pending])


def test_ids_given_out_after_a_restore_are_new(crawl: CrawlDesk) -> None:
    worker = crawl.worker("w1")
    worker.push(*(f"{number}" for number in range(100)))
    entries = list(crawl.crawls.entries(BOOKS))
    crawl.crawls.clear(BOOKS, force=True)
    crawl.crawls.restore(crawl.plan, entries)
    heir = crawl.worker("w2")
    heir.push(*(f"{number}" for number in range(100)))
    taken = heir.take(500)
    assert len({leased.entry for leased in taken}) == 200


@pytest.mark.parametrize("kind", list(SeedsKind))
def test_the_seeds_that_wait_are_told(crawl: CrawlDesk, kind: SeedsKind) -> None:
    crawl.worker(plan=a_plan(seeds=kind))
    crawl.crawls.seed(BOOKS, (b"%04d" % number for number in range(1300)))
    told = list(crawl.crawls.seeds(BOOKS))
    assert sorted(seed for seed, _ in told) == [b"%04d" % number for number in range(1300)]
    assert {score for _, score in told} == {0.0}
    assert crawl.view().seeds == 1300
