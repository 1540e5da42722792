"""Redis may come back older than its workers: they bring back what they hold and did, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.crawl_desk import CrawlDesk, Worker, a_plan, a_push, acknowledge, fingerprint_of, hand_back, texts

from toolkit.model.crawls import (
    Disposition,
    DomainLimit,
    Done,
    EntryId,
    Filter,
    Leased,
    QueueOrder,
    SeenKind,
    Taken,
    Verdict,
)


def go_on(worker: Worker, *taken: Leased, number: int) -> None:
    """Let a worker that was told of the rollback keep these entries."""
    prints = [b"" if leased.is_seed else fingerprint_of(leased.body) for leased in taken]
    worker.token = worker.frontier.rejoin(
        worker.name,
        worker.token,
        number=number,
        ttl_s=worker.ttl_s,
        taken=[Taken(leased, each) for leased, each in zip(taken, prints, strict=True)],
    )
    worker.number = number
    worker.in_hand = {leased.entry: leased for leased in taken}


def held(worker: Worker) -> set[EntryId]:
    return set(worker.frontier.held(worker.name, worker.token))


@pytest.fixture(params=list(QueueOrder))
def worker(request: pytest.FixtureRequest, crawl: CrawlDesk) -> Worker:
    crawl.plan = a_plan(order=request.param)
    return crawl.worker()


def test_an_older_redis_is_noticed_and_nothing_is_done(crawl: CrawlDesk, worker: Worker) -> None:
    worker.push("a")
    dump, known = crawl.dump(), worker.number
    worker.push("b")
    worker.push("c")
    crawl.restore(dump)
    answer = worker.send(worker.draft(a_push("d"), want=5, loose_items=[b"x"]))
    assert (answer.verdict, answer.known, answer.leased) == (Verdict.ROLLED_BACK, known, ())
    assert (crawl.view().pending, crawl.items()) == (1, [])


def test_a_redis_from_before_the_worker_knows_nothing_of_it(crawl: CrawlDesk) -> None:
    crawl.worker("w0")
    dump = crawl.dump()
    worker = crawl.worker("w1")
    worker.push("a")
    leased = worker.take_one()
    crawl.restore(dump)
    answer = worker.send(worker.draft())
    assert (answer.verdict, answer.known) == (Verdict.ROLLED_BACK, -1)
    token = worker.token
    go_on(worker, leased, number=worker.number)
    assert worker.token > token
    assert held(worker) == {leased.entry}
    worker.finish(leased)
    assert worker.commit().is_over


def test_an_empty_redis_knows_nothing_of_anybody(crawl: CrawlDesk, worker: Worker) -> None:
    worker.push("a", "b", filter=Filter.SEEN)
    leased = worker.take_one()
    crawl.redis.flushall()
    assert worker.send(worker.draft()).known == -1
    go_on(worker, leased, number=worker.number)
    assert held(worker) == {leased.entry}
    assert worker.commit(a_push(leased.body, filter=Filter.SEEN)).duplicates == (0,)
    worker.finish(leased)
    assert crawl.crawls.plan(crawl.plan.crawl) == crawl.plan


def test_the_budgets_that_a_crawl_begins_with_hold_in_an_empty_redis_too(crawl: CrawlDesk) -> None:
    crawl.plan = replace(a_plan(), limits=(DomainLimit("slow.example", concurrency=1),))
    worker = crawl.worker()
    worker.push(*(f"https://slow.example/{number}" for number in range(3)))
    leased = worker.take_one()
    crawl.redis.flushall()
    go_on(worker, leased, number=worker.number)
    assert crawl.view().limits == crawl.plan.limits
    worker.push("https://slow.example/1", "https://slow.example/2")
    assert worker.take(3) == []
    worker.finish(leased)
    assert len(worker.take(3)) == 1


def test_the_end_of_a_crawl_that_redis_had_forgotten_is_told_under_its_name(crawl: CrawlDesk) -> None:
    crawl.plan = replace(a_plan(), run="run-1")
    worker = crawl.worker()
    crawl.redis.flushall()
    go_on(worker, number=worker.number)
    begin, _ = crawl.crawls.ends(after=None)
    while not worker.commit().is_over:
        pass
    worker.leave(is_finished=True)
    assert [end.crawl for end in crawl.crawls.ends(after=begin)[1]] == [crawl.plan.crawl]
    assert crawl.stranger("late").join().is_over


def test_an_operators_budgets_are_not_changed_by_a_rejoin(crawl: CrawlDesk) -> None:
    crawl.plan = replace(a_plan(), limits=(DomainLimit("slow.example", concurrency=1),))
    worker = crawl.worker()
    crawl.crawls.limit(crawl.plan.crawl, DomainLimit("slow.example"))
    go_on(worker, number=worker.number)
    assert crawl.view().limits == ()


def test_what_a_worker_keeps_is_taken_from_where_it_waits(crawl: CrawlDesk, worker: Worker) -> None:
    worker.push("a", "b", "c", filter=Filter.SEEN)
    dump = crawl.dump()
    taken = worker.take(2)
    crawl.restore(dump)
    assert worker.send(worker.draft()).verdict == Verdict.ROLLED_BACK
    go_on(worker, *taken, number=worker.number)
    view = crawl.view()
    assert (view.pending, view.in_flight, view.seen) == (1, 2, 3)
    assert held(worker) == {leased.entry for leased in taken}
    worker.finish(*taken)
    assert len(worker.work_off()) == 1
    assert worker.commit().is_over


def test_what_a_worker_keeps_may_be_handed_back_to_its_place(crawl: CrawlDesk, worker: Worker) -> None:
    worker.push("a", "b", "c", "d", filter=Filter.SEEN)
    dump = crawl.dump()
    order = worker.take(4)
    crawl.restore(dump)
    worker.send(worker.draft())
    go_on(worker, *order, number=worker.number)
    worker.commit(done=hand_back(*order))
    assert worker.work_off() == texts(order)


@pytest.mark.parametrize("seen", list(SeenKind))
def test_what_redis_has_never_heard_of_is_kept_and_seen(crawl: CrawlDesk, seen: SeenKind) -> None:
    worker = crawl.worker(plan=a_plan(seen=seen))
    dump = crawl.dump()
    worker.push("a", filter=Filter.SEEN)
    leased = worker.take_one()
    crawl.restore(dump)
    assert worker.send(worker.draft()).known == 1
    go_on(worker, leased, number=worker.number)
    assert crawl.view().seen == 1
    assert worker.push("a", filter=Filter.SEEN).duplicates == (0,)
    worker.finish(leased, items=[b"x"])
    assert crawl.items() == [b"x"]
    assert worker.commit().is_over


def test_numbers_go_on_under_the_new_token(crawl: CrawlDesk, worker: Worker) -> None:
    dump = crawl.dump()
    for body in "abc":
        worker.push(body)
    crawl.restore(dump)
    worker.send(worker.draft())
    old = worker.token
    go_on(worker, number=worker.number)
    assert worker.token > old
    commit = worker.draft(a_push("a"))
    assert worker.send(commit).verdict == Verdict.DONE
    assert worker.frontier.commit(commit).verdict == Verdict.REPEATED
    assert crawl.view().pending == 1


def test_an_old_commit_cannot_come_late_to_a_worker_that_rejoined(crawl: CrawlDesk, worker: Worker) -> None:
    dump = crawl.dump()
    worker.push("a")
    late = worker.draft(a_push("late"))
    crawl.restore(dump)
    worker.send(late)
    go_on(worker, number=worker.number)
    assert worker.frontier.commit(late).verdict != Verdict.DONE
    assert crawl.view().pending == 0


def test_a_rejoin_sent_again_changes_nothing_more(crawl: CrawlDesk, worker: Worker) -> None:
    worker.push("a", "b")
    dump = crawl.dump()
    taken = worker.take(1)
    crawl.restore(dump)
    worker.send(worker.draft())
    old = worker.token
    go_on(worker, *taken, number=worker.number)
    # Its answer was lost: the worker asks again, under the token that it knows.
    worker.token = old
    go_on(worker, *taken, number=worker.number)
    assert held(worker) == {taken[0].entry}
    assert (crawl.view().pending, crawl.view().in_flight) == (1, 1)
    worker.finish(*taken)
    assert len(worker.work_off()) == 1
    assert worker.commit().is_over


def test_what_a_quicker_sibling_holds_is_done_once(crawl: CrawlDesk, worker: Worker) -> None:
    worker.push("a")
    sibling = crawl.worker("w2")
    dump = crawl.dump()
    leased = worker.take_one()
    crawl.restore(dump)
    (again,) = sibling.take(1)
    assert again.entry == leased.entry
    worker.send(worker.draft())
    go_on(worker, leased, number=worker.number)
    assert len(held(worker)) + len(held(sibling)) == 1
    refused = worker.finish(leased, items=[b"x"]).refused + sibling.finish(again, items=[b"x"]).refused
    assert (refused, crawl.items()) == (1, [b"x"])
    assert worker.commit().is_over
    assert sibling.commit().is_over


@pytest.mark.parametrize("shelf", ["dead", "blocked", "less dead"])
def test_what_a_worker_keeps_is_on_no_other_shelf(crawl: CrawlDesk, worker: Worker, shelf: str) -> None:
    worker.push("a")
    if shelf != "less dead":
        disposition = Disposition.DEAD if shelf == "dead" else Disposition.BLOCKED
        worker.commit(done=[Done(worker.take_one().entry, disposition)])
    dump = crawl.dump()
    if shelf == "less dead":
        victim = crawl.worker("victim")
        victim.take_one()
        crawl.kill(victim)
    crawl.crawls.requeue(crawl.plan.crawl)
    crawl.crawls.unblock(crawl.plan.crawl, [])
    leased = worker.take_one()
    crawl.restore(dump)
    worker.send(worker.draft())
    go_on(worker, leased, number=worker.number)
    view = crawl.view()
    assert (view.in_flight, view.pending, view.dead, view.blocked) == (1, 0, 0, 0)


def test_what_redis_still_has_in_the_workers_hands_stays_there(crawl: CrawlDesk, worker: Worker) -> None:
    worker.push("a", "b")
    kept, done = worker.take(2)
    dump = crawl.dump()
    worker.finish(done)
    crawl.restore(dump)
    worker.send(worker.draft())
    go_on(worker, kept, number=worker.number)
    # It was ended after the dump: Redis has it in hand again, and the worker ends it again.
    assert held(worker) == {kept.entry, done.entry}
    assert worker.finish(done).refused == 0
    worker.finish(kept)
    assert worker.commit().is_over


def test_a_seed_that_was_taken_is_kept(crawl: CrawlDesk, worker: Worker) -> None:
    crawl.seed("s1", "s2")
    dump = crawl.dump()
    leased = worker.take_one()
    assert leased.is_seed
    crawl.restore(dump)
    worker.send(worker.draft())
    go_on(worker, leased, number=worker.number)
    assert held(worker) == {leased.entry}
    worker.finish(leased)
    bodies = worker.work_off()
    # A seed has no name of its own before it is taken: it may be done twice, never less than once.
    assert set(bodies) >= {"s2"}
    assert len(bodies) <= 2
    assert worker.commit().is_over


def test_a_whole_history_is_played_again(crawl: CrawlDesk, worker: Worker) -> None:
    worker.push("root", filter=Filter.SEEN)
    dump = crawl.dump()
    known = worker.number
    journal = []
    for _ in range(10):
        commit = worker.draft(want=1)
        answer = worker.send(commit)
        journal.append((commit, answer.leased))
        for leased in answer.leased:
            name = leased.body.decode()
            pushes = [a_push(f"{name}/{child}", filter=Filter.SEEN) for child in range(2)]
            commit = worker.draft(*pushes, done=acknowledge(leased, items=[leased.body]))
            journal.append((commit, worker.send(commit).leased))
    crawl.restore(dump)
    answer = worker.send(worker.draft())
    assert (answer.verdict, answer.known) == (Verdict.ROLLED_BACK, known)
    taken = [leased for commit, leased_then in journal for leased in leased_then if commit.number > known]
    go_on(worker, *taken, number=worker.number)
    for commit, _ in journal:
        worker.commit(*commit.pushes, done=commit.done)
    assert held(worker) == set()
    assert sorted(crawl.items()) == sorted({leased.body for leased in taken})
    before = {leased.body for leased in taken}
    after = set(worker.work_off(at_once=5))
    pushed = {push.body for commit, _ in journal for push in commit.pushes} | {b"root"}
    assert {body.encode() for body in after} | before >= pushed


def test_a_run_whose_join_redis_has_forgotten_is_over_with_the_crawl(crawl: CrawlDesk) -> None:
    first = crawl.worker("w1", plan=replace(a_plan(), run="job-1"))
    dump = crawl.dump()
    second = crawl.worker("w2", plan=replace(a_plan(), run="job-2"))
    crawl.restore(dump)
    assert second.send(second.draft()).verdict is Verdict.ROLLED_BACK
    go_on(second, number=second.number)
    second.commit()
    first.leave(is_finished=True)
    second.leave(is_finished=True)
    assert crawl.stranger("late", plan=replace(a_plan(), run="job-2")).join().is_over


def test_a_crawl_is_not_over_until_what_is_missing_was_sent_again(crawl: CrawlDesk) -> None:
    late, sibling = crawl.workers(2)
    dump = crawl.dump()
    late.push("a", "b")
    crawl.restore(dump)
    assert late.send(late.draft()).verdict is Verdict.ROLLED_BACK
    go_on(late, number=late.number)
    assert not sibling.commit().is_over
    assert not late.commit(a_push("a"), has_more=True).is_over
    assert sibling.work_off() == ["a"]
    assert not sibling.commit().is_over
    late.push("b")
    assert sibling.work_off() == ["b"]
    assert sibling.commit().is_over


def test_a_worker_that_was_told_the_crawls_name_leaves_it_to_its_project_when_it_rejoins(crawl: CrawlDesk) -> None:
    owner = crawl.worker("w1")
    guest = crawl.worker("w2", plan=replace(a_plan(), project="news", digest="d", arguments="tag=1", is_named=True))
    go_on(guest, number=guest.number)
    assert crawl.crawls.plan(crawl.plan.crawl) == crawl.plan
    owner.leave()
    assert crawl.worker("w3").commit()


def test_ids_stay_above_those_in_hand_when_the_clock_of_redis_is_behind(crawl: CrawlDesk, worker: Worker) -> None:
    dump = crawl.dump()
    worker.push("a")
    leased = worker.take_one()
    crawl.restore(dump)
    assert worker.send(worker.draft()).verdict is Verdict.ROLLED_BACK
    ahead = EntryId((int.from_bytes(leased.entry, "big") + 3_600_000_000).to_bytes(8, "big"))
    go_on(worker, replace(leased, entry=ahead), number=worker.number)
    worker.push("b")
    assert worker.take_one().entry > ahead
