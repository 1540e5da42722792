"""What the seen set lets through, in each of its kinds, and what it tells of itself."""

from __future__ import annotations

from hashlib import sha1

import pytest
from support.crawl_desk import CrawlDesk, Worker, a_plan, a_push, fingerprint_of, hand_back

from toolkit.model.crawls import MAX_PUSHES, CrawlPlan, Disposition, Done, Filter, Push, QueueOrder, SeenKind
from toolkit.model.errors import RefusedError

KINDS = list(SeenKind)


@pytest.fixture(params=KINDS)
def plan(request: pytest.FixtureRequest) -> CrawlPlan:
    """Give a crawl of each kind of seen set."""
    return a_plan(seen=request.param)


@pytest.fixture
def worker(crawl: CrawlDesk, plan: CrawlPlan) -> Worker:
    return crawl.worker(plan=plan)


def test_what_was_seen_is_dropped_and_named(crawl: CrawlDesk, worker: Worker) -> None:
    answer = worker.push("a", "b", "a", "c", "b", filter=Filter.SEEN)
    assert answer.duplicates == (2, 4)
    assert worker.push("c", "d", "a", filter=Filter.SEEN).duplicates == (0, 2)
    assert worker.work_off() == ["a", "b", "c", "d"]
    view = crawl.view()
    assert (view.seen, view.duplicates, view.pages) == (4, 4, 4)


def test_what_was_acknowledged_stays_seen(worker: Worker) -> None:
    worker.push("a", filter=Filter.SEEN)
    assert worker.work_off() == ["a"]
    assert worker.push("a", filter=Filter.SEEN).duplicates == (0,)


@pytest.mark.parametrize("disposition", [Disposition.BACK, Disposition.DEAD, Disposition.BLOCKED])
def test_what_was_not_worked_on_is_seen_all_the_same(worker: Worker, disposition: Disposition) -> None:
    worker.push("a", filter=Filter.SEEN)
    worker.commit(done=[Done(worker.take_one().entry, disposition)])
    assert worker.push("a", filter=Filter.SEEN).duplicates == (0,)


def test_one_that_is_not_to_be_filtered_is_neither_dropped_nor_seen(crawl: CrawlDesk, worker: Worker) -> None:
    print_of_a = fingerprint_of(b"a")
    assert worker.push("a", "a", filter=Filter.NONE).duplicates == ()
    assert worker.commit(Push(b"a", 0, print_of_a, Filter.NONE)).duplicates == ()
    assert crawl.view().seen == 0
    assert worker.push("a", filter=Filter.SEEN).duplicates == ()
    assert worker.push("a", filter=Filter.NONE).duplicates == ()
    assert worker.work_off() == ["a"] * 5


def test_one_to_be_remembered_is_never_dropped_but_seen(crawl: CrawlDesk, worker: Worker) -> None:
    assert worker.push("a", "a", filter=Filter.REMEMBER).duplicates == ()
    assert worker.push("a", filter=Filter.SEEN).duplicates == (0,)
    assert worker.push("a", filter=Filter.REMEMBER).duplicates == ()
    assert crawl.view().seen == 1
    assert worker.work_off() == ["a"] * 3


def test_one_of_the_start_is_dropped_only_when_the_start_brought_it(crawl: CrawlDesk, worker: Worker) -> None:
    assert worker.push("a", filter=Filter.SEEN).duplicates == ()
    assert worker.push("a", "b", "a", filter=Filter.START).duplicates == (2,)
    assert worker.push("a", "b", filter=Filter.SEEN).duplicates == (0, 1)
    assert worker.push("a", "b", "c", filter=Filter.START).duplicates == (0, 1)
    assert worker.work_off() == ["a", "a", "b", "c"]
    assert crawl.view().seen == 3


def test_the_start_is_remembered_by_those_who_run_it_again(crawl: CrawlDesk, plan: CrawlPlan) -> None:
    first = crawl.stranger("w1", plan=plan)
    first.join()
    first.commit(a_push("a", filter=Filter.START), a_push("b", filter=Filter.START), is_starting=True)
    second = crawl.stranger("w2", plan=plan)
    second.join()
    crawl.kill(first)
    answer = second.commit(*(a_push(body, filter=Filter.START) for body in "abc"), is_starting=True)
    assert answer.duplicates == (0, 1)


def test_all_filters_of_one_commit_hold_in_its_order(worker: Worker) -> None:
    filters = [Filter.START, Filter.SEEN, Filter.NONE, Filter.REMEMBER, Filter.START, Filter.SEEN]
    answer = worker.commit(*(a_push(f"{kind}", of="one", filter=kind) for kind in filters))
    assert answer.duplicates == (1, 4, 5)
    assert worker.work_off() == ["s", "n", "k"]


def test_what_one_worker_saw_no_other_brings(crawl: CrawlDesk, plan: CrawlPlan) -> None:
    one, other = crawl.worker("w1", plan=plan), crawl.worker("w2", plan=plan)
    one.push("a", filter=Filter.SEEN)
    assert other.push("a", "b", filter=Filter.SEEN).duplicates == (0,)


@pytest.mark.parametrize(("kind", "at_most"), [(SeenKind.PACKED, 160 - 73), (SeenKind.SET, 0)])
def test_fingerprints_are_told_apart_by_as_many_bits_as_are_kept(
    crawl: CrawlDesk, kind: SeenKind, at_most: int
) -> None:
    worker = crawl.worker(plan=a_plan(seen=kind))
    base = fingerprint_of("base")
    number = int.from_bytes(base, "big")
    flipped = [(number ^ 1 << bit).to_bytes(20, "big") for bit in range(160)]
    pushes = [Push(b"u", 0, each, Filter.SEEN) for each in (base, *flipped)]
    assert len(worker.commit(*pushes).duplicates) <= at_most
    assert len(worker.commit(*pushes).duplicates) == 161


@pytest.mark.parametrize("fill", [b"\x00", b"\xff", b"\x7f", b"\x80", b"\n", b" "])
def test_fingerprints_of_odd_bytes_are_kept(worker: Worker, fill: bytes) -> None:
    push = Push(b"x", 0, fill * 20, Filter.SEEN)
    assert worker.commit(push).duplicates == ()
    assert worker.commit(push).duplicates == (0,)


@pytest.mark.parametrize("length", [1, 3, 8, 16, 19, 21, 32, 64])
def test_fingerprints_of_any_length_are_told_apart(worker: Worker, length: int) -> None:
    # A fingerprinter of the user's own may make MD5 or SHA-256; what differs may be at either end.
    ends = [bytes(length - 1) + bytes([number]) for number in range(50)]
    begins = [bytes([number]) + b"\x01" * (length - 1) for number in range(50)] if length > 1 else []
    pushes = [Push(b"x", 0, each, Filter.SEEN) for each in (*ends, *begins)]
    assert worker.commit(*pushes).duplicates == ()
    assert len(worker.commit(*pushes).duplicates) == len(pushes)


def test_thousands_are_seen_each_once_while_the_set_grows(crawl: CrawlDesk, worker: Worker) -> None:
    for first in range(0, 6000, MAX_PUSHES):
        pushes = [Push(b"u", 0, fingerprint_of(number), Filter.SEEN) for number in range(first, first + MAX_PUSHES)]
        assert worker.commit(*pushes).duplicates == ()
        earlier = [Push(b"u", 0, fingerprint_of(number), Filter.SEEN) for number in range(0, first, 97)]
        assert len(worker.commit(*earlier).duplicates) == len(earlier)
    assert crawl.view().seen == 6000
    assert crawl.view().pending == 6000


def test_a_set_is_that_of_scrapy_redis(crawl: CrawlDesk) -> None:
    worker = crawl.worker(plan=a_plan(seen=SeenKind.SET))
    worker.push("a", "b", filter=Filter.SEEN)
    assert crawl.redis.smembers("books:dupefilter") == {fingerprint_of(body).hex().encode() for body in (b"a", b"b")}


def test_a_seen_set_moves_to_another_crawl_of_its_kind(crawl: CrawlDesk, plan: CrawlPlan, worker: Worker) -> None:
    worker.commit(*(Push(b"u", 0, fingerprint_of(number), Filter.SEEN) for number in range(2000)))
    records = list(crawl.crawls.seen(plan.crawl))
    worker.leave()
    crawl.crawls.clear(plan.crawl)

    elsewhere = a_plan("elsewhere", seen=plan.seen)
    crawl.crawls.remember(elsewhere, records)
    assert crawl.view("elsewhere").seen == 2000
    heir = crawl.worker(plan=elsewhere)
    prints = [fingerprint_of(number) for number in range(1990, 2010)]
    answer = heir.commit(*(Push(b"u", 0, each, Filter.SEEN) for each in prints))
    assert answer.duplicates == tuple(range(10))


def test_fingerprints_from_elsewhere_may_be_remembered(crawl: CrawlDesk, plan: CrawlPlan) -> None:
    prints = [fingerprint_of(number) for number in range(1500)]
    assert crawl.crawls.remember(plan, prints, are_fingerprints=True) == 1500
    worker = crawl.worker(plan=plan)
    assert worker.commit(*(Push(b"u", 0, each, Filter.SEEN) for each in prints[:400])).duplicates == tuple(range(400))
    assert worker.commit(Push(b"u", 0, fingerprint_of("new"), Filter.SEEN)).duplicates == ()


@pytest.mark.parametrize("other", KINDS)
def test_records_of_another_kind_are_refused(
    crawl: CrawlDesk, plan: CrawlPlan, worker: Worker, other: SeenKind
) -> None:
    worker.push("a", "b", filter=Filter.SEEN)
    records = list(crawl.crawls.seen(plan.crawl))
    assert records
    elsewhere = a_plan("elsewhere", seen=other)
    if other == plan.seen:
        crawl.crawls.remember(elsewhere, records)
        return
    with pytest.raises(RefusedError):
        crawl.crawls.remember(elsewhere, records)
    view = crawl.crawls.view(elsewhere.crawl)
    assert view is None or view.seen == 0


@pytest.mark.parametrize("order", list(QueueOrder))
def test_what_is_handed_back_is_not_filtered_again(crawl: CrawlDesk, order: QueueOrder) -> None:
    worker = crawl.worker(plan=a_plan(order=order))
    worker.push("a", filter=Filter.SEEN)
    worker.commit(done=hand_back(worker.take_one()))
    assert worker.work_off() == ["a"]


def test_a_bloom_filter_tells_what_it_may_have_lost(crawl: CrawlDesk) -> None:
    worker = crawl.worker(plan=a_plan(seen=SeenKind.BLOOM))
    worker.commit(*(Push(b"u", 0, fingerprint_of(number), Filter.SEEN) for number in range(500)))
    assert 0.0 <= crawl.view().expected_loss < 0.001


def test_the_packed_set_stays_small_while_it_grows(crawl: CrawlDesk) -> None:
    # Beyond what its first buckets take: many of them have been split by then.
    number = 300_000
    plan = a_plan()
    prints = (sha1(b"%d" % each, usedforsecurity=False).digest() for each in range(number))
    assert crawl.crawls.remember(plan, prints, are_fingerprints=True) == number
    keys = list(crawl.redis.scan_iter("books:dupefilter*", count=1000))
    with crawl.redis.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.memory_usage(key, samples=0)
        assert sum(pipeline.execute()) < 11 * number
    worker = crawl.worker()
    known = [sha1(b"%d" % each, usedforsecurity=False).digest() for each in range(0, number, 700)]
    answer = worker.commit(*(Push(b"u", 0, each, Filter.SEEN) for each in known))
    assert len(answer.duplicates) == len(known)
