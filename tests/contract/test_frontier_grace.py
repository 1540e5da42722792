"""After a silence of all, every worker gets a full term before anything is decided over its head."""

from __future__ import annotations

import pytest
from support.crawl_desk import LONG_S, SOON_S, CrawlDesk, Worker, a_push, acknowledge
from support.waiting import wait_until

from toolkit.model.crawls import Controls, DomainLimit, Filter, StartRole, Taken, Verdict

AWAY_S = 1.3 * LONG_S


def deaths(crawl: CrawlDesk) -> set[int]:
    """Return how many deaths the entries of the crawl count, whatever shelf they are on."""
    return {each.leased.deaths for each in crawl.crawls.entries(crawl.plan.crawl)}


def first_answer(crawl: CrawlDesk, worker: Worker, how: str) -> None:
    """Let a worker be the first to be heard after Redis was away, with that answer."""
    draft = worker.draft(a_push("more"))
    before = crawl.dump()
    if how != "done":
        worker.frontier.commit(draft)
    if how == "rolled_back":
        worker.send(draft)
        crawl.restore(before)
    crawl.pass_s(AWAY_S)
    if how == "joined":
        crawl.worker("newcomer")
        return
    answer = worker.send(worker.draft() if how == "rolled_back" else draft)
    assert answer.verdict.value == how
    if how == "rolled_back":
        number = worker.number
        worker.token = worker.frontier.rejoin(worker.name, worker.token, number=number, ttl_s=LONG_S, taken=[])
    worker.send(worker.draft())


@pytest.mark.parametrize("how", ["done", "repeated", "rolled_back", "joined"])
def test_whatever_the_first_answer_is_siblings_have_a_full_term(crawl: CrawlDesk, how: str) -> None:
    first, sibling = crawl.workers(2)
    sibling.push("a", "b")
    held = sibling.take(2)
    first_answer(crawl, first, how)

    assert sibling.finish(*held).refused == 0
    assert deaths(crawl) <= {0}


def test_the_term_is_given_once_and_who_is_silent_then_lapses(crawl: CrawlDesk) -> None:
    first, dead = crawl.workers(2)
    dead.push("a")
    dead.take_one()
    crawl.pass_s(AWAY_S)
    assert first.take() == []
    for _ in range(4):
        crawl.pass_s(0.3 * LONG_S)
        first.commit()
    assert first.take_one().body == b"a"


def test_a_sign_of_life_without_a_commit_tells_that_redis_is_there(crawl: CrawlDesk) -> None:
    busy, dead = crawl.workers(2)
    dead.push("a")
    dead.take_one()
    for _ in range(4):
        crawl.pass_s(0.3 * LONG_S)
        assert busy.frontier.renew(busy.name, busy.token, ttl_s=LONG_S)
    assert busy.take_one().body == b"a"


@pytest.mark.parametrize(("name", "counted"), [("host:1:ab", 1), ("job-1~7.1.1.1:node-1:life", 0)])
def test_of_a_worker_of_a_node_that_was_not_heard_since_all_were_silent_only_the_node_says_that_it_has_died(
    crawl: CrawlDesk, name: str, counted: int
) -> None:
    heir, silent = crawl.worker("heir"), crawl.worker(name)
    silent.push("a")
    silent.take_one()
    crawl.pass_s(AWAY_S)
    for _ in range(5):
        heir.commit()
        crawl.pass_s(0.3 * LONG_S)
    assert heir.take_one().deaths == counted


def test_a_worker_of_a_node_that_is_lost_is_not_known_to_have_died(crawl: CrawlDesk) -> None:
    heir, lost = crawl.workers(2)
    lost.push("a")
    lost.take_one()
    assert crawl.crawls.release(lost.name, has_died=False)
    assert heir.take_one().deaths == 0


def test_a_worker_that_would_flush_waits_for_those_who_may_be_alive(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    one.push("a", "b")
    held = other.take(1)
    crawl.pass_s(AWAY_S)
    newcomer = crawl.stranger("newcomer")
    joined = newcomer.frontier.join(newcomer.name, ttl_s=LONG_S, flush=True)
    assert joined.again_s is not None
    assert 0 < joined.again_s <= LONG_S

    one.commit()
    other.finish(*held)
    newcomer.join(flush=True)
    assert crawl.view().pending == 1


def test_who_flushes_begins_when_nobody_has_come_back(crawl: CrawlDesk) -> None:
    (dead,) = crawl.workers(1)
    dead.push("a")
    crawl.pass_s(AWAY_S)
    newcomer = crawl.stranger("newcomer")
    assert newcomer.frontier.join(newcomer.name, ttl_s=LONG_S, flush=True).again_s is not None
    for _ in range(4):
        crawl.pass_s(0.26 * LONG_S)
        joined = newcomer.frontier.join(newcomer.name, ttl_s=LONG_S, flush=True)
    assert joined.again_s is None
    assert crawl.view().pending == 0
    assert joined.start == StartRole.YOURS


def test_a_crawl_that_may_have_workers_is_not_begun_anew_though_nothing_is_left_to_do(crawl: CrawlDesk) -> None:
    (worker,) = crawl.workers(1)
    crawl.pass_s(AWAY_S)
    newcomer = crawl.stranger("newcomer")
    assert newcomer.frontier.join(newcomer.name, ttl_s=LONG_S).again_s is not None
    # Where there is something to do it need not wait.
    crawl.seed("https://books.example/")
    newcomer.join()
    assert newcomer.take_one().is_seed
    worker.commit()


def test_start_urls_that_redis_has_forgotten_do_not_count_as_brought(crawl: CrawlDesk) -> None:
    runner, other = crawl.stranger("runner"), crawl.stranger("other")
    assert (runner.join().start, other.join().start) == (StartRole.YOURS, StartRole.WAIT)
    before = crawl.dump()
    runner.commit(*(a_push(f"u{number}", filter=Filter.SEEN) for number in range(10)))
    other.commit()
    assert other.start == StartRole.DONE
    crawl.restore(before)
    crawl.kill(runner)

    other.token = other.frontier.rejoin(other.name, other.token, number=other.number, ttl_s=LONG_S, taken=[])
    # Whatever it says of the end of start(): it did not run it.
    other.has_run_start = True
    answer = other.send(other.draft(want=5))
    assert (answer.verdict, answer.is_over, answer.start) == (Verdict.DONE, False, StartRole.YOURS)


def test_a_worker_that_lapsed_hears_which_of_its_commits_redis_knows(crawl: CrawlDesk) -> None:
    worker, sibling = crawl.workers(2)
    worker.push("a")
    known, before = worker.number, crawl.dump()
    worker.push("b")
    crawl.restore(before)
    crawl.lapse(worker)
    sibling.commit()
    answer = worker.send(worker.draft())
    assert (answer.verdict, answer.known) == (Verdict.LAPSED, known)


def test_controls_that_redis_has_forgotten_are_none(crawl: CrawlDesk) -> None:
    (worker,) = crawl.workers(1)
    before = crawl.dump()
    crawl.crawls.control(crawl.plan.crawl, is_paused=True)
    told = worker.commit().controls
    assert told is not None
    assert told.is_paused
    crawl.restore(before)
    worker.token = worker.frontier.rejoin(worker.name, worker.token, number=worker.number, ttl_s=LONG_S, taken=[])
    assert worker.commit().controls == Controls()
    assert worker.commit().controls is None


@pytest.mark.parametrize("by_s", [5.0, 3600.0])
def test_a_clock_that_is_set_back_makes_nothing_wait(crawl: CrawlDesk, by_s: float) -> None:
    first, dead = crawl.workers(2)
    first.push("https://slow.example/1", "https://slow.example/2")
    crawl.crawls.limit(crawl.plan.crawl, DomainLimit("slow.example", per_second=50.0))
    assert len(first.take(1)) == 1
    crawl.pass_s(-by_s)
    first.commit()
    wait_until(lambda: first.take(1), deadline_s=SOON_S, what="the domain's next turn")
    view = crawl.view_of(dead)
    assert view is not None
    assert view.lease_left_s <= LONG_S


def test_a_rejoined_worker_counts_for_the_budgets_of_its_domains(crawl: CrawlDesk) -> None:
    (worker,) = crawl.workers(1)
    crawl.crawls.limit(crawl.plan.crawl, DomainLimit("slow.example", concurrency=1))
    worker.push(*(f"https://slow.example/{number}" for number in range(3)))
    before = crawl.dump()
    (held,) = worker.take(3)
    crawl.restore(before)
    worker.token = worker.frontier.rejoin(
        worker.name, worker.token, number=worker.number, ttl_s=LONG_S, taken=[Taken(held)]
    )
    assert worker.take(3) == []
    assert worker.commit(done=acknowledge(held), want=3).leased
