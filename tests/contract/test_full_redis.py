"""A Redis that is full (`maxmemory` with `noeviction`) can be emptied: what only takes away is never refused."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.crawl_desk import CrawlDesk, Worker, a_plan, a_push, acknowledge
from support.plugin_node import full
from support.queue_desk import QueueDesk, a_report, an_ending
from support.redis_server import RedisServer
from support.stores import BEGIN, a_release
from support.waiting import wait_until

from toolkit.duties.expire import expire
from toolkit.model.crawls import ItemsKind, SeenKind
from toolkit.model.crons import After, Cron
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobState
from toolkit.model.names import CrawlId, JobId, NodeName, SpiderName
from toolkit.model.shipped import IN_REDIS, LogPart, Shipment, ShippedLog
from toolkit.store.foreign import open_foreign
from toolkit.store.interfaces_logs import Laid, LogTerms
from toolkit.transfer.address import parse_place
from toolkit.transfer.drain import drain
from toolkit.transfer.sinks import open_sink
from toolkit.transfer.sources import open_source

BOOKS = CrawlId("books")
EGG = b"PK\x03\x04 an egg"
SOON_S = 30.0


def drained(crawl: CrawlDesk, to: str) -> int:
    """Drain all items of the crawl to a place, a few at once; return how many were new there."""
    with closing(open_sink(parse_place(to))) as sink, closing(open_foreign(Secret(crawl.url))) as foreign:
        *_, done = drain(open_source(crawl.crawls, foreign, BOOKS), sink, batch=7)
    return done.new


def with_entries_in_hand(crawl: CrawlDesk, name: str = "w1", *, seen: SeenKind = SeenKind.PACKED) -> Worker:
    worker = crawl.worker(name, plan=a_plan(seen=seen))
    worker.push("a", "b", "c")
    assert len(worker.take(2)) == 2
    return worker


def test_a_full_redis_refuses_what_is_new(crawl: CrawlDesk, redis_server: RedisServer) -> None:
    with full(redis_server), pytest.raises(StoreUnreachableError, match="its memory is full"):
        crawl.crawls.seed(BOOKS, [b"https://books.example/"])


def test_commits_that_bring_more_are_refused_whole_and_those_that_make_room_are_taken(
    crawl: CrawlDesk, redis_server: RedisServer
) -> None:
    worker = with_entries_in_hand(crawl)
    one, other = worker.in_hand.values()
    with full(redis_server):
        for draft in (
            worker.draft(a_push("d")),
            worker.draft(done=acknowledge(one, items=[b"item"])),
            worker.draft(loose_items=[b"item"], done=acknowledge(one)),
        ):
            with pytest.raises(StoreUnreachableError, match="its memory is full"):
                worker.send(draft)
        assert crawl.view().in_flight == 2
        assert worker.frontier.renew(worker.name, worker.token, ttl_s=worker.ttl_s)
        worker.finish(one)
        worker.finish(other)
    assert crawl.view().pages == 2
    assert crawl.items() == []


@pytest.mark.parametrize("kind", [ItemsKind.STREAM, ItemsKind.LIST])
@pytest.mark.parametrize("sink", ["items.jsonl", "sqlite:///{folder}/items.db"])
def test_items_can_be_drained(
    crawl: CrawlDesk, redis_server: RedisServer, tmp_path: Path, kind: ItemsKind, sink: str
) -> None:
    to = sink.format(folder=tmp_path) if sink.startswith("sqlite") else str(tmp_path / sink)
    worker = crawl.worker(plan=a_plan(items=kind))
    worker.commit(loose_items=[b"%d" % number for number in range(20)])
    with full(redis_server):
        assert drained(crawl, to) == 20
        assert drained(crawl, to) == 0
        assert crawl.view().items_waiting == 0
    worker.commit(loose_items=[b"20", b"21"])
    with full(redis_server):
        assert drained(crawl, to) == 2


def test_what_is_too_old_is_forgotten(desk: QueueDesk, redis_server: RedisServer) -> None:
    desk.add("old")
    desk.finish(desk.run(desk.register(a_report())))
    log = ShippedLog(NodeName("node-1"), IN_REDIS, (LogPart(0, 4),), BEGIN, revision=1)
    terms = LogTerms(keep_s=600, max_total_bytes=1000)
    shipment = Shipment(LogPart(0, 4), ())
    assert desk.shared.logs.lay(JobId("old"), log, terms=terms, shipment=shipment, content=b"line") is Laid.DONE
    release = replace(a_release(), digest=hashlib.sha256(EGG).hexdigest(), size_bytes=len(EGG))
    desk.eggs.offer(release, EGG)
    # As an older crawlctl took offers back: the egg stays until somebody looks for what nothing names.
    desk.redis.delete(desk.keys.offers)
    with full(redis_server):
        dropped = []

        def is_done() -> bool:
            dropped.append(expire(desk.shared, history_days=1, history_jobs=0, keep_logs_s=0.01))
            return sum(dropped) == 3

        wait_until(is_done, deadline_s=SOON_S, what="job, log and egg to be dropped")
        assert desk.redis.hgetall(desk.keys.logs_sizes) == {"*": "0"}
    assert desk.queue.counts()["ended"] == 0


@pytest.mark.parametrize("keep_seen", [False, True])
@pytest.mark.parametrize("seen", list(SeenKind))
def test_a_crawl_can_be_cleared(
    crawl: CrawlDesk, redis_server: RedisServer, seen: SeenKind, *, keep_seen: bool
) -> None:
    with_entries_in_hand(crawl, seen=seen).commit(a_push("d", of="d"), loose_items=[b"1"])
    with full(redis_server):
        crawl.crawls.clear(BOOKS, force=True, keep_seen=keep_seen, keep_items=False)
        assert crawl.redis.exists("books:requests", "books:items", "crawlctl:garbage") == 0


def test_a_crawl_that_no_worker_joined_can_be_cleared(crawl: CrawlDesk, redis_server: RedisServer) -> None:
    crawl.crawls.pushes(crawl.plan, [a_push("a", of="a")])
    with full(redis_server):
        crawl.crawls.clear(BOOKS)
        assert crawl.redis.exists("books:requests", "crawlctl:garbage") == 0


def test_a_worker_that_leaves_or_is_gone_gives_back_what_it_held(crawl: CrawlDesk, redis_server: RedisServer) -> None:
    leaving, gone = with_entries_in_hand(crawl), crawl.worker("w2")
    assert len(gone.take(1)) == 1
    with full(redis_server):
        assert not leaving.leave()
        assert (crawl.view().pending, crawl.view().in_flight) == (2, 1)
        assert crawl.crawls.release(gone.name, has_died=True)
        assert (crawl.view().pending, crawl.view().in_flight) == (3, 0)


def test_the_last_worker_of_a_crawl_that_is_over_clears_it(crawl: CrawlDesk, redis_server: RedisServer) -> None:
    worker = crawl.worker()
    worker.commit(a_push("a", of="a"))
    worker.finish(*worker.take(1))
    with full(redis_server):
        assert worker.leave(is_finished=True)
    assert crawl.redis.exists("books:requests:state") == 0


def test_an_offer_and_a_cron_can_be_taken_away(desk: QueueDesk, redis_server: RedisServer) -> None:
    release = replace(a_release(), digest=hashlib.sha256(EGG).hexdigest(), size_bytes=len(EGG))
    desk.eggs.offer(release, EGG)
    followers = [Cron(name, SpiderName("prices"), after=After(SpiderName("books"))) for name in ("one", "two")]
    desk.shared.crons.put(followers, by="ann@desk", due={})
    with full(redis_server):
        desk.eggs.withdraw(release.project, release.version)
        assert desk.eggs.fetch(release.digest) is None
        assert desk.shared.crons.remove(["one"]) == {"one"}


def test_a_job_ends_and_what_it_did_is_counted(desk: QueueDesk, redis_server: RedisServer) -> None:
    desk.add("a")
    claim = desk.run(desk.register(a_report()))
    with full(redis_server):
        assert desk.finish(claim, an_ending()) == "finished"
    assert desk.redis.hmget(desk.keys.measures, "pages", "items") == ["1", "2"]


def test_jobs_of_lost_nodes_go_back_and_claims_come_to_their_end(desk: QueueDesk, redis_server: RedisServer) -> None:
    desk.add("lost", "begun", "given-back")
    report = desk.register(a_report())
    desk.run(report)
    begun, given_back = desk.claim(report), desk.claim(report)
    desk.end_leases("lost")
    with full(redis_server):
        assert desk.queue.requeue_expired() == {"lost": JobState.PENDING}
        assert desk.queue.started(begun.job.id, begun.token, pid=4711)
        assert desk.queue.give_back(given_back.job.id, given_back.token, reason="no memory")
    assert desk.states("lost", "begun", "given-back") == ["pending", "running", "pending"]
