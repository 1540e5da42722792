"""Jobs that were scheduled together are one run of a crawl: whoever comes when it is over has nothing to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.crawl_desk import SOON_S, CrawlDesk, a_plan, a_push, acknowledge
from support.waiting import wait_until

from toolkit.model.crawls import Disposition, DomainLimit, Done, Filter, StartRole
from toolkit.model.names import CrawlId

SLOW = "slow.example"


@pytest.mark.parametrize("persists", [False, True])
def test_whoever_comes_after_the_end_of_his_run_has_nothing_to_do(crawl: CrawlDesk, *, persists: bool) -> None:
    crawl.plan = replace(a_plan(persists=persists), run="r1")
    worker = crawl.worker("w1")
    worker.push("a")
    worker.work_off()
    assert worker.commit().is_over
    worker.leave(is_finished=True)
    before = crawl.dump()
    assert crawl.stranger("w2").join().is_over
    assert crawl.dump() == before


def test_another_run_of_the_crawl_begins_anew(crawl: CrawlDesk) -> None:
    first = crawl.worker("w1", plan=replace(a_plan(), run="r1"))
    first.leave(is_finished=True)
    for run in ("r2", ""):
        worker = crawl.stranger(f"of {run}", plan=replace(a_plan(), run=run))
        joined = worker.join()
        assert (joined.is_over, joined.start) == (False, StartRole.YOURS)
        worker.commit()
        worker.leave(is_finished=True)


def test_a_run_that_was_only_stopped_is_not_over(crawl: CrawlDesk) -> None:
    crawl.plan = replace(a_plan(), run="r1")
    worker = crawl.worker("w1")
    worker.push("a")
    assert not worker.leave(is_finished=True)
    second = crawl.worker("w2")
    assert second.work_off() == ["a"]
    assert not second.leave()
    assert not crawl.stranger("w3").join().is_over


def test_a_run_to_which_something_came_after_it_was_over_is_not_over(crawl: CrawlDesk) -> None:
    crawl.plan = replace(a_plan(), run="r1")
    first, last = crawl.workers(2)
    first.leave(is_finished=True)
    crawl.seed("https://books.example/")
    (seed,) = last.take(1)
    last.commit(a_push("child"), done=acknowledge(seed))
    crawl.kill(last)

    second = crawl.stranger("w3")
    assert not second.join().is_over
    assert second.work_off() == ["child"]


def test_the_runs_of_two_crawls_are_two(crawl: CrawlDesk) -> None:
    crawl.worker("w1", plan=replace(a_plan("a"), run="r")).leave(is_finished=True)
    assert not crawl.stranger("w2", plan=replace(a_plan("b"), run="r")).join().is_over


def test_a_sibling_that_lapsed_may_join_again_while_the_run_is_not_over(crawl: CrawlDesk) -> None:
    crawl.plan = replace(a_plan(), run="r1")
    late, sibling = crawl.workers(2)
    crawl.kill(late)
    sibling.push("a")
    assert not late.join(is_new_life=False).is_over
    assert late.work_off() == ["a"]


def test_the_end_of_a_crawl_is_noted_with_the_worker_that_went_last(crawl: CrawlDesk) -> None:
    key, ends = crawl.crawls.ends(after=None)
    assert not ends
    first, last = crawl.workers(2)
    first.push("a", "b")
    first.work_off()
    last.work_off()
    first.leave(is_finished=True)
    last.leave(is_finished=True)
    stopped = crawl.worker("stopped", plan=replace(a_plan("other"), run="r1"))
    stopped.push("a")
    stopped.leave(is_finished=True)

    wait_until(lambda: crawl.crawls.ends(after=key)[1], deadline_s=SOON_S, what="the end of the crawl")
    later, (end,) = crawl.crawls.ends(after=key)

    assert (end.crawl, end.worker, end.pages) == ("books", last.name, 2)
    assert end.key == later
    assert crawl.crawls.ends(after=later) == (later, ())


def test_a_dead_worker_beside_which_a_crawl_was_over_is_the_last_one(crawl: CrawlDesk) -> None:
    key, _ = crawl.crawls.ends(after=None)
    first, dead = crawl.workers(2)
    first.leave(is_finished=True)
    crawl.crawls.release(dead.name, has_died=True)

    wait_until(lambda: crawl.crawls.ends(after=key)[1], deadline_s=SOON_S, what="the end of the crawl")

    assert [end.worker for end in crawl.crawls.ends(after=key)[1]] == [dead.name]


def test_a_crawl_without_budgets_begins_with_those_of_its_plan(crawl: CrawlDesk) -> None:
    limits = (DomainLimit(SLOW, concurrency=1), DomainLimit("*", per_second=5.0, concurrency=3))
    crawl.plan = replace(a_plan(), limits=limits)
    worker = crawl.worker()
    assert sorted(crawl.view().limits, key=lambda each: each.domain) == sorted(limits, key=lambda each: each.domain)
    worker.commit(*(a_push(f"http://{SLOW}/{number}") for number in range(5)))
    for _ in range(3):
        worker.take(5)
    assert len(worker.in_hand) == 1


def test_the_budgets_of_an_operator_come_before_those_of_a_plan(crawl: CrawlDesk) -> None:
    crawl.worker("w1")
    crawl.crawls.limit(CrawlId("books"), DomainLimit(SLOW, concurrency=4))
    crawl.worker("w2", plan=replace(a_plan(), limits=(DomainLimit(SLOW, concurrency=1),)))
    assert list(crawl.view().limits) == [DomainLimit(SLOW, concurrency=4)]


def test_a_budget_that_a_worker_learned_counts_where_there_is_none(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    crawl.crawls.limit(CrawlId("books"), DomainLimit("set.example", per_second=9.0))
    learned = (DomainLimit(SLOW, per_second=0.5), DomainLimit("set.example", per_second=0.1))
    worker.commit(*(a_push(f"http://{SLOW}/{number}") for number in range(5)))
    worker.send(replace(worker.draft(), limits=learned))
    assert list(crawl.view().limits) == [DomainLimit("set.example", per_second=9.0), DomainLimit(SLOW, per_second=0.5)]
    for _ in range(4):
        worker.take(5)
    assert len(worker.in_hand) == 1


def test_a_worker_that_is_begun_again_empties_nothing_of_its_own_run(crawl: CrawlDesk) -> None:
    first = crawl.worker("w1", plan=replace(a_plan(), run="r1"))
    crawl.seed("seed")
    seed = first.take_one()
    first.commit(a_push("found"), done=acknowledge(seed))
    crawl.kill(first)

    again = crawl.stranger("w1", plan=replace(a_plan(), run="r1"))
    assert again.join(flush=True).pending == 1
    again.leave()
    assert crawl.stranger("w2", plan=replace(a_plan(), run="r2")).join(flush=True).pending == 0


def test_the_next_run_clears_what_a_worker_that_died_in_closing_has_left(crawl: CrawlDesk) -> None:
    last = crawl.worker(plan=replace(a_plan(), run="monday"))
    last.push("a", filter=Filter.SEEN)
    last.work_off()
    assert last.commit().is_over
    crawl.kill(last)

    worker = crawl.stranger("w2", plan=replace(a_plan(), run="tuesday"))
    assert worker.join().start is StartRole.YOURS
    assert worker.commit(a_push("a", filter=Filter.SEEN)).duplicates == ()


def test_a_worker_of_the_same_run_has_nothing_to_do_where_all_was_done_but_the_last_word(crawl: CrawlDesk) -> None:
    crawl.plan = replace(a_plan(), run="monday")
    last = crawl.worker()
    last.push("a", filter=Filter.SEEN)
    last.work_off()
    assert last.commit().is_over
    crawl.kill(last)
    again = crawl.stranger("w2")
    assert again.join().start is StartRole.DONE
    assert again.commit().is_over


@pytest.mark.parametrize("what", ["a seed", "a dead entry", "a blocked entry"])
def test_what_comes_after_the_end_is_for_whoever_comes_next(crawl: CrawlDesk, what: str) -> None:
    crawl.plan = replace(a_plan(), run="r1")
    worker = crawl.worker("w1")
    worker.push("a")
    worker.commit(done=[Done(worker.take_one().entry, Disposition.DEAD, why="x")])
    worker.push("b")
    worker.commit(done=[Done(worker.take_one().entry, Disposition.BLOCKED)])
    worker.leave(is_finished=True)
    assert crawl.stranger("w2").join().is_over
    if what == "a seed":
        crawl.seed("https://books.example/")
    elif what == "a dead entry":
        crawl.crawls.requeue(crawl.plan.crawl)
    else:
        crawl.crawls.unblock(crawl.plan.crawl, [])
    assert not crawl.stranger("w2").join().is_over


def test_a_crawl_that_was_cleared_may_be_run_again(crawl: CrawlDesk) -> None:
    crawl.plan = replace(a_plan(), run="r1")
    crawl.worker("w1").leave(is_finished=True)
    assert crawl.stranger("w2").join().is_over
    crawl.crawls.clear(crawl.plan.crawl)
    assert not crawl.stranger("w2").join().is_over


@pytest.mark.parametrize("persists", [False, True])
def test_a_run_that_was_forgotten_is_done_again(crawl: CrawlDesk, *, persists: bool) -> None:
    crawl.plan = replace(a_plan(persists=persists), run="r1")
    crawl.worker("w1").leave(is_finished=True)
    crawl.crawls.forget_runs({"another"})
    assert crawl.stranger("w2").join().is_over
    crawl.crawls.forget_runs({"another", "r1"})
    joined = crawl.stranger("w2").join()
    assert (joined.is_over, joined.start) == (False, StartRole.YOURS)


def test_a_crawl_knows_the_runs_of_all_its_workers_however_many(crawl: CrawlDesk) -> None:
    first, *others = (crawl.worker(f"w{n}", plan=replace(a_plan(), run=f"job-{n}")) for n in range(12))
    for worker in (*others, first):
        worker.leave(is_finished=True)
    assert all(crawl.stranger("late", plan=replace(a_plan(), run=f"job-{n}")).join().is_over for n in range(12))
    assert not crawl.stranger("next", plan=replace(a_plan(), run="job-12")).join().is_over
    assert crawl.redis.smembers("books:requests:runs") == {b"job-12"}


def test_nothing_of_its_runs_is_left_of_a_crawl_that_was_cleared(crawl: CrawlDesk) -> None:
    crawl.worker(plan=replace(a_plan(), run="job-1")).leave()
    assert crawl.redis.exists("books:requests:runs")
    crawl.crawls.clear(crawl.plan.crawl, force=True)
    assert not crawl.redis.exists("books:requests:runs")


def test_a_crawl_to_which_entries_were_put_back_has_not_ended_with_its_dead_worker(crawl: CrawlDesk) -> None:
    key, _ = crawl.crawls.ends(after=None)
    first, dead = crawl.workers(2)
    first.push("a")
    first.commit(done=[Done(first.take_one().entry, Disposition.DEAD, why="x")])
    first.leave(is_finished=True)
    crawl.crawls.requeue(crawl.plan.crawl)
    crawl.crawls.release(dead.name, has_died=True)
    last = crawl.worker("w3")
    assert last.work_off() == ["a"]
    last.leave(is_finished=True)

    wait_until(lambda: crawl.crawls.ends(after=key)[1], deadline_s=SOON_S, what="the end of the crawl")

    assert [end.worker for end in crawl.crawls.ends(after=key)[1]] == [last.name]
