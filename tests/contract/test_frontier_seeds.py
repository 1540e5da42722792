"""Seeds become entries inside Redis: leased, acknowledged, handed back and put away like any other."""

from __future__ import annotations

import pytest
from support.crawl_desk import CrawlDesk, Worker, a_plan, a_push, acknowledge, hand_back, texts

from toolkit.model.crawls import Disposition, Done, Filter, Leased, SeedsKind, Shelf, StartRole, Verdict
from toolkit.model.names import CrawlId

KINDS = list(SeedsKind)
BOOKS = CrawlId("books")


@pytest.fixture(params=KINDS)
def worker(request: pytest.FixtureRequest, crawl: CrawlDesk) -> Worker:
    """Give a worker of a crawl with seeds of each kind."""
    crawl.plan = a_plan(seeds=request.param)
    return crawl.worker()


def put_seeds(crawl: CrawlDesk, *seeds: str) -> None:
    """Push seeds as users of scrapy-redis do, in the order in which they are to be taken where there is one."""
    if crawl.plan.seeds == SeedsKind.SET:
        crawl.redis.sadd(crawl.plan.keys.seeds, *seeds)
    elif crawl.plan.seeds == SeedsKind.ZSET:
        crawl.redis.zadd(crawl.plan.keys.seeds, {seed: 100 - place for place, seed in enumerate(seeds)})
    else:
        crawl.redis.rpush(crawl.plan.keys.seeds, *seeds)


def take_seeds(worker: Worker, number: int) -> list[Leased]:
    """Lease until so many are in hand."""
    taken: list[Leased] = []
    for _ in range(50):
        if len(taken) < number:
            taken += worker.take(number - len(taken))
    assert len(taken) == number
    return taken


def test_a_seed_is_leased_and_acknowledged(crawl: CrawlDesk, worker: Worker) -> None:
    put_seeds(crawl, "http://a.example/")
    assert not worker.commit().is_over
    leased = worker.take_one()
    assert (leased.body, leased.is_seed, leased.deaths) == (b"http://a.example/", True, 0)
    assert len(leased.entry) == 8
    assert not worker.commit().is_over
    answer = worker.commit(a_push("page", filter=Filter.REMEMBER), done=acknowledge(leased), want=1)
    assert [(each.body, each.is_seed) for each in answer.leased] == [(b"page", False)]
    worker.finish(*answer.leased)
    assert worker.commit().is_over
    assert crawl.view().seeds == 0


def test_seeds_come_in_the_order_of_their_key(crawl: CrawlDesk, worker: Worker) -> None:
    seeds = [f"seed {number}" for number in range(9)]
    put_seeds(crawl, *seeds)
    taken = worker.work_off(at_once=2)
    assert sorted(taken) == seeds
    if crawl.plan.seeds != SeedsKind.SET:
        assert taken == seeds


def test_no_more_seeds_are_taken_than_were_wanted(crawl: CrawlDesk, worker: Worker) -> None:
    put_seeds(crawl, *"abcdef")
    assert worker.take(0) == []
    assert len(worker.take(2)) == 2, "a worker alone gets what it wants"
    view = crawl.view()
    assert (view.seeds, view.in_flight, view.pending) == (4, 2, 0)


def test_requests_go_before_seeds(crawl: CrawlDesk, worker: Worker) -> None:
    put_seeds(crawl, "seed")
    worker.commit(a_push("a", priority=-1000), a_push("b", priority=3))
    taken = worker.take(3)
    assert texts(taken)[:2] == ["b", "a"]
    assert worker.work_off() == ["seed"] or texts(taken)[2:] == ["seed"]


def test_seeds_are_shared_out(crawl: CrawlDesk, worker: Worker) -> None:
    other = crawl.worker("w2")
    put_seeds(crawl, *"abcdefgh")
    first = worker.take(8)
    assert 1 <= len(first) <= 4
    assert len(other.take(8)) >= 1


def test_a_seed_handed_back_is_taken_again(crawl: CrawlDesk, worker: Worker) -> None:
    put_seeds(crawl, "a", "b")
    taken = take_seeds(worker, 2)
    worker.commit(done=hand_back(*taken))
    view = crawl.view()
    assert (view.seeds + view.pending, view.in_flight) == (2, 0)
    assert not worker.commit().is_over
    again = take_seeds(worker, 2)
    assert sorted(texts(again)) == ["a", "b"]
    assert all(leased.is_seed for leased in again)
    assert [leased.deaths for leased in again] == [0, 0]


def test_a_seed_in_dead_hands_is_taken_by_another(crawl: CrawlDesk, worker: Worker) -> None:
    put_seeds(crawl, "a")
    leased = worker.take_one()
    heir = crawl.worker("w2")
    crawl.kill(worker)
    assert not heir.commit().is_over
    again = heir.take_one()
    assert (again.body, again.is_seed, again.deaths) == (b"a", True, 1)
    late = worker.send(worker.draft(a_push("child"), done=acknowledge(leased)))
    assert late.verdict == Verdict.LAPSED
    heir.finish(again)
    assert heir.commit().is_over


def test_a_seed_of_a_worker_that_left_is_taken_by_another(crawl: CrawlDesk, worker: Worker) -> None:
    put_seeds(crawl, "a")
    worker.take_one()
    heir = crawl.worker("w2")
    worker.leave()
    again = heir.take_one()
    assert (again.body, again.is_seed, again.deaths) == (b"a", True, 0)


def test_a_seed_that_kills_goes_to_the_dead_list(crawl: CrawlDesk, worker: Worker) -> None:
    heir = crawl.worker("heir")
    worker.leave()
    put_seeds(crawl, "poison")
    for number in range(5):
        victim = crawl.worker(f"victim-{number}")
        assert victim.take_one().deaths == number
        crawl.kill(victim)
    assert heir.take(5) == []
    (dead,) = crawl.crawls.peek(BOOKS, Shelf.DEAD, limit=5)
    assert (dead.leased.body, dead.leased.is_seed) == (b"poison", True)
    assert crawl.crawls.requeue(BOOKS) == 1
    again = heir.take_one()
    assert (again.body, again.is_seed, again.deaths) == (b"poison", True, 0)


def test_a_bad_seed_is_put_away_alone(crawl: CrawlDesk, worker: Worker) -> None:
    put_seeds(crawl, "good", "[1]")
    taken = {leased.body: leased for leased in take_seeds(worker, 2)}
    worker.commit(
        done=[
            Done(taken[b"[1]"].entry, Disposition.DEAD, why="not a URL nor an object with one"),
            *acknowledge(taken[b"good"]),
        ]
    )
    (dead,) = crawl.crawls.peek(BOOKS, Shelf.DEAD, limit=5)
    assert (dead.leased.body, dead.leased.is_seed, dead.why) == (b"[1]", True, "not a URL nor an object with one")
    assert worker.commit().is_over


def test_the_operator_pushes_seeds_to_a_key_of_the_right_kind(crawl: CrawlDesk, worker: Worker) -> None:
    assert crawl.crawls.seed(BOOKS, [b"a", b"b", b"c"]) == 3
    assert crawl.view().seeds == 3
    assert crawl.redis.type(crawl.plan.keys.seeds).decode() == crawl.plan.seeds.value
    assert sorted(worker.work_off()) == ["a", "b", "c"]


def test_thousands_of_seeds_are_pushed_in_parts(crawl: CrawlDesk, worker: Worker) -> None:
    assert crawl.crawls.seed(BOOKS, (b"seed %d" % number for number in range(2_500))) == 2_500
    assert crawl.view().seeds == 2_500
    assert crawl.crawls.seed(BOOKS, []) == 0
    assert len(worker.take(500)) == 500


def test_seeds_may_come_before_any_worker(crawl: CrawlDesk) -> None:
    assert crawl.crawls.seed(BOOKS, [b"a", b"b"]) == 2
    assert crawl.redis.exists("books:start_urls")
    worker = crawl.worker()
    assert sorted(worker.work_off()) == ["a", "b"]


def test_the_operator_pushes_seeds_in_the_order_in_which_they_are_taken(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    crawl.crawls.seed(BOOKS, [b"a", b"b"])
    crawl.crawls.seed(BOOKS, [b"c"])
    assert worker.work_off(at_once=2) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", [b"", b"\x00\xff\xfe\r\n", b"{", "名前".encode(), b"x" * 300_000, b" ", b"-1", b"1 2"])
def test_a_seed_of_any_bytes_comes_as_it_was_pushed(crawl: CrawlDesk, worker: Worker, seed: bytes) -> None:
    assert crawl.crawls.seed(BOOKS, [seed]) == 1
    leased = worker.take_one()
    assert leased.body == seed
    heir = crawl.worker("w2")
    crawl.kill(worker)
    assert heir.take_one().body == seed
    heir.finish_all()
    assert heir.commit().is_over


def test_two_equal_seeds_are_two(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    crawl.seed("a", "a")
    taken = take_seeds(worker, 2)
    assert len({leased.entry for leased in taken}) == 2


@pytest.mark.parametrize("score", ["1e300", "-1e300", "0.1", "-0", "inf", "-inf", "3"])
def test_a_seed_keeps_its_score_when_it_is_handed_back(crawl: CrawlDesk, score: str) -> None:
    crawl.plan = a_plan(seeds=SeedsKind.ZSET)
    worker = crawl.worker()
    crawl.redis.execute_command("ZADD", crawl.plan.keys.seeds, score, "a")
    worker.commit(done=hand_back(worker.take_one()))
    assert worker.work_off() == ["a"]


def test_a_seed_pushed_again_while_it_is_in_flight_is_taken_again(crawl: CrawlDesk) -> None:
    crawl.plan = a_plan(seeds=SeedsKind.SET)
    worker = crawl.worker()
    put_seeds(crawl, "a")
    leased = worker.take_one()
    put_seeds(crawl, "a")
    worker.finish(leased)
    assert worker.work_off() == ["a"]


def test_seeds_wait_while_the_crawl_is_paused(crawl: CrawlDesk, worker: Worker) -> None:
    put_seeds(crawl, "a")
    crawl.crawls.control(BOOKS, is_paused=True)
    answer = worker.commit(want=3)
    assert (answer.leased, answer.is_over) == ((), False)
    assert crawl.view().seeds == 1


def test_seeds_are_taken_before_the_start_is_over(crawl: CrawlDesk) -> None:
    worker = crawl.stranger()
    assert worker.join().start == StartRole.YOURS
    crawl.seed("a")
    assert texts(worker.commit(want=1, is_starting=True).leased) == ["a"]
