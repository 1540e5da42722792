"""How an entry leaves its worker's hands, and that the items of its page are delivered once."""

from __future__ import annotations

import pytest
from support.crawl_desk import CrawlDesk, a_plan, a_push, acknowledge, hand_back, texts

from toolkit.model.crawls import Disposition, Done, EntryId, Filter, ItemsKind, Shelf, Verdict
from toolkit.model.names import CrawlId

NOBODYS = EntryId(b"\x00\x01\x02\x03\x04\x05\x06\x07")


def test_an_acknowledged_entry_is_gone_for_good(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    answer = worker.finish(worker.take_one())
    assert (answer.verdict, answer.refused, answer.pending) == (Verdict.DONE, 0, 1)
    view = crawl.view()
    assert (view.pending, view.in_flight, view.pages) == (1, 0, 1)
    assert worker.work_off() == ["b"]


def test_what_is_in_flight_is_seen_under_its_worker(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b", "c")
    taken = worker.take(2)
    view = crawl.view()
    assert (view.pending, view.in_flight) == (1, 2)
    assert [(each.name, each.in_flight, each.pages) for each in view.workers] == [(worker.name, 2, 0)]
    assert set(worker.frontier.held(worker.name, worker.token)) == {leased.entry for leased in taken}


def test_a_commit_does_all_at_once(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("parent")
    parent = worker.take_one()
    answer = worker.commit(
        a_push("child", filter=Filter.SEEN), done=acknowledge(parent, items=[b"item"]), want=5, loose_items=[b"loose"]
    )
    assert texts(answer.leased) == ["child"]
    assert sorted(crawl.items()) == [b"item", b"loose"]
    assert answer.pending == 0
    assert not answer.is_over


def test_items_come_with_their_page_in_their_order(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    one, other = worker.take(2)
    worker.commit(done=[Done(one.entry, items=(b"1", b"2")), Done(other.entry, items=(b"3",))])
    assert crawl.items() == [b"1", b"2", b"3"]
    assert crawl.view().items == 3
    assert crawl.view().items_waiting == 3


def test_each_item_has_a_key_that_no_other_has(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push(*"abc")
    for leased in worker.take(3):
        worker.finish(leased, items=[b"same", b"same"])
        worker.commit(loose_items=[b"same", b"same"])
    other = crawl.worker("w2")
    other.commit(loose_items=[b"same"])
    other.leave()
    again = crawl.worker("w2")
    again.commit(loose_items=[b"same"])
    keys = [key for key, _ in crawl.item_records()]
    assert len(keys) == len(set(keys)) == 14


def test_items_go_to_a_list_as_scrapy_redis_has_it(crawl: CrawlDesk) -> None:
    worker = crawl.worker(plan=a_plan(items=ItemsKind.LIST))
    worker.push("a")
    worker.finish(worker.take_one(), items=[b"1", b"2"])
    worker.commit(loose_items=[b"3"])
    assert crawl.redis.lrange("books:items", 0, -1) == [b"1", b"2", b"3"]
    assert crawl.view().items_waiting == 3


def test_one_entry_acknowledged_twice_counts_once(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    leased = worker.take_one()
    answer = worker.commit(done=acknowledge(leased, items=[b"x"]) * 2)
    assert answer.refused == 1
    assert worker.finish(leased, items=[b"x"]).refused == 1
    assert crawl.items() == [b"x"]
    assert (crawl.view().pages, crawl.view().items) == (1, 1)


@pytest.mark.parametrize(
    "entry", [NOBODYS, EntryId(b""), EntryId(b"x"), EntryId(b"\xff" * 8), EntryId(b"12345678" * 9)]
)
def test_an_entry_that_nobody_has_is_refused_and_the_rest_is_done(crawl: CrawlDesk, entry: EntryId) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    leased = worker.take_one()
    done = [Done(entry, items=(b"no",)), *acknowledge(leased, items=[b"yes"]), Done(entry, Disposition.BACK)]
    answer = worker.commit(done=done, want=1)
    assert answer.refused == 2
    assert texts(answer.leased) == ["b"]
    assert crawl.items() == [b"yes"]
    assert crawl.view().pages == 1


def test_nobody_ends_what_is_in_anothers_hands(crawl: CrawlDesk) -> None:
    owner, other = crawl.workers(2)
    owner.push("a")
    leased = owner.take_one()
    for disposition in Disposition:
        assert other.commit(done=[Done(leased.entry, disposition, items=(b"x",))]).refused == 1
    assert crawl.items() == []
    assert owner.finish(leased, items=[b"y"]).refused == 0
    assert crawl.items() == [b"y"]


def test_nobody_ends_what_still_waits(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    leased = worker.take_one()
    worker.commit(done=hand_back(leased))
    for disposition in Disposition:
        assert worker.commit(done=[Done(leased.entry, disposition, items=(b"x",))]).refused == 1
    assert crawl.items() == []
    assert worker.work_off() == ["a"]


def test_the_items_of_a_page_done_twice_are_delivered_once(crawl: CrawlDesk) -> None:
    slow, heir = crawl.workers(2)
    slow.push("a")
    leased = slow.take_one()
    crawl.kill(slow)
    again = heir.take_one()
    assert again.entry == leased.entry
    late = slow.send(slow.draft(done=acknowledge(leased, items=[b"late"])))
    assert late.verdict == Verdict.LAPSED
    heir.finish(again, items=[b"right"])
    assert slow.send(slow.draft(done=acknowledge(leased, items=[b"late"]))).verdict == Verdict.LAPSED
    assert crawl.items() == [b"right"]


def test_what_was_handed_back_never_was_taken(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    for _ in range(7):
        taken = worker.take(2)
        assert [leased.deaths for leased in taken] == [0, 0]
        assert texts(taken) == ["a", "b"]
        worker.commit(done=hand_back(*taken))
    assert crawl.view().pages == 0


def test_what_is_handed_back_may_be_taken_in_the_same_commit(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    leased = worker.take_one()
    answer = worker.commit(done=hand_back(leased), want=1)
    assert texts(answer.leased) == ["a"]
    assert crawl.view().in_flight == 1


def test_a_dead_entry_is_kept_with_its_reason(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("good", "bad")
    good, bad = worker.take(2)
    worker.commit(done=[Done(bad.entry, Disposition.DEAD, why="no such callback: parse_büch"), *acknowledge(good)])

    (dead,) = crawl.crawls.peek(CrawlId("books"), Shelf.DEAD, limit=10)
    assert (dead.leased.body, dead.leased.entry, dead.shelf) == (b"bad", bad.entry, Shelf.DEAD)
    assert dead.why == "no such callback: parse_büch"
    view = crawl.view()
    assert (view.dead, view.pages, view.in_flight, view.pending) == (1, 1, 0, 0)
    assert worker.commit(want=5).is_over


def test_a_blocked_entry_stands_aside(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    worker.commit(done=[Done(worker.take_one().entry, Disposition.BLOCKED)])
    assert worker.work_off() == ["b"]
    view = crawl.view()
    assert (view.blocked, view.pending, view.in_flight) == (1, 0, 0)
    (blocked,) = crawl.crawls.peek(CrawlId("books"), Shelf.BLOCKED, limit=10)
    assert blocked.leased.body == b"a"
    assert worker.commit().is_over


def test_only_what_was_acknowledged_delivers_items(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push(*"abc")
    for disposition in (Disposition.BACK, Disposition.DEAD, Disposition.BLOCKED):
        worker.commit(done=[Done(worker.take_one().entry, disposition, items=(b"x",))])
    assert crawl.items() == []


def test_a_page_of_many_items_is_delivered_whole(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    items = [b"%d" % number for number in range(9_000)]
    worker.finish(worker.take_one(), items=items)
    assert crawl.items() == items
    assert len({key for key, _ in crawl.item_records()}) == 9_000
