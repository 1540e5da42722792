"""A commit is carried out whole and once: sent again, sent late, sent by nobody, or stopped on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.crawl_desk import CrawlDesk, Worker, a_plan, a_push, acknowledge, hand_back, texts

from toolkit.model.crawls import Commit, Disposition, Done, Filter, ItemsKind, StartRole, Verdict
from toolkit.model.errors import CrawlctlError


def a_full_commit(worker: Worker) -> Commit:
    """Return a commit of everything, by a worker that then has one entry in its hands."""
    worker.push("a")
    leased = worker.take_one()
    return worker.draft(
        a_push("b"),
        a_push("c", filter=Filter.SEEN),
        done=acknowledge(leased, items=[b"item"]),
        want=1,
        loose_items=[b"loose"],
    )


def test_a_commit_sent_again_is_done_once(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    commit = a_full_commit(worker)
    first = worker.frontier.commit(commit)
    after = crawl.view()
    for _ in range(3):
        again = worker.frontier.commit(commit)
        assert again.verdict == Verdict.REPEATED
        assert again.known == commit.number
        assert again.leased == ()
    view = crawl.view()
    assert (view.pages, view.items, view.seen, view.pending, view.in_flight) == (1, 2, 1, 1, 1)
    assert (view.pages, view.pending) == (after.pages, after.pending)
    assert sorted(crawl.items()) == [b"item", b"loose"]
    assert list(worker.frontier.held(worker.name, worker.token)) == [leased.entry for leased in first.leased]


def test_what_a_lost_answer_leased_is_found_and_handed_back(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push(*"abcdef")
    known = worker.take(2)
    lost = worker.draft(done=acknowledge(known[0]), want=3)
    worker.frontier.commit(lost)

    assert worker.send(lost).verdict == Verdict.REPEATED
    held = worker.frontier.held(worker.name, worker.token)
    assert len(held) == 4
    unknown = [entry for entry in held if entry not in worker.in_hand]
    assert len(unknown) == 3
    worker.commit(done=[Done(entry, Disposition.BACK) for entry in unknown])
    assert worker.work_off() == list("cdef")
    worker.finish(known[1])
    assert worker.commit().is_over


def test_the_numbers_go_on_after_a_repeated_commit(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    commit = worker.draft(a_push("a"))
    worker.frontier.commit(commit)
    assert worker.send(commit).verdict == Verdict.REPEATED
    answer = worker.push("b")
    assert answer.known == commit.number + 1
    assert crawl.view().pending == 2


def test_a_commit_that_comes_late_to_its_successor_is_not_done_again(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    early = worker.draft(a_push("a"))
    worker.send(early)
    worker.push("b")
    assert worker.frontier.commit(early).verdict == Verdict.REPEATED
    assert crawl.view().pending == 2
    worker.push("c")
    assert crawl.view().pending == 3


def test_a_commit_ahead_of_its_time_says_that_redis_is_older(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    ahead = replace(worker.draft(a_push("b")), number=worker.number + 2)
    answer = worker.frontier.commit(ahead)
    assert (answer.verdict, answer.known) == (Verdict.ROLLED_BACK, worker.number)
    assert crawl.view().pending == 1


def test_a_commit_of_somebody_unknown_is_not_done(crawl: CrawlDesk) -> None:
    crawl.worker("w1")
    stranger = crawl.stranger("w2")
    stranger.token = 1
    answer = stranger.frontier.commit(stranger.draft(a_push("a"), loose_items=[b"x"]))
    assert (answer.verdict, answer.known) == (Verdict.ROLLED_BACK, -1)
    assert (crawl.view().pending, crawl.items()) == (0, [])


def test_a_commit_to_a_crawl_that_nobody_joined_is_not_done(crawl: CrawlDesk) -> None:
    stranger = crawl.stranger()
    stranger.token = 1
    assert stranger.frontier.commit(stranger.draft(a_push("a"))).known == -1
    assert crawl.crawls.view(crawl.plan.crawl) is None
    assert crawl.redis.exists(crawl.plan.keys.requests) == 0


@pytest.mark.parametrize("how", ["killed", "lapsed", "joined again"])
def test_a_late_commit_under_an_old_token_is_refused_whole(crawl: CrawlDesk, how: str) -> None:
    late, sibling = crawl.workers(2)
    commit = a_full_commit(late)
    if how == "killed":
        crawl.kill(late)
    elif how == "lapsed":
        crawl.lapse(late)
        sibling.commit()
    else:
        late.frontier.join(late.name, ttl_s=60, is_new_life=False)
    before = crawl.view()
    for number in (commit.number, commit.number - 1, commit.number + 1, 1):
        answer = late.frontier.commit(replace(commit, number=number))
        assert answer.verdict == Verdict.LAPSED
        assert answer.known < max(number, commit.number)
    view = crawl.view()
    assert (view.pending, view.items, view.pages, view.seen) == (before.pending, 0, 0, 0)
    assert list(late.frontier.held(late.name, commit.token)) == []
    assert not late.frontier.renew(late.name, commit.token, ttl_s=60)
    assert crawl.items() == []
    assert sibling.work_off() == ["a"]


def test_whoever_lapsed_joins_again_and_goes_on(crawl: CrawlDesk) -> None:
    late, sibling = crawl.workers(2)
    late.push("a", "b")
    late.take(1)
    old = late.token
    crawl.kill(late)
    assert late.send(late.draft()).verdict == Verdict.LAPSED
    joined = late.join(is_new_life=False)
    assert joined.token > old
    assert joined.start == StartRole.DONE
    assert joined.pending == 2
    taken = late.take(5) + sibling.take(5)
    assert sorted(texts(taken)) == ["a", "b"]


def test_a_lapsed_lease_that_nobody_took_back_loses_nothing(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    leased = worker.take_one()
    crawl.lapse(worker)
    answer = worker.send(worker.draft(done=acknowledge(leased, items=[b"x"])))
    if answer.verdict == Verdict.LAPSED:
        assert crawl.items() == []
        worker.join(is_new_life=False)
        assert sorted(worker.work_off()) == ["a", "b"]
    else:
        assert (answer.verdict, answer.refused) == (Verdict.DONE, 0)
        assert worker.work_off() == ["b"]
        assert crawl.items() == [b"x"]


def test_a_lease_is_renewed_without_a_commit(crawl: CrawlDesk) -> None:
    worker, sibling = crawl.workers(2)
    worker.push("a")
    worker.take_one()
    assert worker.frontier.renew(worker.name, worker.token, ttl_s=500.0)
    seen = crawl.view_of(worker)
    assert seen is not None
    assert 400 < seen.lease_left_s <= 500
    assert sibling.take() == []
    assert not worker.frontier.renew(worker.name, worker.token + 1, ttl_s=500.0)
    assert not worker.frontier.renew(sibling.name, worker.token, ttl_s=500.0)


def test_a_commit_renews_the_lease(crawl: CrawlDesk) -> None:
    worker = crawl.worker(ttl_s=50)
    worker.frontier.renew(worker.name, worker.token, ttl_s=5)
    worker.commit()
    seen = crawl.view_of(worker)
    assert seen is not None
    assert 40 < seen.lease_left_s <= 50


def test_a_repeated_commit_renews_the_lease(crawl: CrawlDesk) -> None:
    worker = crawl.worker(ttl_s=50)
    commit = worker.draft()
    worker.send(commit)
    worker.frontier.renew(worker.name, worker.token, ttl_s=5)
    assert worker.send(commit).verdict == Verdict.REPEATED
    seen = crawl.view_of(worker)
    assert seen is not None
    assert seen.lease_left_s > 40


def test_nobody_holds_under_an_old_token_or_anothers_name(crawl: CrawlDesk) -> None:
    worker, other = crawl.workers(2)
    worker.push("a")
    worker.take_one()
    assert list(worker.frontier.held(worker.name, worker.token - 1)) == []
    assert list(worker.frontier.held(other.name, worker.token)) == []
    assert list(worker.frontier.held(crawl.stranger("w9").name, 1)) == []
    assert len(worker.frontier.held(worker.name, worker.token)) == 1


def test_a_server_that_forgot_its_scripts_is_told_them_again(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a")
    crawl.redis.script_flush()
    assert worker.work_off() == ["a"]
    crawl.redis.script_flush()
    assert crawl.view().pages == 1
    crawl.redis.script_flush()
    worker.leave()
    crawl.redis.script_flush()
    crawl.crawls.clear(crawl.plan.crawl)


def wrong_items(crawl: CrawlDesk) -> None:
    crawl.redis.delete("books:items")
    crawl.redis.set("books:items", "not a stream")


def wrong_items_of_scrapy_redis(crawl: CrawlDesk) -> None:
    crawl.redis.delete("books:items")
    crawl.redis.rpush("books:items", "{}")


def wrong_seeds(crawl: CrawlDesk) -> None:
    crawl.redis.sadd("books:start_urls", "http://a.example")


def wrong_seen(crawl: CrawlDesk) -> None:
    crawl.redis.delete("books:dupefilter")
    crawl.redis.rpush("books:dupefilter", "not a set")


def wrong_queue(crawl: CrawlDesk) -> None:
    crawl.redis.rename("books:requests", "kept")
    crawl.redis.rpush("books:requests", "pickled")


MISHAPS = [wrong_items, wrong_items_of_scrapy_redis, wrong_seeds, wrong_seen, wrong_queue]


@pytest.mark.parametrize("mishap", MISHAPS)
def test_what_somebody_else_writes_stops_no_commit_halfway(
    crawl: CrawlDesk, mishap: Callable[[CrawlDesk], None]
) -> None:
    worker = crawl.worker()
    worker.push("x", "a")
    leased = worker.take_one()
    mishap(crawl)
    before = crawl.dump()
    commit = worker.draft(a_push("b", filter=Filter.SEEN), done=acknowledge(leased, items=[b"item"]), want=2)
    try:
        answer = worker.send(commit)
    except CrawlctlError:
        assert crawl.dump() == before
    else:
        assert (answer.verdict, answer.refused) == (Verdict.DONE, 0)
        assert (crawl.view().pages, crawl.view().items) == (1, 1)
        assert len(answer.leased) == 2


def test_items_of_another_kind_stop_no_commit_halfway(crawl: CrawlDesk) -> None:
    worker = crawl.worker(plan=a_plan(items=ItemsKind.LIST))
    worker.push("a")
    leased = worker.take_one()
    crawl.redis.xadd("books:items", {"item": "1"})
    before = crawl.dump()
    commit = worker.draft(a_push("b"), done=acknowledge(leased, items=[b"item"]), want=1)
    with pytest.raises(CrawlctlError, match="books:items"):
        worker.send(commit)
    assert crawl.dump() == before
    crawl.redis.delete("books:items")
    assert worker.send(commit).verdict == Verdict.DONE
    assert crawl.redis.lrange("books:items", 0, -1) == [b"item"]


def test_a_full_server_does_a_commit_whole_or_not_at_all(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    commit = a_full_commit(worker)
    before = crawl.dump()
    crawl.redis.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(CrawlctlError):
            worker.send(commit)
    finally:
        crawl.redis.config_set("maxmemory", "0")
    assert crawl.dump() == before
    assert worker.send(commit).verdict == Verdict.DONE
    assert sorted(crawl.items()) == [b"item", b"loose"]


def test_a_full_server_still_takes_endings(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", "b")
    leased = worker.take(2)
    worker.commit(done=hand_back(leased[0]))
    crawl.redis.config_set("maxmemory", "1mb")
    try:
        # Whatever it says: what it does not do can be sent again, what it does is done.
        commit = worker.draft(done=acknowledge(leased[1]))
        try:
            worker.send(commit)
        except CrawlctlError:
            crawl.redis.config_set("maxmemory", "0")
            worker.send(commit)
    finally:
        crawl.redis.config_set("maxmemory", "0")
    assert crawl.view().pages == 1
    assert worker.work_off() == ["a"]
