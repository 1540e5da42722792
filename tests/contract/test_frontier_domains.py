"""One budget for a domain over all workers of a crawl; what waits for its turn keeps nobody else waiting."""

from __future__ import annotations

import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
from support.crawl_desk import CrawlDesk, a_plan, a_push, hand_back
from support.waiting import wait_until

from toolkit.model.crawls import DomainLimit, Filter, Leased, Push, QueueOrder
from toolkit.model.names import CrawlId
from toolkit.store.wire_requests import Wire, read_request, write_request

BOOKS = CrawlId("books")
SLOW, FAST = "slow.example", "fast.example"
SOON_S = 30.0


def a_page(url: str, *, priority: int = 0, wire: Wire = Wire.MSGPACK) -> Push:
    """Return a request for this URL as workers push it."""
    return a_push(write_request({"url": url}, wire), priority=priority)


def pages(domain: str, number: int, *, priority: int = 0) -> list[Push]:
    """Return requests for pages of a domain."""
    return [a_page(f"http://{domain}/{each}", priority=priority) for each in range(number)]


def urls(leased: list[Leased] | tuple[Leased, ...]) -> list[str]:
    """Return the URLs of entries."""
    return [str(read_request(each.body)["url"]) for each in leased]


def domains(leased: list[Leased] | tuple[Leased, ...]) -> Counter[str]:
    """Count entries by domain."""
    return Counter(str(urlsplit(url).hostname) for url in urls(leased))


def limit(crawl: CrawlDesk, domain: str, *, per_second: float | None = None, concurrency: int | None = None) -> None:
    """Set a budget."""
    crawl.crawls.limit(BOOKS, DomainLimit(domain, per_second=per_second, concurrency=concurrency))


def test_no_more_of_a_domain_are_in_flight_than_its_budget(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    limit(crawl, SLOW, concurrency=3)
    one.commit(*pages(SLOW, 20))
    for _ in range(3):
        one.take(10)
        other.take(10)
    assert len(one.in_hand) + len(other.in_hand) == 3
    worker = one if one.in_hand else other
    worker.finish(*list(worker.in_hand.values())[:1])
    taken = [*one.take(10), *other.take(10), *one.take(10), *other.take(10)]
    assert len(taken) == 1


def test_a_slow_domain_never_keeps_others_waiting(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    worker.commit(*pages(SLOW, 500, priority=100))
    worker.commit(*pages(FAST, 20))
    taken: list[Leased] = []
    for _ in range(5):
        taken += worker.take(10)
    assert domains(taken) == {SLOW: 1, FAST: 20}


def test_a_slow_domain_of_thousands_keeps_nobody_waiting(crawl: CrawlDesk) -> None:
    worker, other = crawl.workers(2)
    for _ in range(12):
        worker.commit(*pages(SLOW, 500, priority=100))
    worker.commit(*pages(FAST, 5))
    limit(crawl, SLOW, per_second=0.001)
    taken: list[Leased] = []

    def is_reached() -> bool:
        taken.extend([*worker.take(20), *other.take(20)])
        return domains(taken)[FAST] == 5

    wait_until(is_reached, deadline_s=SOON_S, what="the entries behind those of the slow domain")
    assert domains(taken)[SLOW] <= 1


def test_an_entry_that_ends_in_whatever_way_frees_its_place(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    worker.commit(*pages(SLOW, 4))
    for _ in range(4):
        victim = crawl.worker("victim")
        assert domains(victim.take(5)) == {SLOW: 1}
        assert worker.take(5) == []
        crawl.kill(victim)
        leaver = crawl.worker("leaver")
        assert domains(leaver.take(5)) == {SLOW: 1}
        leaver.leave()
        leased = worker.take_one()
        assert worker.take(5) == []
        worker.finish(leased)
        if not crawl.view().pending:
            break
    assert crawl.view().in_flight == 0


def test_the_rate_of_a_domain_is_that_of_all_workers_together(crawl: CrawlDesk) -> None:
    workers = crawl.workers(3)
    limit(crawl, SLOW, per_second=20)
    workers[0].commit(*pages(SLOW, 300))
    began, taken, spent = time.monotonic(), 0, 0.0
    # A slow machine misses turns, and is given more time.
    while spent < 1.0 or (taken < 8 and spent < SOON_S):
        for worker in workers:
            taken += len(worker.take(10))
            worker.finish_all()
        spent = time.monotonic() - began
    # At most what the time and the first moment allow.
    assert 8 <= taken <= 20 * spent + 3


def test_a_rate_does_not_save_up(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, per_second=10)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 0.6, deadline_s=SOON_S, what="some turns to go by unused")
    worker.commit(*pages(SLOW, 30))
    assert len(worker.take(30)) <= 2


def test_who_finds_only_waiting_entries_is_told_when_to_come_again(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    assert worker.commit(want=5).again_s is None
    limit(crawl, SLOW, per_second=0.4)
    worker.commit(*pages(SLOW, 5))
    worker.finish(*worker.take(1))
    answer = worker.commit(want=5)
    assert answer.leased == ()
    assert answer.again_s is not None
    assert 0 < answer.again_s <= 2.5
    assert not answer.is_over
    assert answer.pending == 4
    wait_until(lambda: worker.take(5), deadline_s=SOON_S, what="the domain's next turn")


def test_a_crawl_is_not_over_while_a_domain_waits_for_its_turn(crawl: CrawlDesk) -> None:
    worker, other = crawl.workers(2)
    limit(crawl, SLOW, per_second=0.001)
    worker.commit(*pages(SLOW, 2))
    worker.finish(*worker.take(1))
    for each in (worker, other):
        assert not each.commit(want=5).is_over
    assert crawl.view().pending == 1
    assert not worker.leave(is_finished=True)
    limit(crawl, SLOW)
    assert len(other.take(5)) == 1


def test_a_budget_for_every_domain_counts_each_by_itself(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, "*", concurrency=2)
    limit(crawl, FAST, concurrency=7)
    for domain in ("a.example", "b.example", FAST):
        worker.commit(*pages(domain, 10))
    for _ in range(6):
        worker.take(30)
    assert domains(list(worker.in_hand.values())) == {"a.example": 2, "b.example": 2, FAST: 7}


def test_a_budget_holds_for_what_waits_already(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(*pages(SLOW, 20))
    limit(crawl, SLOW, concurrency=2)
    for _ in range(5):
        worker.take(10)
    assert len(worker.in_hand) == 2


def test_a_budget_counts_what_is_in_flight_already(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(*pages(SLOW, 20))
    assert len(worker.take(5)) == 5
    limit(crawl, SLOW, concurrency=2)
    assert worker.take(10) == []
    worker.finish(*list(worker.in_hand.values())[:4])
    for _ in range(3):
        worker.take(10)
    assert len(worker.in_hand) == 2


def test_a_budget_may_change_while_it_holds(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    worker.commit(*pages(SLOW, 20))
    assert len(worker.take(9)) == 1
    limit(crawl, SLOW, concurrency=4)
    for _ in range(4):
        worker.take(9)
    assert len(worker.in_hand) == 4
    limit(crawl, SLOW, concurrency=2)
    worker.finish(*list(worker.in_hand.values())[:2])
    assert worker.take(9) == []
    worker.finish(*list(worker.in_hand.values())[:1])
    assert len(worker.take(9)) == 1


def test_a_rate_may_change_while_it_holds(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, per_second=0.001)
    worker.commit(*pages(SLOW, 5))
    worker.finish(*worker.take(5))
    assert worker.take(5) == []
    limit(crawl, SLOW, per_second=100)
    taken: list[Leased] = []

    def is_done() -> bool:
        taken.extend(worker.take(5))
        return len(taken) == 4

    wait_until(is_done, deadline_s=SOON_S, what="the rest at the new rate")


@pytest.mark.parametrize("order", list(QueueOrder))
@pytest.mark.parametrize("domain", [SLOW, "*"])
def test_a_budget_taken_away_holds_no_more(crawl: CrawlDesk, domain: str, order: QueueOrder) -> None:
    crawl.plan = a_plan(order=order)
    worker = crawl.worker()
    limit(crawl, domain, per_second=0.001, concurrency=1)
    worker.commit(*pages(SLOW, 20))
    first = worker.take(9)
    assert len(first) == 1
    assert list(crawl.crawls.limit(BOOKS, DomainLimit(domain))) == []
    rest: list[Leased] = []
    for _ in range(30):
        rest += worker.take(30)
    expected = [f"http://{SLOW}/{each}" for each in range(20)]
    assert urls([*first, *rest]) == (expected[::-1] if order == QueueOrder.LIFO else expected)


@pytest.mark.parametrize("order", list(QueueOrder))
def test_a_limited_domain_keeps_the_order_of_the_crawl(crawl: CrawlDesk, order: QueueOrder) -> None:
    crawl.plan = a_plan(order=order)
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=2)
    worker.commit(*pages(SLOW, 6), a_page(f"http://{SLOW}/first", priority=5))
    taken = []
    for _ in range(10):
        leased = worker.take(5)
        taken += urls(leased)
        worker.finish(*leased)
    numbers = [f"http://{SLOW}/{each}" for each in [*range(6), "first"]]
    assert (
        taken
        == {
            QueueOrder.FIFO: numbers,
            QueueOrder.LIFO: numbers[::-1],
            QueueOrder.PRIORITY: [numbers[-1], *numbers[:-1]],
        }[order]
    )


def test_all_budgets_are_told(crawl: CrawlDesk) -> None:
    crawl.worker()
    one, every = DomainLimit(SLOW, per_second=0.5, concurrency=2), DomainLimit("*", concurrency=8)
    crawl.crawls.limit(BOOKS, one)
    limits = crawl.crawls.limit(BOOKS, every)
    assert sorted(limits, key=lambda each: each.domain) == [every, one]
    assert sorted(crawl.view().limits, key=lambda each: each.domain) == [every, one]


def test_pending_entries_of_a_limited_domain_are_counted(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    worker.commit(*pages(SLOW, 9), *pages(FAST, 3))
    worker.take(1)
    for _ in range(3):
        worker.take(1)
    view = crawl.view()
    assert view.pending + view.in_flight == 12
    assert view.domains[SLOW] == 9 - domains(list(worker.in_hand.values()))[SLOW]


@pytest.mark.parametrize(
    "url",
    [
        f"http://{SLOW}",
        f"http://{SLOW}:8080/a?b=http://{FAST}/",
        f"https://ann:secret@{SLOW}/x",
        f"http://{SLOW.upper()}/x",
        f"http://{SLOW}?q",
        f"http://{SLOW}#f",
        f"http://{SLOW}/" + "x" * 5_000,
        f"http://{SLOW}/@{FAST}/",
    ],
)
@pytest.mark.parametrize("wire", list(Wire))
def test_the_domain_is_found_in_any_url(crawl: CrawlDesk, url: str, wire: Wire) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    worker.commit(a_page(url, wire=wire), a_page(f"http://{SLOW}/2", wire=wire))
    assert urls(worker.take(5)) == [url]
    assert worker.take(5) == []


@pytest.mark.parametrize(
    "body", [b"", b"\x00", b"no request", b"{", b"\xff" * 50, b"http://", write_request({"url": ""})]
)
def test_what_has_no_domain_keeps_nobody_waiting(crawl: CrawlDesk, body: bytes) -> None:
    worker = crawl.worker()
    limit(crawl, "*", concurrency=1)
    worker.commit(a_push(body), a_push(body), *pages(FAST, 1))
    done = 0
    for _ in range(5):
        leased = worker.take(5)
        done += len(leased)
        worker.finish(*leased)
    assert done == 3


def test_handed_back_entries_of_a_limited_domain_wait_for_their_turn(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(*pages(SLOW, 5))
    worker.take(5)
    limit(crawl, SLOW, concurrency=1)
    crawl.kill(worker)
    heir = crawl.worker("heir")
    for _ in range(4):
        heir.take(5)
    assert urls(list(heir.in_hand.values())) == [f"http://{SLOW}/0"]


def test_budgets_outlive_the_workers_and_bind_each_crawl_alone(crawl: CrawlDesk) -> None:
    crawl.worker().leave()
    other = crawl.worker(plan=a_plan("other"))
    limit(crawl, SLOW, concurrency=1)
    worker = crawl.worker("w2")
    worker.commit(*pages(SLOW, 5))
    other.commit(*pages(SLOW, 5))
    assert (len(worker.take(5)), len(other.take(5))) == (1, 5)


def test_seeds_are_bound_by_no_budget_of_a_domain(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    worker.commit(*pages(SLOW, 3))
    crawl.seed(f"http://{SLOW}/seed")
    taken = [*worker.take(5), *worker.take(5)]
    assert [leased.is_seed for leased in taken].count(True) == 1
    assert len(taken) == 2


def test_the_tenth_of_many_domains_comes_as_soon_as_the_first(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, "*", per_second=0.001)
    for number in range(30):
        worker.commit(*(a_page(f"http://d{number}.example/{each}") for each in range(40)))
    seen: set[str] = set()

    def have_all_come() -> bool:
        seen.update(domains(worker.take(10)))
        return len(seen) == 30

    wait_until(have_all_come, deadline_s=SOON_S, what="one entry of each domain")
    assert len(worker.in_hand) == 30


def test_a_push_of_a_limited_domain_is_filtered_as_any(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    push = a_push(write_request({"url": f"http://{SLOW}/"}), filter=Filter.SEEN)
    assert worker.commit(push, push).duplicates == (1,)
    assert crawl.view().pending == 1


def test_the_end_of_a_seed_frees_no_place_of_its_domain(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    worker.commit(*pages(SLOW, 5))
    worker.take(1)
    for _ in range(3):
        crawl.seed(f"http://{SLOW}/seed")
        seeds = [leased for leased in (*worker.take(5), *worker.take(5)) if leased.is_seed]
        worker.finish(*seeds)
    assert worker.take(5) == []
    assert len(worker.in_hand) == 1


def test_a_suspect_takes_its_place_and_frees_it(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(*pages(SLOW, 1))
    for number in range(2):
        victim = crawl.worker(f"victim-{number}")
        victim.take_one()
        crawl.kill(victim)
    limit(crawl, SLOW, concurrency=1)
    for _ in range(3):
        suspect = worker.take_one()
        worker.commit(*pages(SLOW, 3))
        worker.commit(done=hand_back(suspect))
    other = crawl.worker("w2")
    for _ in range(4):
        worker.take(5)
        other.take(5)
    in_hands = [*worker.in_hand.values(), *other.in_hand.values()]
    assert len([leased for leased in in_hands if leased.deaths == 0]) <= 1


@pytest.mark.parametrize("how", ["finished", "flushed", "kept"])
def test_a_budget_that_is_shown_binds_whatever_came_between(crawl: CrawlDesk, how: str) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1)
    worker.leave(is_finished=how == "finished")
    again = crawl.stranger("w2")
    again.join(flush=how == "flushed")
    again.commit(*pages(SLOW, 5))
    for _ in range(3):
        again.take(5)
    assert len(again.in_hand) == (1 if crawl.view().limits else 5)


@pytest.mark.parametrize("order", list(QueueOrder))
def test_a_budget_set_late_changes_no_order_within_the_domain(crawl: CrawlDesk, order: QueueOrder) -> None:
    crawl.plan = a_plan(order=order)
    worker = crawl.worker()
    worker.commit(*pages(SLOW, 8))
    limit(crawl, SLOW, concurrency=1)
    taken = []
    for _ in range(20):
        leased = worker.take(5)
        taken += urls(leased)
        worker.finish(*leased)
    expected = [f"http://{SLOW}/{each}" for each in range(8)]
    assert taken == (expected[::-1] if order == QueueOrder.LIFO else expected)


def test_a_generous_budget_puts_nothing_before_what_is_more_urgent(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1000)
    worker.commit(*pages(SLOW, 50, priority=-10))
    worker.commit(*pages(FAST, 20, priority=10))
    taken: list[Leased] = []
    for _ in range(4):
        taken += worker.take(10)
    assert domains(taken)[FAST] >= 15


def test_a_generous_budget_of_one_domain_starves_no_other(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    limit(crawl, SLOW, concurrency=1000)
    limit(crawl, FAST, concurrency=1000)
    worker.commit(*pages(SLOW, 300))
    worker.commit(*pages(FAST, 20))
    worker.commit(*pages("free.example", 20))
    taken: list[Leased] = []
    for _ in range(12):
        taken += worker.take(10)
    assert min(domains(taken)[FAST], domains(taken)["free.example"]) >= 5


@pytest.mark.parametrize("how", ["handed back", "died", "left"])
def test_a_seed_that_went_back_waits_for_no_budget(crawl: CrawlDesk, how: str) -> None:
    first, worker = crawl.worker("w0"), crawl.worker("w1")
    limit(crawl, SLOW, concurrency=1)
    crawl.seed(*(f"http://{SLOW}/{each}" for each in range(3)))
    while len(first.in_hand) < 3:
        first.take(5)
    if how == "handed back":
        first.commit(done=hand_back(*first.in_hand.values()))
    elif how == "died":
        crawl.kill(first)
    else:
        first.leave()
    for _ in range(4):
        worker.take(5)
    assert len(worker.in_hand) == 3
