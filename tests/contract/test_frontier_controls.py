"""What the operator wishes of a crawl reaches every worker with its next answer."""

from __future__ import annotations

import pytest
from support.crawl_desk import CrawlDesk, a_push, acknowledge, texts

from toolkit.model.crawls import Disposition, DomainLimit, Done
from toolkit.model.errors import NotFoundError
from toolkit.model.names import CrawlId

BOOKS, NOBODYS = CrawlId("books"), CrawlId("nobodys")


def test_nothing_is_leased_while_a_crawl_is_paused(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    (leased,) = worker.take(1)
    assert crawl.crawls.control(BOOKS, is_paused=True).is_paused
    answer = worker.commit(a_push("c"), done=acknowledge(leased, items=[b"x"]), want=5)
    assert answer.leased == ()
    assert answer.controls is not None
    assert answer.controls.is_paused
    assert (answer.pending, answer.is_over) == (2, False)
    assert crawl.items() == [b"x"]
    assert not crawl.crawls.control(BOOKS, is_paused=False).is_paused
    assert texts(worker.take(5)) == ["b", "c"]


def test_a_paused_crawl_may_be_joined(crawl: CrawlDesk) -> None:
    crawl.worker("w1").push("a")
    crawl.crawls.control(BOOKS, is_paused=True)
    late = crawl.stranger("w2")
    assert late.join().controls.is_paused
    assert late.take(5) == []


def test_suspects_wait_too_while_a_crawl_is_paused(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("bad")
    for number in range(2):
        victim = crawl.worker(f"victim-{number}")
        victim.take_one()
        crawl.kill(victim)
    crawl.crawls.control(BOOKS, is_paused=True)
    assert worker.take(5) == []
    crawl.crawls.control(BOOKS, is_paused=False)
    assert texts(worker.take(5)) == ["bad"]


def test_controls_come_once_to_each_worker_that_has_not_seen_them(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    assert one.commit().controls is None
    wished = crawl.crawls.control(BOOKS, concurrency=4, delay_s=0.25)
    for worker in (one, other):
        assert worker.commit().controls == wished
        assert worker.commit().controls is None
    assert wished.version > 0


def test_what_is_not_given_stays_as_it_is(crawl: CrawlDesk) -> None:
    crawl.worker()
    first = crawl.crawls.control(BOOKS, concurrency=4)
    assert (first.is_paused, first.concurrency, first.delay_s) == (False, 4, None)
    second = crawl.crawls.control(BOOKS, delay_s=1.5, is_paused=True)
    assert (second.is_paused, second.concurrency, second.delay_s) == (True, 4, 1.5)
    third = crawl.crawls.control(BOOKS, is_paused=False)
    assert (third.is_paused, third.concurrency, third.delay_s) == (False, 4, 1.5)
    assert first.version < second.version < third.version
    assert crawl.view().controls == third


def test_a_negative_number_gives_back_the_spiders_own(crawl: CrawlDesk) -> None:
    crawl.worker()
    crawl.crawls.control(BOOKS, concurrency=4, delay_s=0.0)
    assert crawl.crawls.control(BOOKS, concurrency=-1).concurrency is None
    controls = crawl.crawls.control(BOOKS, delay_s=-1)
    assert (controls.concurrency, controls.delay_s) == (None, None)


def test_a_delay_of_nothing_is_a_wish(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    crawl.crawls.control(BOOKS, delay_s=0.0)
    controls = worker.commit().controls
    assert controls is not None
    assert controls.delay_s == 0.0


def test_a_crawl_that_is_not_there_cannot_be_controlled(crawl: CrawlDesk) -> None:
    with pytest.raises(NotFoundError, match="nobodys"):
        crawl.crawls.control(NOBODYS, is_paused=True)
    with pytest.raises(NotFoundError, match="nobodys"):
        crawl.crawls.block(NOBODYS, ["a.example"])
    with pytest.raises(NotFoundError, match="nobodys"):
        crawl.crawls.limit(NOBODYS, DomainLimit("a.example", concurrency=1))
    assert list(crawl.redis.scan_iter("*nobodys*")) == []


def test_controls_outlive_the_workers(crawl: CrawlDesk) -> None:
    crawl.worker("w1").leave()
    crawl.crawls.control(BOOKS, is_paused=True, concurrency=2)
    controls = crawl.stranger("w2").join().controls
    assert (controls.is_paused, controls.concurrency) == (True, 2)


def test_blocks_reach_every_worker(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    wished = crawl.crawls.block(BOOKS, ["ads.example", "*/calendar/*"])
    assert set(wished.blocks) == {"ads.example", "*/calendar/*"}
    assert worker.commit().controls == wished
    more = crawl.crawls.block(BOOKS, ["ads.example", "пример.example"])
    assert sorted(more.blocks) == sorted({"ads.example", "*/calendar/*", "пример.example"})
    assert more.version > wished.version


def test_lifting_a_block_brings_back_all_that_stood_aside(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(a_push("low", priority=-1), a_push("mid"), a_push("high", priority=1))
    crawl.crawls.block(BOOKS, ["a.example", "b.example"])
    worker.commit(done=[Done(leased.entry, Disposition.BLOCKED) for leased in worker.take(3)])
    assert crawl.view().blocked == 3
    assert worker.commit(want=3).is_over

    assert crawl.crawls.unblock(BOOKS, ["a.example"]) == 3
    controls = worker.commit().controls
    assert controls is not None
    assert controls.blocks == ("b.example",)
    view = crawl.view()
    assert (view.blocked, view.pending) == (0, 3)
    assert worker.work_off() == ["high", "mid", "low"]
    assert crawl.crawls.unblock(BOOKS, ["b.example", "never.example"]) == 0
    assert crawl.view().controls.blocks == ()


def test_a_seed_may_stand_aside_and_come_back(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    crawl.seed("http://a.example/")
    worker.commit(done=[Done(worker.take_one().entry, Disposition.BLOCKED)])
    assert crawl.crawls.unblock(BOOKS, []) == 1
    again = worker.take_one()
    assert (again.body, again.is_seed) == (b"http://a.example/", True)


def test_thousands_that_stood_aside_come_back(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    for part in range(8):
        worker.push(*(f"{part * 500 + number:04}" for number in range(500)))
        worker.commit(done=[Done(leased.entry, Disposition.BLOCKED) for leased in worker.take(500)])
    assert crawl.crawls.unblock(BOOKS, ["a.example"]) == 4000
    assert (crawl.view().pending, crawl.view().blocked) == (4000, 0)
    assert texts(worker.take(3)) == ["0000", "0001", "0002"]
