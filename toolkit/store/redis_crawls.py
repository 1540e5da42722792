"""All crawls of a Redis, as operators and nodes use them; what only reads a crawl is in `redis_crawl_views.py`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn, TypeVar

from toolkit.model.crawls import (
    Controls,
    CrawlEnd,
    CrawlKeys,
    CrawlPlan,
    CrawlView,
    DomainLimit,
    EntryId,
    EntryView,
    Push,
    SeedsKind,
    Shelf,
)
from toolkit.model.errors import CrawlctlError, NotFoundError, RefusedError
from toolkit.model.names import CrawlId, WorkerName
from toolkit.model.transfers import Behind, Noted
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.crawl_keys import HOMES, REGISTRY, RUNS, FrontierKeys, default_keys
from toolkit.store.interfaces_crawls import HOLD_S
from toolkit.store.ordering import ttl_ms
from toolkit.store.redis_crawl_ends import read_ends
from toolkit.store.redis_crawl_seen import RedisSeen
from toolkit.store.redis_crawl_views import RedisCrawlViews, moment
from toolkit.store.redis_frontier import plan_arguments
from toolkit.store.redis_sweep import sweep
from toolkit.store.wire_crawls import (
    form_of,
    member_of,
    read_controls,
    read_limit,
    read_plan,
    score_of,
    write_controls,
    write_limit,
)

_SEEDS_A_STEP = 1_000
_ENTRIES_A_STEP = 500
_UNBLOCKED_A_STEP = 1_000
_LOOKED_AT = 200
_NAMES_SHOWN = 3
_PUSH_SEEDS = {SeedsKind.LIST: "RPUSH", SeedsKind.SET: "SADD"}
T = TypeVar("T")


class RedisCrawls:
    """Keeps what `Crawls` promises."""

    def __init__(self, door: RedisDoor) -> None:
        self._door = door
        self._views = RedisCrawlViews(door)
        self._seen = RedisSeen(door)

    # --- what there is

    def all(self) -> Sequence[CrawlPlan]:
        """See `Crawls.all`."""
        found = self._door.ask("HVALS", REGISTRY)
        return sorted((read_plan(body) for body in found), key=lambda plan: plan.crawl)

    def plan(self, crawl: CrawlId) -> CrawlPlan | None:
        """See `Crawls.plan`."""
        body = self._door.ask("HGET", REGISTRY, crawl)
        return None if body is None else read_plan(body)

    def paused(self, among: Collection[CrawlId]) -> frozenset[CrawlId]:
        """See `Crawls.paused`. Two round trips."""
        bodies = self._door.ask("HMGET", REGISTRY, *among) if among else []
        plans = [read_plan(body) for body in bodies if body is not None]
        controls = (
            self._door.ask_together(*(("GET", FrontierKeys(plan.keys).controls) for plan in plans)) if plans else []
        )
        return frozenset(
            plan.crawl for plan, body in zip(plans, controls, strict=True) if read_controls(body).is_paused
        )

    def view(self, crawl: CrawlId) -> CrawlView | None:
        """See `Crawls.view`. Four round trips."""
        plan = self.plan(crawl)
        return None if plan is None else self._views.views([plan])[0]

    def views(self) -> Sequence[CrawlView]:
        """See `Crawls.views`."""
        return self._views.views(self.all())

    def peek(self, crawl: CrawlId, shelf: Shelf, *, limit: int) -> Sequence[EntryView]:
        """See `Crawls.peek`."""
        return list(islice(self._views.shelf(self._known(crawl), shelf, step=min(limit, _ENTRIES_A_STEP)), limit))

    def entries(self, crawl: CrawlId) -> Iterator[EntryView]:
        """See `Crawls.entries`."""
        plan = self._known(crawl)
        for shelf in Shelf:
            yield from self._views.shelf(plan, shelf, step=_ENTRIES_A_STEP)

    def seeds(self, crawl: CrawlId) -> Iterator[tuple[bytes, float]]:
        """See `Crawls.seeds`."""
        return self._views.seeds(self._known(crawl))

    # --- what operators wish

    def seed(self, crawl: CrawlId, seeds: Iterable[bytes]) -> int:
        """See `Crawls.seed`."""
        plan = self.plan(crawl)
        kind, key = (plan.seeds, plan.keys.seeds) if plan else (SeedsKind.LIST, default_keys(crawl).seeds)
        taken = 0
        for part in _parts(seeds, _SEEDS_A_STEP):
            try:
                if kind is SeedsKind.ZSET:
                    scored = [each for seed in part for each in (0, seed)]
                    taken += self._door.ask("ZADD", key, *scored)
                else:
                    self._door.ask(_PUSH_SEEDS[kind], key, *part)
                    taken += len(part)
            except CrawlctlError as error:
                error.message = f"{error.message} ({taken} seeds were pushed before)"
                error.args = (error.message,)
                raise
        return taken

    def control(
        self,
        crawl: CrawlId,
        *,
        is_paused: bool | None = None,
        concurrency: int | None = None,
        delay_s: float | None = None,
    ) -> Controls:
        """See `Crawls.control`."""

        def changed(known: Controls) -> Controls:
            if is_paused is not None:
                known = replace(known, is_paused=is_paused)
            if concurrency is not None:
                known = replace(known, concurrency=None if concurrency < 0 else concurrency)
            if delay_s is not None:
                known = replace(known, delay_s=None if delay_s < 0 else delay_s)
            return known

        return self._change(self._known(crawl), changed)

    def block(self, crawl: CrawlId, patterns: Sequence[str]) -> Controls:
        """See `Crawls.block`."""
        return self._change(
            self._known(crawl),
            lambda known: replace(known, blocks=tuple(dict.fromkeys((*known.blocks, *patterns)))),
        )

    def unblock(self, crawl: CrawlId, patterns: Sequence[str]) -> int:
        """See `Crawls.unblock`."""
        plan = self._known(crawl)
        lifted = frozenset(patterns)
        self._change(plan, lambda known: replace(known, blocks=tuple(p for p in known.blocks if p not in lifted)))
        # Workers put aside again what is still blocked, so there is an end only to what lies there now.
        back, aside = 0, int(self._door.ask("HLEN", FrontierKeys(plan.keys).blocked))
        if aside:
            self._begin(plan)
        while back < aside:
            moved = int(self._run(plan, "crawl_unblock", [min(_UNBLOCKED_A_STEP, aside - back)]))
            back += moved
            aside = aside if moved else back
        return back

    def limit(self, crawl: CrawlId, limit: DomainLimit) -> Sequence[DomainLimit]:
        """See `Crawls.limit`."""
        plan = self._known(crawl)
        is_lifted = limit.per_second is None and limit.concurrency is None
        self._run(plan, "crawl_limit", [limit.domain, "" if is_lifted else write_limit(limit)])
        found = self._door.ask("HGETALL", FrontierKeys(plan.keys).limits)
        return [read_limit(domain, text) for domain, text in sorted(found.items())]

    def requeue(self, crawl: CrawlId, entries: Sequence[EntryId] | None = None) -> int:
        """See `Crawls.requeue`."""
        plan = self._known(crawl)
        dead = int(self._door.ask("HLEN", FrontierKeys(plan.keys).dead))
        if not dead or (entries is not None and not entries):
            return 0
        self._begin(plan)
        if entries:
            return int(self._run(plan, "crawl_requeue", list(entries)))
        back = moved = 0
        while back < dead and (moved or not back):
            moved = int(self._run(plan, "crawl_requeue", []))
            back += moved
        return back

    def clear(self, crawl: CrawlId, *, force: bool = False, keep_seen: bool = False, keep_items: bool = True) -> None:
        """See `Crawls.clear`."""
        plan = self.plan(crawl) or _default_plan(crawl)
        keys = FrontierKeys(plan.keys)
        if keep_items:
            self.deliver(crawl)
        marks = ["1" if mark else "0" for mark in (force, keep_seen, keep_items)]
        live = self._door.run("crawl_clear", keys=[*keys.all, keys.drains], args=[crawl, *marks])
        if live:
            more = len(live) - _NAMES_SHOWN
            names = ", ".join(sorted(live)[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
            raise RefusedError(
                f"workers of the crawl {crawl} live ({names}); clearing would take the work out of their hands",
                hint=f"cancel its jobs first (crawlctl crawls show {crawl}), or --force",
            )
        sweep(self._door, keys.all)
        self._forget_runs(lambda its_crawl, _: its_crawl == crawl)

    def forget_runs(self, runs: Collection[str]) -> None:
        """See `Crawls.forget_runs`."""
        self._forget_runs(lambda _, run: run in runs)

    def _forget_runs(self, is_meant: Callable[[str, str], bool]) -> None:
        over = self._door.ask("ZRANGE", RUNS, 0, -1)
        if meant := [each for each in over if is_meant(*each.partition(" ")[::2])]:
            self._door.ask("ZREM", RUNS, *meant)

    def deliver(self, crawl: CrawlId) -> None:
        """See `Crawls.deliver`."""
        plan = self.plan(crawl)
        while plan is not None and self._run(plan, "crawl_deliver", []):
            pass

    def release(self, worker: WorkerName, *, has_died: bool) -> bool:
        """See `Crawls.release`."""
        crawl = self._door.ask("HGET", HOMES, worker)
        plan = None if crawl is None else self.plan(CrawlId(crawl))
        return plan is not None and int(self._run(plan, "crawl_release", [worker, "1" if has_died else "0"])) >= 0

    def forget_some(self, *, kept_s: float) -> int:
        """See `Crawls.forget_some`."""
        found = map(read_plan, self._door.ask("HRANDFIELD", REGISTRY, _LOOKED_AT, "WITHVALUES")[1::2])
        forgotten = 0
        for plan in (plan for plan in found if plan.is_called_by_arguments):
            keys = FrontierKeys(plan.keys)
            kept_ms = round(kept_s * 1000)
            forgotten += self._door.run("crawl_forget", keys=[*keys.all, keys.drains], args=[plan.crawl, kept_ms])
        return forgotten

    def ends(self, *, after: str | None) -> tuple[str, Sequence[CrawlEnd]]:
        """See `Crawls.ends`."""
        return read_ends(self._door, after)

    # --- what comes from outside

    def pushes(self, plan: CrawlPlan, pushes: Iterable[Push]) -> int:
        """See `Crawls.pushes`."""

        def written(push: Push) -> list[Argument]:
            form, root = form_of(push.fingerprint, plan.seen) if push.fingerprint else (b"", 0)
            return ["new", push.body, score_of(push.priority), "", push.filter.value, form, root]

        return self._bring(plan, map(written, pushes))

    def restore(self, plan: CrawlPlan, entries: Iterable[EntryView]) -> int:
        """See `Crawls.restore`."""

        def written(view: EntryView) -> list[Argument]:
            shelf = Shelf.PENDING if view.shelf is Shelf.IN_FLIGHT else view.shelf
            return [shelf.value, member_of(view.leased), view.leased.score, view.why, "n", b"", 0]

        return self._bring(plan, map(written, entries))

    def seen(self, crawl: CrawlId) -> Iterator[bytes]:
        """See `Crawls.seen`."""
        return self._seen.records(self._known(crawl))

    def remember(self, plan: CrawlPlan, records: Iterable[bytes], *, are_fingerprints: bool = False) -> int:
        """See `Crawls.remember`."""
        return self._seen.remember(plan, records, are_fingerprints=are_fingerprints)

    # --- what goes out

    def drained(self, crawl: CrawlId, sink: str) -> str:
        """See `Crawls.drained`."""
        return str(self._door.ask("HGET", self._keys(crawl).drains, sink) or "").partition(" ")[0]

    def items(self, crawl: CrawlId, *, after: str, limit: int) -> Sequence[tuple[str, str, bytes]]:
        """See `Crawls.items`."""
        key = self._keys(crawl).items
        (found,) = self._door.ask_together_for_bytes(
            ("XRANGE", key, f"({after}" if after else "-", "+", "COUNT", limit)
        )
        return [_item(entry, fields) for entry, fields in found]

    def drop_items(
        self,
        crawl: CrawlId,
        sink: str,
        *,
        through: str,
        key: str = "",
        after: str = "",
        keep: bool = False,
        hold_s: float = HOLD_S,
    ) -> Noted:
        """See `Crawls.drop_items`."""
        keys = self._keys(crawl)
        arguments = [sink, after, through, key, "1" if keep else "0", ttl_ms(hold_s)]
        last, repeats, *others = self._door.run("drop_items", keys=[keys.items, keys.drains], args=arguments)
        behind = zip(others[::2], map(int, others[1::2]), strict=True)
        sinks = tuple(Behind(other, moment(until_ms) if until_ms else None) for other, until_ms in behind)
        return Noted(last, repeats == "1", sinks)

    def forget_sink(self, crawl: CrawlId, sink: str) -> None:
        """See `Crawls.forget_sink`."""
        if not self.drained(crawl, sink):
            raise NotFoundError(
                f"no drain of the crawl {crawl} to a sink {sink} is known",
                hint="crawlctl items drain names the sinks that items stay for",
            )
        self.drop_items(crawl, sink, through="", keep=True, hold_s=0)

    def _bring(self, plan: CrawlPlan, entries: Iterable[list[Argument]]) -> int:
        brought = int(self._run(plan, "crawl_bring", plan_arguments(plan)))
        for part in _parts(entries, _ENTRIES_A_STEP):
            flat = [each for entry in part for each in entry]
            brought += int(self._run(plan, "crawl_bring", [*plan_arguments(plan), *flat]))
        return brought

    def _change(self, plan: CrawlPlan, change: Callable[[Controls], Controls]) -> Controls:
        key = FrontierKeys(plan.keys).controls
        while True:
            body = self._door.ask("GET", key) or ""
            known = read_controls(body)
            # By the clock: a version is not given out again after Redis came back older.
            version = max(known.version + 1, int(self._door.now().timestamp() * 1000))
            wished = replace(change(known), version=version)
            if self._run(plan, "crawl_controls", [body, write_controls(wished)]):
                return wished

    def _run(self, plan: CrawlPlan, script: str, args: Sequence[Argument]) -> Any:
        return self._door.run(script, keys=FrontierKeys(plan.keys).all, args=args)

    def _begin(self, plan: CrawlPlan) -> None:
        """Let a crawl that was over, and so has no state, be one to which entries can come back; idempotent."""
        self.restore(plan, ())

    def _known(self, crawl: CrawlId) -> CrawlPlan:
        plan = self.plan(crawl)
        if plan is None:
            _unknown(crawl)
        return plan

    def _keys(self, crawl: CrawlId) -> FrontierKeys:
        plan = self.plan(crawl)
        return FrontierKeys(plan.keys if plan else default_keys(crawl))


def _default_plan(crawl: CrawlId) -> CrawlPlan:
    keys: CrawlKeys = default_keys(crawl)
    return CrawlPlan(crawl, spider=crawl, project="", keys=keys)


def _unknown(crawl: CrawlId) -> NoReturn:
    raise NotFoundError(f"no worker ever joined a crawl {crawl}", hint="crawlctl crawls list")


def _item(entry: bytes, fields: Mapping[bytes, bytes]) -> tuple[str, str, bytes]:
    return entry.decode(), fields.get(b"k", entry).decode(), fields.get(b"v", b"")


def _parts(values: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(values)
    while part := list(islice(rest, size)):
        yield part
