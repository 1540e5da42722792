"""A crawl on a real Redis as tests work on it: workers whose tokens and numbers are right, and what operators see."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha1
from pathlib import Path

import redis
from support.waiting import wait_until

from toolkit.model.crawls import (
    MAX_DELIVERIES,
    Ahead,
    Answer,
    Commit,
    Controls,
    CrawlKeys,
    CrawlPlan,
    CrawlView,
    Disposition,
    Done,
    EntryId,
    Filter,
    ItemsKind,
    Joined,
    Leased,
    Push,
    QueueOrder,
    SeedsKind,
    SeenKind,
    StartRole,
    Verdict,
    WorkerView,
)
from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId, WorkerName
from toolkit.store.frontier import open_frontier
from toolkit.store.interfaces_crawls import Frontier
from toolkit.store.open import open_store

SOON_S = 30.0
"""Within this, whatever a test waits for has happened."""
LONG_S = 600.0
"""A lease that outlives every test."""


def a_plan(
    crawl: str = "books",
    *,
    spider: str = "books",
    order: QueueOrder = QueueOrder.PRIORITY,
    seen: SeenKind = SeenKind.PACKED,
    seeds: SeedsKind = SeedsKind.LIST,
    items: ItemsKind = ItemsKind.STREAM,
    fingerprints: str = "scrapy",
    persists: bool = False,
    max_deliveries: int = MAX_DELIVERIES,
) -> CrawlPlan:
    """Return what the workers of a crawl bring, under the key names of scrapy-redis."""
    return CrawlPlan(
        crawl=CrawlId(crawl),
        spider=spider,
        project="shop",
        keys=CrawlKeys(f"{crawl}:requests", f"{crawl}:dupefilter", f"{crawl}:start_urls", f"{crawl}:items"),
        order=order,
        seen=seen,
        seeds=seeds,
        items=items,
        fingerprints=fingerprints,
        persists=persists,
        max_deliveries=max_deliveries,
    )


def fingerprint_of(what: object) -> bytes:
    """Return the 20 bytes that stand for something, as Scrapy's fingerprinter would make them."""
    return sha1(repr(what).encode(errors="surrogatepass"), usedforsecurity=False).digest()


def a_push(body: str | bytes, *, priority: int = 0, filter: Filter = Filter.NONE, of: object = None) -> Push:  # noqa: A002 - the field's name
    """Return an entry; its fingerprint is that of its body unless it is `of` something else."""
    encoded = body.encode() if isinstance(body, str) else body
    fingerprint = b"" if filter == Filter.NONE else fingerprint_of(encoded if of is None else of)
    return Push(encoded, priority, fingerprint, filter)


def acknowledge(*leased: Leased, items: Sequence[bytes] = ()) -> tuple[Done, ...]:
    """Return the ends of these entries, each with the items."""
    return tuple(Done(entry.entry, items=tuple(items)) for entry in leased)


def hand_back(*leased: Leased) -> tuple[Done, ...]:
    """Return the endings by which these entries go back unused."""
    return tuple(Done(entry.entry, Disposition.BACK) for entry in leased)


def texts(leased: Sequence[Leased]) -> list[str]:
    """Return the bodies of entries as text."""
    return [entry.body.decode() for entry in leased]


class Worker:
    """One process of a crawl: it numbers its commits, and remembers token, controls and what is in its hands."""

    def __init__(self, frontier: Frontier, name: str, *, ttl_s: float = LONG_S) -> None:
        self.frontier = frontier
        self.name = WorkerName(name)
        self.ttl_s = ttl_s
        self.token = 0
        self.number = 0
        self.start = StartRole.WAIT
        self.has_run_start = False
        self.controls = Controls()
        self.in_hand: dict[EntryId, Leased] = {}

    def join(self, *, flush: bool = False, is_new_life: bool = True) -> Joined:
        """Take part, with empty hands; where others may still be alive, after they had the time to say so."""
        while True:
            joined = self.frontier.join(self.name, ttl_s=self.ttl_s, flush=flush, is_new_life=is_new_life)
            if joined.again_s is None:
                break
            assert joined.again_s < SOON_S, joined
            time.sleep(joined.again_s)
        self.token, self.number, self.in_hand = joined.token, 0, {}
        self.start, self.controls = joined.start, joined.controls
        self.has_run_start = self.has_run_start and not is_new_life
        return joined

    def draft(
        self,
        *pushes: Push,
        done: Sequence[Done] = (),
        want: int = 0,
        ahead: Sequence[Ahead] = (),
        loose_items: Sequence[bytes] = (),
        has_more: bool = False,
        is_starting: bool = False,
    ) -> Commit:
        """Return the next commit; whoever runs `start()` is at its end unless `is_starting`. Nothing is sent."""
        is_at_end = self.start == StartRole.YOURS and not is_starting
        return Commit(
            worker=self.name,
            token=self.token,
            number=self.number + 1,
            ttl_s=self.ttl_s,
            want=want,
            pushes=pushes,
            done=tuple(done),
            ahead=tuple(ahead),
            loose_items=tuple(loose_items),
            controls_seen=self.controls.version,
            has_more=has_more,
            start_is_done=self.has_run_start or is_at_end,
        )

    def send(self, commit: Commit) -> Answer:
        """Send a commit; once it is known to have been carried out, the next has the next number."""
        answer = self.frontier.commit(commit)
        if answer.verdict in {Verdict.DONE, Verdict.REPEATED}:
            self.number = commit.number
            for done in commit.done:
                self.in_hand.pop(done.entry, None)
            self.in_hand.update((entry.entry, entry) for entry in answer.leased)
            self.controls = answer.controls or self.controls
            self.start = answer.start
            self.has_run_start = commit.start_is_done
        return answer

    def commit(
        self,
        *pushes: Push,
        done: Sequence[Done] = (),
        want: int = 0,
        loose_items: Sequence[bytes] = (),
        has_more: bool = False,
        is_starting: bool = False,
    ) -> Answer:
        """Send the next commit, which must be carried out."""
        answer = self.send(
            self.draft(
                *pushes,
                done=done,
                want=want,
                loose_items=loose_items,
                has_more=has_more,
                is_starting=is_starting,
            )
        )
        assert answer.verdict == Verdict.DONE, answer
        return answer

    def push(self, *bodies: str, priority: int = 0, filter: Filter = Filter.NONE) -> Answer:  # noqa: A002 - as above
        """Push entries that differ in their bodies alone."""
        return self.commit(*(a_push(body, priority=priority, filter=filter) for body in bodies))

    def take(self, want: int = 1) -> list[Leased]:
        """Lease up to so many entries."""
        return list(self.commit(want=want).leased)

    def take_one(self) -> Leased:
        """Lease one entry, which must be there."""
        leased = self.take()
        assert len(leased) == 1, leased
        return leased[0]

    def finish(self, *leased: Leased, items: Sequence[bytes] = (), want: int = 0) -> Answer:
        """Acknowledge entries, each with the items."""
        return self.commit(done=acknowledge(*leased, items=items), want=want)

    def finish_all(self) -> Answer:
        """Acknowledge whatever is in hand."""
        return self.finish(*self.in_hand.values())

    def work_off(self, *, at_once: int = 1) -> list[str]:
        """Take and acknowledge until nothing comes any more; return the bodies in the order in which they came."""
        bodies = []
        while leased := self.take(at_once):
            bodies += texts(leased)
            self.finish(*leased)
        return bodies

    def leave(self, *, is_finished: bool = False) -> bool:
        """Take no more part."""
        return self.frontier.leave(self.name, self.token, is_finished=is_finished)


class CrawlDesk:
    """The crawls of one Redis, opened as an operator opens them, beside a plain client that looks at the keys."""

    def __init__(self, url: str, folder: Path, closing: ExitStack) -> None:
        self.url = url
        self._closing = closing
        store = open_store(Secret(url), folder)
        closing.callback(store.close)
        assert store.shared is not None
        self.crawls = store.shared.crawls
        self.redis = closing.enter_context(redis.Redis.from_url(url))
        self.plan = a_plan()
        self._frontiers: dict[CrawlPlan, Frontier] = {}

    def frontier(self, plan: CrawlPlan | None = None) -> Frontier:
        """Return the frontier of a crawl, the desk's own unless another is given."""
        plan = plan or self.plan
        if plan not in self._frontiers:
            self._frontiers[plan] = open_frontier(Secret(self.url), plan)
            self._closing.callback(self._frontiers[plan].close)
        return self._frontiers[plan]

    def stranger(self, name: str = "w1", *, plan: CrawlPlan | None = None, ttl_s: float = LONG_S) -> Worker:
        """Return a worker that has not joined."""
        return Worker(self.frontier(plan), name, ttl_s=ttl_s)

    def worker(self, name: str = "w1", *, plan: CrawlPlan | None = None, ttl_s: float = LONG_S) -> Worker:
        """Return a worker that takes part; the first one of a crawl has nothing to run at its start."""
        worker = self.stranger(name, plan=plan, ttl_s=ttl_s)
        worker.join()
        if worker.start == StartRole.YOURS:
            worker.commit()
        return worker

    def workers(self, number: int, *, plan: CrawlPlan | None = None) -> list[Worker]:
        """Return several workers of a crawl."""
        return [self.worker(f"w{index}", plan=plan) for index in range(1, number + 1)]

    def view(self, crawl: str | None = None) -> CrawlView:
        """Return what an operator sees of a crawl."""
        view = self.crawls.view(CrawlId(crawl) if crawl else self.plan.crawl)
        assert view is not None
        return view

    def view_of(self, worker: Worker) -> WorkerView | None:
        """Return what an operator sees of a worker of the desk's own crawl, if it is there."""
        return next((each for each in self.view().workers if each.name == worker.name), None)

    def kill(self, *workers: Worker) -> None:
        """Let the processes of these workers be gone, and Redis be told."""
        for worker in workers:
            self.crawls.release(worker.name, has_died=True)

    def lapse(self, *workers: Worker) -> None:
        """Let the leases of these workers be over; nobody has come to take back what they hold."""
        for worker in workers:
            assert worker.frontier.renew(worker.name, worker.token, ttl_s=0.001)
        wait_until(
            lambda: all((seen := self.view_of(each)) is None or seen.lease_left_s < 0 for each in workers),
            deadline_s=SOON_S,
            what="the leases to be over",
            pause_s=0.001,
        )

    def pass_s(self, seconds: float) -> None:
        """Let so much time have passed for the crawl: all that Redis knows of its workers is that much older."""
        requests, by_ms = self.plan.keys.requests, round(seconds * 1000)
        for name in ("heard_ms", "terms_ms"):
            self.redis.hincrby(f"{requests}:state", name, -by_ms)
        for worker in self.redis.zrange(f"{requests}:workers", 0, -1):
            self.redis.zincrby(f"{requests}:workers", -by_ms, worker)
        for worker, text in self.redis.hgetall(f"{requests}:standings").items():
            token, number, pages, at_ms, marks = text.split()
            older = b" ".join((token, number, pages, b"%d" % (int(at_ms) - by_ms), marks))
            self.redis.hset(f"{requests}:standings", worker, older)

    def seed(self, *seeds: str) -> None:
        """Push seeds as scrapy-redis' users do, to a list."""
        self.redis.rpush(self.plan.keys.seeds, *seeds)

    def item_records(self, crawl: str | None = None) -> list[tuple[str, bytes]]:
        """Return key and body of each item in the stream."""
        found = self.crawls.items(CrawlId(crawl) if crawl else self.plan.crawl, after="", limit=100_000)
        return [(key, body) for _, key, body in found]

    def items(self) -> list[bytes]:
        """Return the items in the stream."""
        return [body for _, body in self.item_records()]

    def dump(self) -> dict[bytes, bytes]:
        """Return every key of the database, as it could be restored."""
        return {key: self.redis.dump(key) for key in self.redis.scan_iter("*", count=1000)}

    def restore(self, dump: dict[bytes, bytes]) -> None:
        """Let Redis come back as it was when that was dumped."""
        with self.redis.pipeline(transaction=True) as pipeline:
            pipeline.flushdb()
            for key, value in dump.items():
                pipeline.restore(key, 0, value)
            pipeline.execute()


@contextmanager
def crawl_desk(url: str, folder: Path) -> Iterator[CrawlDesk]:
    """Open the crawls in the Redis at the URL; all is closed at the end."""
    with ExitStack() as closing:
        yield CrawlDesk(url, folder, closing)
