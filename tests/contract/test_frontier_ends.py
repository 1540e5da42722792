"""Who runs `start()`, when a crawl is over, and what is left of it."""

from __future__ import annotations

import pytest
from support.crawl_desk import CrawlDesk, Worker, a_plan, a_push, acknowledge, hand_back
from support.waiting import wait_until

from toolkit.model.crawls import Disposition, Done, Filter, StartRole, Verdict
from toolkit.model.errors import RefusedError, StoreUnreachableError
from toolkit.model.names import CrawlId
from toolkit.store import redis_frontier

BOOKS = CrawlId("books")


def starter_and_sibling(crawl: CrawlDesk) -> tuple[Worker, Worker]:
    """Return a worker that is at its `start()`, and one that waits for it."""
    starter, sibling = crawl.stranger("w1"), crawl.stranger("w2")
    starter.join()
    sibling.join()
    starter.commit(is_starting=True)
    return starter, sibling


def test_exactly_one_worker_runs_the_start(crawl: CrawlDesk) -> None:
    workers = [crawl.stranger(f"w{number}") for number in range(5)]
    assert [worker.join().start for worker in workers] == [StartRole.YOURS] + [StartRole.WAIT] * 4
    starter, *others = workers
    assert starter.commit(a_push("a"), is_starting=True).start == StartRole.YOURS
    assert {worker.commit().start for worker in others} == {StartRole.WAIT}
    assert starter.commit().start == StartRole.DONE
    assert {worker.commit().start for worker in others} == {StartRole.DONE}
    assert crawl.stranger("late").join().start == StartRole.DONE


def test_the_operator_sees_who_runs_the_start(crawl: CrawlDesk) -> None:
    starter, _ = starter_and_sibling(crawl)
    assert {worker.name: worker.is_starting for worker in crawl.view().workers} == {"w1": True, "w2": False}
    starter.commit()
    assert not any(worker.is_starting for worker in crawl.view().workers)


@pytest.mark.parametrize("how", ["killed", "lapsed", "left"])
def test_the_start_of_a_worker_that_is_gone_is_anothers(crawl: CrawlDesk, how: str) -> None:
    starter, sibling = starter_and_sibling(crawl)
    if how == "killed":
        crawl.kill(starter)
    elif how == "lapsed":
        crawl.lapse(starter)
    else:
        starter.leave()
    answer = sibling.commit()
    assert (answer.start, answer.is_over) == (StartRole.YOURS, False)
    assert sibling.commit(is_starting=True).start == StartRole.YOURS
    assert sibling.commit().start == StartRole.DONE


def test_the_start_of_a_worker_that_is_gone_waits_for_a_newcomer(crawl: CrawlDesk) -> None:
    starter = crawl.stranger()
    starter.join()
    starter.commit(is_starting=True)
    crawl.kill(starter)
    assert crawl.stranger("w2").join().start == StartRole.YOURS


def test_a_start_not_begun_is_not_done_by_a_worker_that_dies_before_its_first_commit(crawl: CrawlDesk) -> None:
    starter, sibling = crawl.stranger("w1"), crawl.stranger("w2")
    assert starter.join().start == StartRole.YOURS
    sibling.join()
    crawl.kill(starter)
    assert sibling.commit().start == StartRole.YOURS


def test_whoever_does_not_hold_the_start_does_not_end_it(crawl: CrawlDesk) -> None:
    starter, sibling = starter_and_sibling(crawl)
    sibling.commit(is_starting=False)
    assert sibling.commit().start == StartRole.WAIT
    assert starter.commit(is_starting=True).start == StartRole.YOURS


def test_whoever_lapsed_at_its_start_goes_on_if_the_part_is_free(crawl: CrawlDesk) -> None:
    starter, sibling = starter_and_sibling(crawl)
    crawl.kill(starter)
    assert starter.join(is_new_life=False).start == StartRole.YOURS
    assert sibling.commit().start == StartRole.WAIT


def test_whoever_lapsed_at_its_start_finds_it_taken(crawl: CrawlDesk) -> None:
    starter, sibling = starter_and_sibling(crawl)
    crawl.kill(starter)
    assert sibling.commit().start == StartRole.YOURS
    assert starter.join(is_new_life=False).start == StartRole.WAIT
    sibling.commit()
    assert starter.commit().start == StartRole.DONE


def test_a_crawl_is_over_when_its_start_brought_nothing(crawl: CrawlDesk) -> None:
    starter, sibling = starter_and_sibling(crawl)
    assert not starter.commit(is_starting=True, want=5).is_over
    assert not sibling.commit(want=5).is_over
    starter.commit(want=5)
    assert starter.commit(want=5).is_over
    assert sibling.commit(want=5).is_over
    assert crawl.view().is_over


def test_a_crawl_is_not_over_while_something_is_in_flight_anywhere(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    one.push("a")
    leased = one.take_one()
    for worker in (other, one):
        assert not worker.commit(want=5).is_over
    assert not crawl.view().is_over
    assert one.commit(a_push("b"), done=acknowledge(leased)).is_over is False
    assert not other.commit().is_over
    one.finish(*one.take(1))
    assert one.commit().is_over
    assert other.commit().is_over


def test_the_commit_that_ends_the_last_page_says_so(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    assert worker.finish(worker.take_one(), want=3).is_over


def test_a_crawl_is_not_over_while_a_worker_holds_something_back(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    assert not one.commit(has_more=True).is_over
    assert not other.commit().is_over
    assert not crawl.view().is_over
    one.commit()
    assert other.commit().is_over


@pytest.mark.parametrize("how", ["killed", "left"])
def test_what_a_gone_worker_held_back_keeps_no_crawl_from_its_end(crawl: CrawlDesk, how: str) -> None:
    one, other = crawl.workers(2)
    one.commit(has_more=True)
    if how == "killed":
        crawl.kill(one)
    else:
        one.leave()
    assert other.commit().is_over


def test_a_crawl_is_not_over_while_a_dead_worker_may_have_held_something(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    one.push("a")
    one.take_one()
    crawl.lapse(one)
    answer = other.commit()
    assert not answer.is_over
    assert other.work_off() == ["a"]


def test_what_is_dead_or_blocked_keeps_no_crawl_from_its_end(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    one, other = worker.take(2)
    answer = worker.commit(done=[Done(one.entry, Disposition.DEAD), Done(other.entry, Disposition.BLOCKED)])
    assert answer.is_over


def test_a_crawl_goes_on_when_something_comes(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    assert worker.commit().is_over
    crawl.seed("a")
    assert not worker.commit().is_over
    assert worker.work_off() == ["a"]
    assert worker.commit().is_over
    worker.push("b")
    assert not worker.commit().is_over


def test_the_time_without_work_is_the_crawls(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    one.push("a")
    leased = one.take_one()
    assert other.commit().idle_s == 0.0
    one.finish(leased)
    wait_until(lambda: other.commit().idle_s > 0.05, deadline_s=10, what="time to go by")
    assert one.commit().idle_s > 0.05
    one.push("b")
    assert other.commit().idle_s == 0.0
    one.work_off()
    assert other.commit().idle_s < 5


def test_the_last_to_leave_a_finished_crawl_clears_it(crawl: CrawlDesk) -> None:
    one, other = crawl.workers(2)
    one.push("a", filter=Filter.SEEN)
    one.finish(one.take_one(), items=[b"item"])
    assert other.commit().is_over
    assert not one.leave(is_finished=True)
    assert crawl.view().seen == 1
    assert other.leave(is_finished=True)

    assert crawl.crawls.view(BOOKS) is None or crawl.view().seen == 0
    assert not crawl.redis.exists("books:requests", "books:dupefilter", "books:start_urls")
    assert crawl.items() == [b"item"], "its items are not the frontier's"
    again = crawl.worker("w3")
    assert again.push("a", filter=Filter.SEEN).duplicates == ()


def test_a_last_leave_whose_answer_was_lost_drops_the_seen_set_when_it_is_sent_again(
    crawl: CrawlDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = crawl.worker()
    worker.push(*map(str, range(50)), filter=Filter.SEEN)
    worker.work_off(at_once=50)

    def is_lost(*_: object) -> None:
        raise StoreUnreachableError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(redis_frontier, "sweep", is_lost)
        with pytest.raises(StoreUnreachableError):
            worker.leave(is_finished=True)
    assert list(crawl.redis.scan_iter("books:dupefilter*"))
    worker.leave(is_finished=True)
    assert list(crawl.redis.scan_iter("books:dupefilter*")) == []


def test_a_finished_crawl_leaves_its_items_and_little_else(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b", filter=Filter.START)
    worker.commit(a_push("c"), loose_items=[b"x"])
    worker.work_off(at_once=5)
    assert worker.leave(is_finished=True)
    left = {key for key in crawl.redis.scan_iter("books*") if crawl.redis.ttl(key) == -1}
    assert left == {b"books:items"}


def test_a_crawl_that_persists_is_kept(crawl: CrawlDesk) -> None:
    crawl.plan = a_plan(persists=True)
    worker = crawl.worker()
    worker.push("a", filter=Filter.SEEN)
    worker.work_off()
    assert worker.commit().is_over
    assert not worker.leave(is_finished=True)
    view = crawl.view()
    assert (view.seen, view.pages, view.workers) == (1, 1, ())
    assert crawl.worker("w2").push("a", filter=Filter.SEEN).duplicates == (0,)


def test_a_crawl_that_is_not_over_is_not_cleared(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b", filter=Filter.SEEN)
    worker.take_one()
    assert not worker.leave(is_finished=True)
    assert crawl.view().pending == 2
    assert crawl.worker("w2").work_off() == ["a", "b"]


def test_a_crawl_with_seeds_is_not_cleared(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    crawl.seed("a")
    assert not worker.leave(is_finished=True)
    assert crawl.worker("w2").work_off() == ["a"]


def test_a_worker_that_only_stops_clears_nothing(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", filter=Filter.SEEN)
    worker.work_off()
    assert worker.commit().is_over
    assert not worker.leave()
    assert crawl.view().seen == 1


def test_a_crawl_in_its_start_is_not_cleared(crawl: CrawlDesk) -> None:
    starter, sibling = starter_and_sibling(crawl)
    starter.leave()
    assert not sibling.leave(is_finished=True)
    assert crawl.stranger("w3").join().start == StartRole.YOURS


def test_a_lapsed_worker_is_no_sibling_to_wait_for(crawl: CrawlDesk) -> None:
    dead, last = crawl.workers(2)
    crawl.lapse(dead)
    assert last.commit().is_over
    assert last.leave(is_finished=True)


def test_a_lapsed_worker_that_leaves_clears_nothing_of_its_siblings(crawl: CrawlDesk) -> None:
    late, sibling = crawl.workers(2)
    crawl.kill(late)
    sibling.push("a", filter=Filter.SEEN)
    sibling.finish_all()
    assert not late.leave(is_finished=True)
    assert sibling.work_off() == ["a"]
    assert sibling.commit().is_over
    assert not late.leave(is_finished=True)
    assert sibling.commit().verdict == Verdict.DONE
    assert crawl.view().seen == 1


def test_whoever_leaves_under_an_old_token_takes_nothing_from_its_successor(crawl: CrawlDesk) -> None:
    old = crawl.worker("w1")
    new = crawl.worker("w1")
    new.push("a")
    leased = new.take_one()
    old.leave(is_finished=True)
    assert new.finish(leased).refused == 0


def test_a_commit_after_leaving_is_not_done(crawl: CrawlDesk) -> None:
    leaver, sibling = crawl.workers(2)
    leaver.push("a")
    leaver.take_one()
    leaver.leave()
    answer = leaver.frontier.commit(leaver.draft(a_push("b"), want=5))
    assert answer.verdict in {Verdict.LAPSED, Verdict.ROLLED_BACK}
    assert sibling.work_off() == ["a"]
    assert not leaver.leave()


def test_a_crawl_with_live_workers_is_not_cleared_by_accident(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    before = crawl.dump()
    with pytest.raises(RefusedError, match="books"):
        crawl.crawls.clear(BOOKS)
    assert crawl.dump() == before


def test_a_crawl_of_lapsed_workers_may_be_cleared(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    crawl.lapse(worker)
    crawl.crawls.clear(BOOKS)
    assert list(crawl.crawls.all()) == []


def test_a_forced_clear_is_found_by_those_who_live(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b", filter=Filter.SEEN)
    leased = worker.take_one()
    crawl.seed("s")
    worker.commit(loose_items=[b"x"])
    crawl.crawls.clear(BOOKS, force=True)
    assert crawl.crawls.view(BOOKS) is None
    assert crawl.redis.exists("books:start_urls") == 0
    assert crawl.redis.exists("books:items") == 1
    answer = worker.frontier.commit(worker.draft(a_push("c"), done=acknowledge(leased)))
    assert answer.verdict in {Verdict.LAPSED, Verdict.ROLLED_BACK}
    assert crawl.crawls.view(BOOKS) is None
    assert not crawl.redis.exists("books:requests")


def test_a_clear_may_keep_what_was_seen(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b", filter=Filter.SEEN)
    worker.leave()
    crawl.crawls.clear(BOOKS, keep_seen=True)
    again = crawl.worker("w2")
    assert crawl.view().pending == 0
    assert again.push("a", "c", filter=Filter.SEEN).duplicates == (0,)


def test_a_clear_may_take_the_items(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(loose_items=[b"x"])
    worker.leave()
    crawl.crawls.clear(BOOKS, keep_items=False)
    assert list(crawl.redis.scan_iter("books*")) == []


def test_clearing_what_is_not_there_does_nothing(crawl: CrawlDesk) -> None:
    crawl.worker()
    crawl.crawls.clear(CrawlId("never joined"))
    assert len(crawl.crawls.all()) == 1


def test_handing_back_all_leaves_a_crawl_unfinished(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    answer = worker.commit(done=hand_back(worker.take_one()))
    assert not answer.is_over
    assert not worker.leave(is_finished=True)


def test_a_crawl_is_cleared_although_a_worker_was_killed_shortly_before_its_end(crawl: CrawlDesk) -> None:
    last, dead = crawl.workers(2)
    last.push("a", filter=Filter.SEEN)
    last.finish(last.take_one())
    assert last.commit().is_over
    last.leave(is_finished=True)
    crawl.lapse(dead)
    assert crawl.worker("next run").push("a", filter=Filter.SEEN).duplicates == ()


def test_the_next_run_does_not_wait_for_the_lease_of_a_worker_that_died_at_the_end(crawl: CrawlDesk) -> None:
    last, dead = crawl.workers(2)
    last.push("a", filter=Filter.SEEN)
    last.finish(last.take_one())
    last.leave(is_finished=True)
    fresh = crawl.worker("next run")
    assert fresh.push("a", filter=Filter.SEEN).duplicates == ()
    assert dead.send(dead.draft()).verdict is Verdict.LAPSED
    assert len(fresh.take(1)) == 1


def test_a_worker_that_slept_through_the_end_of_its_crawl_does_not_begin_it_anew(crawl: CrawlDesk) -> None:
    frozen, sibling = crawl.workers(2)
    frozen.commit(a_push("a", filter=Filter.START), is_starting=True)
    crawl.lapse(frozen)
    sibling.commit(a_push("a", filter=Filter.START), a_push("b", filter=Filter.START), is_starting=True)
    sibling.commit()
    assert sorted(sibling.work_off()) == ["a", "b"]
    assert sibling.leave(is_finished=True)
    assert frozen.send(frozen.draft()).verdict is Verdict.LAPSED
    assert frozen.frontier.join(frozen.name, ttl_s=30, is_new_life=False).is_over
    crawl.worker("next run")
    assert frozen.frontier.join(frozen.name, ttl_s=30, is_new_life=False).is_over
