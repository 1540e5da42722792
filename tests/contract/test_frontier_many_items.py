"""A page with very many items: they go ahead of its end in parts, and are delivered once each, or not at all."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest
from support.crawl_desk import CrawlDesk, Worker, a_plan

from toolkit.model.crawls import Ahead, Done, ItemsKind, Leased

PART = 500


def bodies(count: int, first: int = 0) -> tuple[bytes, ...]:
    return tuple(b"%d" % number for number in range(first, first + count))


def go_ahead(worker: Worker, leased: Leased, *, parts: int, first: int = 0) -> int:
    """Send so many parts of a page's items ahead; return how many items that were."""
    for part in range(parts):
        worker.send(worker.draft(ahead=[Ahead(leased.entry, bodies(PART, first + part * PART))]))
    return parts * PART


def acknowledge_many(worker: Worker) -> int:
    """Do a page with more items than are delivered at once; return how many."""
    worker.push("dump")
    page = worker.take_one()
    ahead = go_ahead(worker, page, parts=6)
    worker.commit(done=[Done(page.entry, ahead=ahead)])
    return ahead


def work_until_over(worker: Worker) -> int:
    """Commit until the crawl is over; return how often."""
    for turn in range(1000):
        if worker.commit().is_over:
            return turn
    raise AssertionError("it is not over")


@pytest.fixture(params=[ItemsKind.STREAM, ItemsKind.LIST])
def crawl(request: pytest.FixtureRequest, crawl: CrawlDesk) -> CrawlDesk:
    crawl.plan = a_plan(items=request.param)
    return crawl


def delivered(crawl: CrawlDesk) -> list[bytes]:
    key = crawl.plan.keys.items
    if crawl.plan.items is ItemsKind.LIST:
        return cast("list[bytes]", crawl.redis.lrange(key, 0, -1))
    return crawl.items()


def test_they_are_delivered_in_their_order_once_the_page_is_acknowledged(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("dump")
    leased = worker.take_one()
    ahead = go_ahead(worker, leased, parts=7)
    assert delivered(crawl) == []

    worker.commit(done=[Done(leased.entry, items=bodies(3, ahead), ahead=ahead)])
    assert not worker.commit().is_over
    work_until_over(worker)
    assert delivered(crawl) == list(bodies(ahead + 3))
    assert crawl.view().items == ahead + 3
    if crawl.plan.items is ItemsKind.STREAM:
        keys = [key for key, _ in crawl.item_records()]
        assert len(set(keys)) == ahead + 3


def test_no_commit_delivers_more_than_redis_does_in_a_few_milliseconds(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("dump")
    leased = worker.take_one()
    ahead = go_ahead(worker, leased, parts=10)
    before = 0
    answer = worker.commit(done=[Done(leased.entry, ahead=ahead)])
    while not answer.is_over:
        now = len(delivered(crawl))
        assert now - before <= 1000
        before = now
        # There is more to deliver: it asks again at once.
        assert answer.again_s in {0.0, None}
        answer = worker.commit()


def test_those_of_a_page_that_is_done_again_are_not_delivered_twice(crawl: CrawlDesk) -> None:
    dead, heir = crawl.workers(2)
    dead.push("dump")
    go_ahead(dead, dead.take_one(), parts=3)
    crawl.kill(dead)
    assert crawl.redis.keys("*staged*") == []

    leased = heir.take_one()
    ahead = go_ahead(heir, leased, parts=3)
    heir.commit(done=[Done(leased.entry, items=(b"last",), ahead=ahead)])
    work_until_over(heir)
    assert Counter(delivered(crawl)) == Counter([*bodies(ahead), b"last"])


def test_a_page_of_which_redis_has_forgotten_some_is_done_again(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("dump")
    leased = worker.take_one()
    ahead = go_ahead(worker, leased, parts=2)
    crawl.redis.hincrby(f"{crawl.plan.keys.requests}:staging", leased.entry, -PART)

    assert worker.commit(done=[Done(leased.entry, ahead=ahead)]).refused == 1
    assert crawl.view().pending == 1
    assert delivered(crawl) == []
    assert crawl.redis.keys("*staged*") == []


def test_parts_of_a_page_that_is_not_in_hand_are_not_kept(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    one.push("dump")
    leased = one.take_one()
    go_ahead(other, leased, parts=1)
    assert crawl.redis.keys("*stag*") == []


def test_what_is_left_to_deliver_when_all_workers_have_gone_comes_with_a_drain(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("dump")
    leased = worker.take_one()
    ahead = go_ahead(worker, leased, parts=6)
    worker.commit(done=[Done(leased.entry, ahead=ahead)])
    assert not worker.leave(is_finished=True)

    crawl.crawls.deliver(crawl.plan.crawl)
    assert delivered(crawl) == list(bodies(ahead))
    crawl.crawls.deliver(crawl.plan.crawl)
    assert len(delivered(crawl)) == ahead


@pytest.mark.parametrize("keep_items", [False, True])
def test_a_crawl_that_is_cleared_leaves_none_behind(crawl: CrawlDesk, *, keep_items: bool) -> None:
    worker = crawl.worker()
    worker.push("dump", "open")
    dump, still_open = worker.take(2)
    ahead = go_ahead(worker, dump, parts=6)
    go_ahead(worker, still_open, parts=1)
    worker.commit(done=[Done(dump.entry, ahead=ahead)])
    crawl.crawls.clear(crawl.plan.crawl, force=True, keep_items=keep_items)

    assert crawl.redis.keys("*stag*") == crawl.redis.keys("*outgoing*") == []
    assert len(delivered(crawl)) == (ahead if keep_items else 0)


def test_what_is_acknowledged_is_delivered_though_the_crawl_is_begun_anew(crawl: CrawlDesk) -> None:
    ahead = acknowledge_many(worker := crawl.worker("w1"))
    worker.leave()
    crawl.stranger("w2").join(flush=True)
    crawl.crawls.deliver(crawl.plan.crawl)
    assert len(delivered(crawl)) == ahead


def test_a_worker_without_items_delivers_what_others_have_acknowledged(crawl: CrawlDesk) -> None:
    ahead = acknowledge_many(worker := crawl.worker("w1"))
    worker.leave()
    other = crawl.stranger("w2", plan=a_plan(items=ItemsKind.NONE))
    other.join()
    work_until_over(other)
    assert len(delivered(crawl)) == ahead


def test_nothing_that_waits_is_lost_where_the_items_key_is_of_another_type(crawl: CrawlDesk) -> None:
    ahead = acknowledge_many(crawl.worker("w1"))
    there = len(delivered(crawl))
    crawl.redis.rename("books:items", "aside")
    crawl.redis.set("books:items", "foreign")
    crawl.crawls.deliver(crawl.plan.crawl)
    crawl.redis.rename("aside", "books:items")
    crawl.crawls.deliver(crawl.plan.crawl)
    assert there < len(delivered(crawl)) == ahead
