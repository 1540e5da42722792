"""What dead workers held goes on elsewhere; what kills its workers is run alone, and then put away."""

from __future__ import annotations

import pytest
from support.crawl_desk import LONG_S, SOON_S, CrawlDesk, Worker, a_plan, a_push, acknowledge, hand_back, texts
from support.waiting import wait_until

from toolkit.model.crawls import Disposition, Done, Leased, Shelf, Verdict
from toolkit.model.names import CrawlId, WorkerName

BOOKS = CrawlId("books")


def die_with(crawl: CrawlDesk, body: str, *, times: int, first: int = 0) -> None:
    """Let so many workers die with nothing in their hands but this entry."""
    for number in range(first, first + times):
        worker = crawl.worker(f"victim-{number}")
        seen: list[Leased] = []
        while not any(leased.body == body.encode() for leased in worker.in_hand.values()):
            leased = worker.take_one()
            seen.append(leased)
            assert len(seen) < 1000
        others = [leased for leased in worker.in_hand.values() if leased.body != body.encode()]
        worker.commit(done=hand_back(*others))
        crawl.kill(worker)


def test_what_a_killed_worker_held_goes_back_at_once(crawl: CrawlDesk) -> None:
    dead, heir = crawl.workers(2)
    dead.push(*"abc")
    assert len(dead.take(2)) == 2
    assert crawl.crawls.release(dead.name, has_died=True)
    view = crawl.view()
    assert (view.pending, view.in_flight) == (3, 0)
    assert [worker.name for worker in view.workers] == [heir.name]
    taken = heir.take(9)
    assert [(leased.body, leased.deaths) for leased in taken] == [(b"a", 1), (b"b", 1), (b"c", 0)]


def test_what_a_worker_held_that_was_stopped_with_its_node_goes_back_without_a_death(crawl: CrawlDesk) -> None:
    stopped, heir = crawl.workers(2)
    stopped.push(*"abc")
    first, _ = stopped.take(2)
    late = stopped.draft(done=acknowledge(first))
    assert crawl.crawls.release(stopped.name, has_died=False)
    view = crawl.view()
    assert (view.pending, view.in_flight) == (3, 0)
    assert [worker.name for worker in view.workers] == [heir.name]
    assert stopped.send(late).verdict is not Verdict.DONE
    assert [(leased.body, leased.deaths) for leased in heir.take(9)] == [(b"a", 0), (b"b", 0), (b"c", 0)]
    assert not crawl.crawls.release(stopped.name, has_died=False)
    assert not crawl.crawls.release(stopped.name, has_died=True)


def test_a_worker_is_released_once(crawl: CrawlDesk) -> None:
    dead, heir = crawl.workers(2)
    dead.push("a")
    dead.take_one()
    crawl.kill(dead, dead, dead)
    assert heir.take_one().deaths == 1
    crawl.kill(dead)
    assert crawl.view().in_flight == 1


def test_nobody_is_released_whom_nobody_knows(crawl: CrawlDesk) -> None:
    crawl.worker()
    assert not crawl.crawls.release(WorkerName("never seen"), has_died=True)
    assert not crawl.crawls.release(WorkerName(""), has_died=True)


def test_a_worker_that_left_cannot_die(crawl: CrawlDesk) -> None:
    leaver, heir = crawl.workers(2)
    leaver.push("a")
    leaver.take_one()
    leaver.leave()
    crawl.kill(leaver)
    assert heir.take_one().deaths == 0


def test_a_release_finds_the_crawl_of_its_worker(crawl: CrawlDesk) -> None:
    for name in ("a", "b"):
        worker = crawl.worker(f"worker of {name}", plan=a_plan(name))
        worker.push("x")
        worker.take_one()
    assert crawl.crawls.release(WorkerName("worker of b"), has_died=True)
    assert [crawl.view(name).in_flight for name in ("a", "b")] == [1, 0]


def test_a_lapsed_lease_is_ended_by_a_siblings_commit(crawl: CrawlDesk) -> None:
    dead, heir = crawl.workers(2)
    dead.push("a")
    dead.take_one()
    crawl.lapse(dead)
    leased = heir.take_one()
    assert (leased.body, leased.deaths) == (b"a", 1)
    assert heir.commit().workers == 1


def test_a_lease_that_runs_out_by_itself_ends(crawl: CrawlDesk) -> None:
    dead, heir = crawl.workers(2)
    dead.push("a")
    dead.take_one()
    assert heir.take() == []
    assert dead.frontier.renew(dead.name, dead.token, ttl_s=0.3)
    wait_until(heir.take, deadline_s=SOON_S, what="the entry of the silent worker")
    assert dead.send(dead.draft()).verdict == Verdict.LAPSED


def test_many_dead_workers_lose_nothing(crawl: CrawlDesk) -> None:
    workers = crawl.workers(40)
    heir = crawl.worker("heir")
    heir.push(*(f"{number:03}" for number in range(400)))
    for worker in workers:
        worker.take(10)
    crawl.lapse(*workers)
    done: list[str] = []

    def is_done() -> bool:
        done.extend(heir.work_off(at_once=50))
        return len(done) >= 400

    wait_until(is_done, deadline_s=30, what="all entries of the dead")
    assert sorted(done) == [f"{number:03}" for number in range(400)]
    assert heir.commit().is_over


def test_from_the_second_death_on_an_entry_is_suspect_and_runs_alone(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("bad")
    die_with(crawl, "bad", times=2)
    assert crawl.view().suspects == 1
    (suspect,) = crawl.crawls.peek(BOOKS, Shelf.SUSPECT, limit=5)
    assert (suspect.leased.body, suspect.leased.deaths) == (b"bad", 2)

    worker.push(*"abcdefghij")
    done: list[str] = []
    for _ in range(100):
        leased = worker.take(4)
        if not leased:
            break
        if any(each.deaths >= 2 for each in leased):
            assert texts(leased) == ["bad"]
            assert worker.take(4) == []
        done += texts(leased)
        worker.finish(*leased)
    assert sorted(done) == sorted([*"abcdefghij", "bad"])
    assert worker.commit().is_over


def test_a_worker_with_full_hands_gets_no_suspect(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("bad")
    die_with(crawl, "bad", times=2)
    worker.push("a", "b")
    first = worker.take(1)
    if texts(first) == ["bad"]:
        assert worker.take(5) == []
        worker.finish(*first)
        first = worker.take(1)
    assert all(leased.deaths == 0 for leased in worker.take(5))


def test_a_suspect_waits_only_for_its_own_worker(crawl: CrawlDesk) -> None:
    worker, other = crawl.workers(2)
    worker.push("bad")
    die_with(crawl, "bad", times=2)
    suspect = worker.take_one()
    assert suspect.deaths == 2
    worker.push(*"abcd")
    assert other.take(4) != []
    assert worker.take(4) == []


def test_of_several_suspects_no_worker_holds_two(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    for body in ("bad", "worse"):
        worker.push(body)
    for number in range(2):
        victim = crawl.worker(f"victim-{number}")
        while len(victim.in_hand) < 2:
            victim.take(2)
        crawl.kill(victim)
    assert crawl.view().suspects == 2
    other, done = crawl.worker("w2"), []
    for _ in range(4):
        for each in (worker, other):
            assert len(each.take(5)) <= 1
            done += texts([*each.in_hand.values()])
            each.finish_all()
    assert sorted(done) == ["bad", "worse"]


def test_a_suspect_that_does_well_is_done(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("bad")
    die_with(crawl, "bad", times=3)
    worker.finish(worker.take_one(), items=[b"x"])
    assert (crawl.view().pages, crawl.items(), crawl.view().suspects) == (1, [b"x"], 0)
    assert worker.commit().is_over


def test_a_suspect_handed_back_is_still_suspect(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("bad")
    die_with(crawl, "bad", times=2)
    worker.commit(done=hand_back(worker.take_one()))
    assert crawl.view().suspects == 1
    assert worker.take_one().deaths == 2


def test_a_suspect_whose_worker_left_is_still_suspect(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("bad")
    die_with(crawl, "bad", times=2)
    worker.take_one()
    worker.leave()
    assert crawl.view().suspects == 1
    assert crawl.worker("w2").take_one().deaths == 2


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_what_killed_enough_workers_goes_to_the_dead_list(crawl: CrawlDesk, most: int) -> None:
    crawl.plan = a_plan(max_deliveries=most)
    worker = crawl.worker()
    worker.push("bad", "good")
    die_with(crawl, "bad", times=most)
    view = crawl.view()
    assert (view.dead, view.pending, view.suspects) == (1, 1, 0)
    (dead,) = crawl.crawls.peek(BOOKS, Shelf.DEAD, limit=5)
    assert (dead.leased.body, dead.leased.deaths) == (b"bad", most)
    assert dead.why
    assert worker.work_off() == ["good"]
    assert worker.commit().is_over


def test_only_the_guilty_one_ends_on_the_dead_list(crawl: CrawlDesk) -> None:
    worker = crawl.worker("starter")
    worker.push("poison", *(f"innocent {number}" for number in range(30)))
    worker.leave()
    done: list[str] = []
    for life in range(200):
        worker = crawl.worker(f"life-{life}")
        while True:
            leased = worker.take(8)
            if b"poison" in {each.body for each in leased}:
                crawl.kill(worker)
                break
            if not leased:
                break
            # One at a time, as pages end.
            done += texts(leased[:1])
            worker.finish(leased[0])
            worker.commit(done=hand_back(*leased[1:]))
        if crawl.view().dead and not crawl.view().pending:
            break
    assert len(done) == len(set(done)) == 30
    dead = crawl.crawls.peek(BOOKS, Shelf.DEAD, limit=50)
    assert texts([entry.leased for entry in dead]) == ["poison"]


def test_a_dead_entry_may_be_put_back_with_no_death_counted(crawl: CrawlDesk) -> None:
    crawl.plan = a_plan(max_deliveries=1)
    worker = crawl.worker()
    worker.push("a", "b", "c")
    for body in "abc":
        die_with(crawl, body, times=1, first=ord(body))
    dead = crawl.crawls.peek(BOOKS, Shelf.DEAD, limit=5)
    assert len(dead) == 3
    b = next(entry for entry in dead if entry.leased.body == b"b")
    assert crawl.crawls.requeue(BOOKS, [b.leased.entry]) == 1
    assert crawl.crawls.requeue(BOOKS, [b.leased.entry]) == 0
    leased = worker.take_one()
    assert (leased.body, leased.deaths, leased.entry) == (b"b", 0, b.leased.entry)
    worker.finish(leased)
    assert crawl.crawls.requeue(BOOKS) == 2
    assert worker.work_off() == ["a", "c"]
    assert crawl.view().dead == 0
    assert crawl.crawls.requeue(BOOKS) == 0


def test_what_its_worker_gave_up_may_be_put_back(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.commit(a_push("low", priority=-1), a_push("high", priority=7), a_push("mid"))
    high = worker.take_one()
    worker.commit(done=[Done(high.entry, Disposition.DEAD, why="cannot be read")])
    assert crawl.crawls.requeue(BOOKS) == 1
    assert worker.work_off() == ["high", "mid", "low"]


def test_a_death_does_not_count_for_what_was_acknowledged(crawl: CrawlDesk) -> None:
    dead, heir = crawl.workers(2)
    dead.push("a", "b")
    taken: list[Leased] = []
    while len(taken) < 2:
        taken += dead.take(2)
    dead.commit(done=acknowledge(taken[0]))
    crawl.kill(dead)
    assert [(leased.body, leased.deaths) for leased in heir.take(5)] == [(b"b", 1)]


def test_whoever_joins_under_a_name_that_died_has_empty_hands(crawl: CrawlDesk) -> None:
    worker = crawl.worker("w1")
    worker.push("a")
    worker.take_one()
    again: Worker = crawl.worker("w1")
    assert list(again.frontier.held(again.name, again.token)) == []
    assert texts(again.take()) == ["a"]


def test_a_page_on_which_workers_of_nodes_fall_silent_is_run_alone_and_then_put_away(crawl: CrawlDesk) -> None:
    heir = crawl.worker("heir")
    heir.push("hangs")
    for number in range(5):
        hung = crawl.worker(f"job-{number}~7.1.1.1:node-1:life")
        assert texts([hung.take_one()]) == ["hangs"]
        for _ in range(4):
            crawl.pass_s(0.3 * LONG_S)
            heir.commit()
    assert [each.shelf for each in crawl.crawls.entries(BOOKS)] == [Shelf.DEAD]


def test_a_page_that_was_not_alone_when_its_worker_fell_silent_is_not_put_away_for_that(crawl: CrawlDesk) -> None:
    heir = crawl.worker("heir")
    heir.commit(*(a_push(body) for body in "ab"))
    for number in range(8):
        cut_off = crawl.worker(f"job-{number}~7.1.1.1:node-1:life")
        if len([*cut_off.take(), *cut_off.take()]) < 2:
            break
        for _ in range(4):
            crawl.pass_s(0.3 * LONG_S)
            heir.commit()
    assert {each.leased.deaths for each in crawl.crawls.entries(BOOKS)} == {2}
