"""Who takes part in a crawl, under which names, and what is refused before anything is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import redis
from support.crawl_desk import LONG_S, CrawlDesk, a_plan, a_push, fingerprint_of, texts

from toolkit.model.crawls import (
    CrawlKeys,
    CrawlPlan,
    DomainLimit,
    Filter,
    ItemsKind,
    QueueOrder,
    SeedsKind,
    SeenKind,
    StartRole,
)
from toolkit.model.errors import RefusedError
from toolkit.model.names import CrawlId, ProjectName, WorkerName, check_crawl, default_crawl, digest_of, shown_arguments

ODD_CRAWLS = ["книги", "books:de", "a*[b]?", "quo'te\"s\\", "x" * 200, "🕷", "0", "requests", "%3A".replace("%", "")]


def test_the_first_worker_of_a_crawl_is_told_so(crawl: CrawlDesk) -> None:
    joined = crawl.stranger("w1").join()
    assert (joined.is_first, joined.pending, joined.start) == (True, 0, StartRole.YOURS)
    assert joined.token > 0
    assert joined.controls.version == 0 or joined.controls.is_paused is False


def test_a_later_worker_is_not_the_first(crawl: CrawlDesk) -> None:
    crawl.worker("w1")
    assert not crawl.stranger("w2").join().is_first


def test_whoever_joins_after_all_are_gone_is_the_first_again(crawl: CrawlDesk) -> None:
    left, killed = crawl.workers(2)
    left.leave()
    crawl.kill(killed)
    assert crawl.stranger("w3").join().is_first


def test_tokens_only_rise(crawl: CrawlDesk) -> None:
    tokens = []
    for name in ("w1", "w2", "w1", "w3"):
        worker = crawl.stranger(name)
        tokens.append(worker.join().token)
        worker.leave()
    assert tokens == sorted(set(tokens))


def test_who_joins_is_told_what_is_there_already(crawl: CrawlDesk) -> None:
    crawl.worker("w1").push("a", "b", "c")
    assert crawl.stranger("w2").join().pending == 3


def test_a_crawl_is_known_once_a_worker_has_joined_it(crawl: CrawlDesk) -> None:
    assert list(crawl.crawls.all()) == []
    assert crawl.crawls.plan(crawl.plan.crawl) is None
    assert crawl.crawls.view(crawl.plan.crawl) is None
    crawl.frontier()  # opening sends nothing
    assert list(crawl.redis.scan_iter()) == []

    other = a_plan("authors", order=QueueOrder.LIFO, seen=SeenKind.BLOOM, seeds=SeedsKind.ZSET, items=ItemsKind.LIST)
    crawl.worker()
    crawl.worker(plan=other)
    assert list(crawl.crawls.all()) == [other, crawl.plan]
    assert crawl.crawls.plan(other.crawl) == other
    assert crawl.view("authors").plan == other


def test_a_plan_comes_back_as_it_was_brought(crawl: CrawlDesk) -> None:
    plan = replace(
        a_plan(
            "d\u00fcsseldorf", spider="sp\u00efder", fingerprints="shop.prints.Own", persists=True, max_deliveries=7
        ),
        project="",
        bloom_error=1.5e-9,
    )
    crawl.worker(plan=plan)
    assert crawl.crawls.plan(plan.crawl) == plan


@pytest.mark.parametrize("name", ODD_CRAWLS, ids=range(len(ODD_CRAWLS)))
def test_a_crawl_of_any_name_works(crawl: CrawlDesk, name: str) -> None:
    plan = a_plan(check_crawl(name))
    worker = crawl.worker(plan=plan)
    crawl.crawls.seed(plan.crawl, [b"seed"])
    worker.push("a", "b", filter=Filter.SEEN)
    assert worker.work_off(at_once=5) == ["a", "b", "seed"]
    assert crawl.view(name).pages == 3
    worker.leave()
    crawl.crawls.clear(plan.crawl)
    assert list(crawl.redis.scan_iter(f"*{plan.keys.requests}*")) == []


def test_crawls_do_not_mix(crawl: CrawlDesk) -> None:
    # The second is named as if it were one of the first one's own keys.
    plans = [a_plan("a"), a_plan("a:requests"), a_plan("a:requests:requests")]
    workers = [crawl.worker(plan=plan) for plan in plans]
    for worker, plan in zip(workers, plans, strict=True):
        worker.commit(a_push(f"of {plan.crawl}", of="same", filter=Filter.SEEN), loose_items=[plan.crawl.encode()])

    workers[0].leave()
    crawl.crawls.clear(plans[0].crawl)
    for worker, plan in zip(workers[1:], plans[1:], strict=True):
        assert worker.work_off() == [f"of {plan.crawl}"]
        assert [body for _, body in crawl.item_records(plan.crawl)] == [plan.crawl.encode()]
        assert crawl.view(plan.crawl).seen == 1


def test_a_worker_may_work_on_two_crawls_under_one_name(crawl: CrawlDesk) -> None:
    one, other = crawl.worker("w", plan=a_plan("a")), crawl.worker("w", plan=a_plan("b"))
    one.push("x")
    other.push("y")
    assert (texts(one.take()), texts(other.take())) == (["x"], ["y"])
    other.leave()
    assert crawl.view("a").in_flight == 1


def test_keys_may_have_any_names(crawl: CrawlDesk) -> None:
    plan = replace(a_plan(), keys=CrawlKeys("{shop}q", "{shop}seen", "{shop}go", "{shop}out"), seen=SeenKind.SET)
    worker = crawl.worker(plan=plan)
    crawl.redis.rpush("{shop}go", "seed")
    worker.commit(a_push("a", filter=Filter.SEEN), loose_items=[b"1"])
    assert worker.work_off(at_once=2) == ["a", "seed"]
    assert crawl.redis.smembers("{shop}seen") == {fingerprint_of(b"a").hex().encode()}
    assert crawl.redis.exists("{shop}out")


def test_a_worker_alone_may_begin_with_an_empty_frontier(crawl: CrawlDesk) -> None:
    first = crawl.worker("w1")
    first.push("a", "b", filter=Filter.SEEN)
    crawl.seed("seed")
    first.leave()

    second = crawl.stranger("w2")
    joined = second.join(flush=True)
    assert (joined.pending, joined.is_first, joined.start) == (0, True, StartRole.YOURS)
    assert crawl.view().seen == 0
    assert second.push("b", filter=Filter.SEEN).duplicates == ()
    assert second.work_off(at_once=2) == ["b", "seed"]


def test_nobody_empties_the_frontier_under_a_sibling(crawl: CrawlDesk) -> None:
    first = crawl.worker("w1")
    first.push("a", "b", filter=Filter.SEEN)
    assert crawl.stranger("w2").join(flush=True).pending == 2
    assert crawl.view().seen == 2
    assert len(first.take(5)) >= 1


def test_what_a_lapsed_worker_held_is_emptied_too(crawl: CrawlDesk) -> None:
    first = crawl.worker("w1")
    first.push("a")
    first.take_one()
    crawl.lapse(first)
    second = crawl.stranger("w2")
    second.join(flush=True)
    second.commit()
    assert second.work_off() == []
    assert second.commit().is_over


REFUSED: dict[str, CrawlPlan] = {
    "another order": a_plan(order=QueueOrder.FIFO),
    "another seen set": a_plan(seen=SeenKind.SET),
    "other fingerprints": a_plan(fingerprints="scrapy-redis"),
    "another spider": a_plan(spider="prices"),
}


@pytest.mark.parametrize("plan", REFUSED.values(), ids=REFUSED.keys())
def test_what_differs_from_the_crawl_is_refused(crawl: CrawlDesk, plan: CrawlPlan) -> None:
    worker = crawl.worker("w1")
    worker.push("a", filter=Filter.SEEN)
    before = crawl.dump()
    with pytest.raises(RefusedError, match="books"):
        crawl.stranger("w2", plan=plan).join()
    assert crawl.dump() == before
    assert worker.work_off() == ["a"]


def of(project: str = "shop", *, bot: str = "", named: bool = False, **arguments: str) -> CrawlPlan:
    """Return the plan of a worker of a project, by hand unless its `bot` is told, with these arguments."""
    digest, shown = digest_of(arguments), shown_arguments(arguments)
    return replace(a_plan(), project=project, bot=bot, digest=digest, arguments=shown, is_named=named)


STRANGE = [
    (of("shop"), of("news")),
    (of("shop", bot="shopbot"), of("news", bot="shopbot")),
    (of("shop", bot="shopbot"), of("newsbot")),
]
KNOWN = [
    (of("shop"), of("shop")),
    (of("shop", bot="shopbot"), of("shop", bot="newsbot")),
    (of("shop", bot="shopbot"), of("shopbot")),
    (of("shopbot"), of("shop", bot="shopbot")),
    (of(""), of("news", bot="newsbot")),
    (of("shop"), of("news", named=True)),
]


@pytest.mark.parametrize(("first", "second"), STRANGE, ids=range(len(STRANGE)))
def test_a_crawl_is_one_project_s(crawl: CrawlDesk, first: CrawlPlan, second: CrawlPlan) -> None:
    crawl.worker("w1", plan=first).push("a")
    before = crawl.dump()
    with pytest.raises(RefusedError) as refusal:
        crawl.stranger("w2", plan=second).join()
    assert f"the crawl books belongs to the project {first.project}, not to {second.project}" in str(refusal.value)
    assert "crawlctl schedule --crawl NAME" in str(refusal.value.hint)
    assert crawl.dump() == before


@pytest.mark.parametrize(("first", "second"), KNOWN, ids=range(len(KNOWN)))
def test_workers_of_one_project_join_and_those_that_are_told_to(
    crawl: CrawlDesk, first: CrawlPlan, second: CrawlPlan
) -> None:
    crawl.worker("w1", plan=first).push("a")
    assert crawl.stranger("w2", plan=second).join().pending == 1


def test_what_another_project_has_ended_still_has_its_names(crawl: CrawlDesk) -> None:
    worker = crawl.worker("w1", plan=of("shop"))
    assert worker.leave(is_finished=True)
    with pytest.raises(RefusedError, match="belongs to the project shop, not to news"):
        crawl.stranger("w2", plan=of("news")).join()
    crawl.crawls.clear(CrawlId("books"))
    assert crawl.stranger("w2", plan=of("news")).join().is_first


def test_what_is_left_of_other_arguments_is_not_resumed(crawl: CrawlDesk) -> None:
    worker = crawl.worker("w1", plan=of(category="lamps", named=True))
    worker.push("a", filter=Filter.SEEN)
    worker.leave()
    before = crawl.dump()
    for plan, has in ((of(), "no arguments"), (of(category="books"), "-a category=books")):
        with pytest.raises(RefusedError) as refusal:
            crawl.stranger("w2", plan=plan).join(flush=True)
        assert f"the crawl books was begun with -a category=lamps, and this spider has {has}" in str(refusal.value)
        assert "crawlctl schedule --crawl books" in str(refusal.value.hint)
    assert crawl.dump() == before
    worker.join()
    worker.work_off()
    assert worker.leave(is_finished=True)
    assert crawl.stranger("w2", plan=of()).join().is_first
    assert crawl.crawls.plan(CrawlId("books")) == of()


def test_who_is_told_to_join_works_with_those_of_other_arguments_and_leaves_the_crawl_theirs(crawl: CrawlDesk) -> None:
    crawl.worker("w1", plan=of(category="lamps")).push("a")
    helper = crawl.worker("w2", plan=of("news", category="books", named=True))
    assert texts(helper.take()) == ["a"]
    assert crawl.crawls.plan(CrawlId("books")) == of(category="lamps")
    assert crawl.stranger("w3", plan=of(category="lamps")).join().token
    with pytest.raises(RefusedError, match="belongs to the project shop, not to news"):
        crawl.stranger("w4", plan=of("news", category="books")).join()
    with pytest.raises(RefusedError, match="belongs to the spider books, not to prices"):
        crawl.stranger("w5", plan=replace(of(named=True), spider="prices")).join()


def test_a_crawl_of_which_the_arguments_are_not_known_is_joined(crawl: CrawlDesk) -> None:
    crawl.worker("w1").push("a")
    assert crawl.stranger("w2", plan=of(category="lamps")).join().pending == 1


def test_one_key_of_requests_serves_one_crawl_at_a_time(crawl: CrawlDesk) -> None:
    keys = CrawlKeys("jobs", "seen", "urls", "out")
    lamps, books = (
        replace(of(category=name), crawl=default_crawl("books", {"category": name}), keys=keys)
        for name in ("lamps", "books")
    )
    worker = crawl.worker("w1", plan=lamps)
    worker.push("a")
    worker.leave()
    with pytest.raises(RefusedError) as refusal:
        crawl.stranger("w2", plan=books).join()
    assert f"the entries under jobs are those of the crawl {lamps.crawl}, not of {books.crawl}" in str(refusal.value)
    assert f"crawlctl crawls clear {lamps.crawl}" in str(refusal.value.hint)
    worker.join()
    worker.work_off()
    assert worker.leave(is_finished=True)
    assert crawl.stranger("w2", plan=books).join().is_first


def called_by(**arguments: str) -> CrawlPlan:
    """Return the plan of a worker whose crawl is called by its arguments."""
    name = default_crawl("books", arguments)
    keys, shown = a_plan(name).keys, shown_arguments(arguments)
    return replace(of(), crawl=name, keys=keys, digest=digest_of(arguments), arguments=shown)


def test_a_crawl_that_is_called_by_its_arguments_is_forgotten_once_nothing_is_left_of_it(crawl: CrawlDesk) -> None:
    lamps, books = called_by(a="lamps"), called_by(a="books")
    named = replace(books, crawl=CrawlId("autumn"), keys=a_plan("autumn").keys)
    for plan in (lamps, books, named, of()):
        worker = crawl.worker(plan=plan)
        worker.commit(loose_items=[b"1"] if plan == lamps else [])
        assert worker.leave(is_finished=True)
    crawl.worker(plan=called_by(a="worked on"))
    assert crawl.crawls.forget_some(kept_s=60) == 0
    assert crawl.crawls.plan(books.crawl) == books
    assert crawl.crawls.forget_some(kept_s=0) == 1
    assert crawl.crawls.plan(books.crawl) is None
    assert len(crawl.crawls.all()) == 4

    (item,) = crawl.crawls.items(lamps.crawl, after="", limit=9)
    crawl.crawls.drop_items(lamps.crawl, "sink", through=item[0], key=item[1])
    assert [crawl.crawls.forget_some(kept_s=0) for _ in range(2)] == [1, 0]
    assert list(crawl.redis.scan_iter(f"{lamps.crawl}*")) == []


def test_a_crawl_that_is_worked_on_again_or_has_seeds_is_not_forgotten(crawl: CrawlDesk) -> None:
    plan = called_by(a="lamps")
    assert crawl.worker(plan=plan).leave(is_finished=True)
    assert crawl.crawls.forget_some(kept_s=60) == 0
    again = crawl.worker(plan=plan)
    assert crawl.crawls.forget_some(kept_s=0) == 0
    assert again.leave(is_finished=True)
    # It has been over for no longer than since then.
    assert crawl.crawls.forget_some(kept_s=60) == 0
    crawl.crawls.seed(plan.crawl, [b"https://shop.example/"])
    assert crawl.crawls.forget_some(kept_s=0) == 0


def put_zset(client: redis.Redis) -> None:
    client.zadd("books:requests", {b"\x80\x04\x95pickled": -1.0})


def put_list(client: redis.Redis) -> None:
    client.lpush("books:requests", b"\x80\x04\x95pickled")


def put_text(client: redis.Redis) -> None:
    client.set("books:requests", "something")


def put_seen(client: redis.Redis) -> None:
    client.sadd("books:dupefilter", fingerprint_of("u").hex())


def put_seeds(client: redis.Redis) -> None:
    client.sadd("books:start_urls", "http://a.example")


def put_items(client: redis.Redis) -> None:
    client.rpush("books:items", "{}")


FOREIGN = [put_zset, put_list, put_text, put_seen, put_seeds, put_items]


@pytest.mark.parametrize("put", FOREIGN)
def test_keys_of_another_kind_are_refused_and_left_alone(crawl: CrawlDesk, put: Callable[[redis.Redis], None]) -> None:
    put(crawl.redis)
    before = crawl.dump()
    with pytest.raises(RefusedError) as refusal:
        crawl.stranger().join()
    assert str(next(iter(before)), "utf-8") in str(refusal.value)
    assert crawl.dump() == before


@pytest.mark.parametrize("order", [QueueOrder.FIFO, QueueOrder.LIFO])
@pytest.mark.parametrize("put", [put_zset, put_list])
def test_requests_of_scrapy_redis_are_refused_in_every_order(
    crawl: CrawlDesk, put: Callable[[redis.Redis], None], order: QueueOrder
) -> None:
    put(crawl.redis)
    before = crawl.dump()
    with pytest.raises(RefusedError):
        crawl.stranger(plan=a_plan(order=order)).join()
    assert crawl.dump() == before


@pytest.mark.parametrize("put", [put_seeds, put_items])
def test_a_flush_that_is_refused_empties_nothing(crawl: CrawlDesk, put: Callable[[redis.Redis], None]) -> None:
    worker = crawl.worker("w1")
    worker.push("a", filter=Filter.SEEN)
    worker.leave()
    put(crawl.redis)
    before = crawl.dump()
    with pytest.raises(RefusedError):
        crawl.stranger("w2").join(flush=True)
    assert crawl.dump() == before


def test_a_refused_worker_leaves_a_dead_ones_start_to_others(crawl: CrawlDesk) -> None:
    dead, sibling = crawl.stranger("w1"), crawl.stranger("w2")
    dead.join()
    sibling.join()
    dead.commit(is_starting=True)
    crawl.lapse(dead)
    with pytest.raises(RefusedError):
        crawl.stranger("w3", plan=a_plan(order=QueueOrder.FIFO)).join()
    assert sibling.commit().start == StartRole.YOURS


def test_a_refused_worker_leaves_what_a_dead_one_held_to_others(crawl: CrawlDesk) -> None:
    dead, sibling = crawl.workers(2)
    crawl.crawls.limit(CrawlId("books"), DomainLimit("slow.example", concurrency=1))
    sibling.push("xx http://slow.example/1")
    dead.take_one()
    crawl.lapse(dead)
    with pytest.raises(RefusedError):
        crawl.stranger("w3", plan=a_plan(seen=SeenKind.SET, order=QueueOrder.FIFO)).join()
    answer = sibling.commit()
    assert (answer.is_over, answer.pending) == (False, 1)
    assert sibling.work_off() == ["xx http://slow.example/1"]


def test_a_dupefilter_of_scrapy_redis_may_be_taken_over(crawl: CrawlDesk) -> None:
    plan = a_plan(seen=SeenKind.SET, fingerprints="scrapy-redis")
    put_seen(crawl.redis)
    worker = crawl.worker(plan=plan)
    answer = worker.commit(a_push("old", of="u", filter=Filter.SEEN), a_push("new", filter=Filter.SEEN))
    # `of` is hashed as it stands: the first is the one that was there.
    assert answer.duplicates == (0,)
    assert worker.work_off() == ["new"]


def test_a_crawl_that_was_cleared_may_come_again_in_another_shape(crawl: CrawlDesk) -> None:
    worker = crawl.worker()
    worker.push("a", filter=Filter.SEEN)
    worker.leave()
    crawl.crawls.clear(CrawlId("books"))
    plan = a_plan(order=QueueOrder.LIFO, seen=SeenKind.BLOOM, fingerprints="own.Prints", spider="prices")
    again = crawl.worker("w2", plan=plan)
    again.push("a", "b", filter=Filter.SEEN)
    assert again.work_off() == ["b", "a"]


def test_a_worker_without_items_changes_no_siblings_kind(crawl: CrawlDesk) -> None:
    one = crawl.worker("one", plan=a_plan(items=ItemsKind.LIST))
    one.push("a")
    crawl.worker("two", plan=a_plan(items=ItemsKind.NONE))
    one.finish(*one.take(1), items=[b"x"])
    assert crawl.redis.lrange("books:items", 0, -1) == [b"x"]


def test_a_worker_with_items_of_another_kind_is_refused_while_others_live(crawl: CrawlDesk) -> None:
    crawl.worker("one", plan=a_plan(items=ItemsKind.LIST))
    with pytest.raises(RefusedError, match="items"):
        crawl.worker("two", plan=a_plan(items=ItemsKind.STREAM))


def test_a_worker_with_seeds_of_another_kind_is_refused_while_others_live(crawl: CrawlDesk) -> None:
    crawl.worker("one", plan=a_plan())
    with pytest.raises(RefusedError, match="start_urls"):
        crawl.worker("two", plan=a_plan(seeds=SeedsKind.SET))


def test_a_dead_worker_keeps_nobody_out_for_longer_than_a_lease(crawl: CrawlDesk) -> None:
    dead = crawl.worker("dead")
    dead.push("a")
    dead.take_one()
    crawl.pass_s(3 * LONG_S)
    other = crawl.frontier(replace(a_plan(), order=QueueOrder.FIFO))
    for _ in range(5):
        joined = other.join(WorkerName("new"), ttl_s=LONG_S, flush=True)
        if joined.again_s is None:
            break
        crawl.pass_s(joined.again_s)
    assert joined.start is StartRole.YOURS


def test_a_worker_that_is_too_busy_to_commit_lives(crawl: CrawlDesk) -> None:
    busy = crawl.worker("busy")
    busy.push("a")
    busy.take_one()
    crawl.pass_s(1.3 * LONG_S)
    busy.frontier.renew(busy.name, busy.token, ttl_s=LONG_S)
    joined = crawl.frontier().join(WorkerName("fresh"), ttl_s=LONG_S, flush=True)
    assert (joined.again_s, joined.is_first) == (None, False)


def test_who_was_told_to_join_changes_nothing_of_whose_crawl_it_is_also_when_it_is_over(crawl: CrawlDesk) -> None:
    crawl.worker("w1").leave(is_finished=True)
    crawl.worker("w2", plan=replace(a_plan(), project=ProjectName("news"), is_named=True)).leave(is_finished=True)
    crawl.worker("w3").leave()
