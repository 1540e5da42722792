"""Takes over what scrapy-redis has left in Redis: its queue becomes the frontier's, its dupefilter the seen set.

Both are renamed first, so that no scrapy-redis worker changes them and the frontier has their names; then they are read
part by part, written to the frontier, and only then dropped. Ended at any moment and started again, it goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import islice
from typing import Any

from toolkit.model.crawls import (
    CrawlKeys,
    CrawlPlan,
    ItemsKind,
    Push,
    QueueOrder,
    SeedsKind,
    SeenKind,
)
from toolkit.model.errors import NotFoundError, RefusedError, UnwritableError
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Adopted
from toolkit.store.crawl_keys import default_keys
from toolkit.store.interfaces_crawls import Crawls
from toolkit.store.interfaces_foreign import Foreign, Queued
from toolkit.store.wire_requests import write_request
from toolkit.transfer.pickled import UnreadableBodyError, read_plain, read_trusted

FINGERPRINTS = "scrapy-redis"
"""Who made the fingerprints of the seen set, as `CrawlPlan.fingerprints` names it."""

ASIDE, KEPT = ":scrapy-redis", ":scrapy-redis:kept"
_A_STEP = 500
_FINGERPRINT_CHARS = 40
_MAX_REASONS = 20
_OURS = b"\0"
"""The first byte of every entry's id in this century; no pickle and no JSON begins with it."""

_FIELDS = {
    **{name: name for name in ("url", "callback", "errback", "method", "headers", "body", "cookies", "meta")},
    **{name: name for name in ("encoding", "priority", "dont_filter", "flags", "cb_kwargs")},
    "_encoding": "encoding",  # Scrapy before 1.1
}
_USUAL: dict[str, Any] = {"method": "GET", "encoding": "utf-8"}
_OF_A_CLASS = frozenset({"method", "encoding", "dont_filter", "body", "priority"})


@dataclass(slots=True)
class _Tally:
    done: Adopted
    reasons: Counter[str] = field(default_factory=Counter)

    def now(self) -> Adopted:
        return replace(self.done, reasons=tuple(self.reasons.most_common(_MAX_REASONS)))


def old_keys(spider: CrawlId, *, requests: str | None = None, seen: str | None = None) -> CrawlKeys:
    """Return the keys of a spider of scrapy-redis: their usual names, but those that are given."""
    usual = default_keys(spider)
    return replace(usual, requests=requests or usual.requests, seen=seen or usual.seen)


def found_plan(
    foreign: Foreign, old: CrawlKeys, crawl: CrawlId, *, spider: str, project: str, is_lifo: bool, seen: SeenKind
) -> CrawlPlan:
    """Return the plan that fits what scrapy-redis has left: its order and the kinds of its keys.

    The crawl's keys have the old names where it has the spider's name, else the usual ones for its own.

    A queue that is a list may have been FIFO or LIFO, which nothing in Redis tells.

    Raises:
        RefusedError: a key is of a type that scrapy-redis does not use.

    """
    queues = [foreign.kind(old.requests + suffix) for suffix in (ASIDE, KEPT, "")]
    kind = next((each for each in queues if each != "none"), "none")
    if kind not in {"none", "zset", "list"}:
        raise RefusedError(f"{old.requests} is a {kind}, which is no queue of scrapy-redis")
    by_list = QueueOrder.LIFO if is_lifo else QueueOrder.FIFO
    keys = old if crawl == spider else default_keys(crawl)
    seeds = foreign.kind(old.seeds)
    return CrawlPlan(
        crawl=crawl,
        spider=spider,
        project=project,
        keys=keys,
        order=by_list if kind == "list" or (kind == "none" and is_lifo) else QueueOrder.PRIORITY,
        seen=seen,
        seeds=SeedsKind(seeds) if seeds in set(SeedsKind) else SeedsKind.LIST,
        items=ItemsKind.LIST if foreign.kind(keys.items) == "list" else ItemsKind.STREAM,
        fingerprints=FINGERPRINTS,
    )


def adopt(
    crawls: Crawls, foreign: Foreign, plan: CrawlPlan, *, old: CrawlKeys, trust_pickle: bool = False
) -> Iterator[Adopted]:
    """Take the queue and dupefilter at the `old` keys over into a crawl; yield how far it has come.

    Nothing is lost or doubled whenever it is ended: started again, it goes on. The crawl is paused meanwhile. Requests
    that are more than plain data are kept under another key; with `trust_pickle` they are read too, which runs whatever
    code they name.

    Raises:
        NotFoundError: nothing of scrapy-redis is there.
        RefusedError: the crawl has entries already, or its workers live, or the keys are of another kind.

    """
    aside = old.requests + ASIDE
    tally = _Tally(Adopted(kept_in=old.requests + KEPT))
    found = _look(crawls, foreign, plan, old)
    _refuse_unless_free(crawls, plan, old, found, trust_pickle=trust_pickle)
    if found.has_requests:
        foreign.set_aside(old.requests, to=aside)
    if found.has_seen:
        foreign.set_aside(old.seen, to=old.seen + ASIDE)
    is_resumed = found.is_resumed
    if plan.keys.seeds != old.seeds:
        foreign.set_aside(old.seeds, to=plan.keys.seeds)
    yield tally.now()
    yield from _take_fingerprints(crawls, foreign, plan, old.seen + ASIDE, tally)
    yield from _take_requests(crawls, foreign, plan, aside, read=read_plain, tally=tally, is_resumed=is_resumed)
    if trust_pickle:
        is_resumed |= foreign.set_aside(tally.done.kept_in, to=aside)
        yield from _take_requests(crawls, foreign, plan, aside, read=read_trusted, tally=tally, is_resumed=is_resumed)
    if crawls.plan(plan.crawl) is not None:
        crawls.control(plan.crawl, is_paused=False)
    tally.done = replace(tally.done, kept=foreign.length(tally.done.kept_in))
    yield tally.now()


def refuse_while_changing(foreign: Foreign, old: CrawlKeys, *, wait: Callable[[], None]) -> None:
    """Look at the keys twice, and refuse if scrapy-redis workers have changed them meanwhile.

    Raises:
        RefusedError: queue or dupefilter have grown or shrunk.

    """
    before = [foreign.length(key) for key in (old.requests, old.seen)]
    wait()
    if [foreign.length(key) for key in (old.requests, old.seen)] != before:
        raise RefusedError(
            f"{old.requests} or {old.seen} is changing: scrapy-redis workers are at work on it",
            hint="end them first; what they hold comes back to the queue only if they end in order",
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """What is there of scrapy-redis; what is the frontier's own by now does not count."""

    has_requests: bool
    has_seen: bool
    has_kept: bool
    is_resumed: bool
    """An adoption has set keys aside, and was ended."""


def _look(crawls: Crawls, foreign: Foreign, plan: CrawlPlan, old: CrawlKeys) -> _Found:
    kinds = [foreign.kind(key) for key in (old.requests, old.seen)]
    if kinds[0] not in {"none", "zset", "list"} or kinds[1] not in {"none", "set"}:
        raise RefusedError(f"{old.requests} is a {kinds[0]} and {old.seen} a {kinds[1]}: not those of scrapy-redis")
    waiting = foreign.waiting(old.requests, limit=1) if kinds[0] != "none" else ()
    known = crawls.plan(plan.crawl)
    # Only this kind of seen set lies under the very name, and looks the same, as a dupefilter of scrapy-redis.
    is_our_set = known is not None and known.seen is SeenKind.SET and known.keys.seen == old.seen
    return _Found(
        has_requests=bool(waiting) and not waiting[0].body.startswith(_OURS),
        has_seen=kinds[1] == "set" and not is_our_set,
        has_kept=foreign.kind(old.requests + KEPT) != "none",
        is_resumed=any(foreign.kind(key + ASIDE) != "none" for key in (old.requests, old.seen)),
    )


def _refuse_unless_free(crawls: Crawls, plan: CrawlPlan, old: CrawlKeys, found: _Found, *, trust_pickle: bool) -> None:
    view = crawls.view(plan.crawl)
    if view is not None and any(worker.lease_left_s > 0 for worker in view.workers):
        raise RefusedError(
            f"workers of the crawl {plan.crawl} live", hint=f"crawlctl cancel --crawl {plan.crawl} ends them first"
        )
    if found.is_resumed:
        return
    if found.has_requests or found.has_seen:
        if view is not None and view.needs_migration is None and (view.pending or view.in_flight or view.seen):
            raise RefusedError(
                f"the crawl {plan.crawl} has entries already, so nothing is taken over into it",
                hint="--as NAME takes it over into a crawl of another name",
            )
        return
    if not found.has_kept:
        raise NotFoundError(
            f"nothing of scrapy-redis is at {old.requests} and {old.seen} in this Redis",
            hint="--requests and --dupefilter name other keys; is it the right Redis and database?",
        )
    if not trust_pickle:
        raise RefusedError(
            f"only what was kept is left, in {old.requests}{KEPT}: it is more than plain data",
            hint="--trust-pickle reads it too, and runs whatever code it names",
        )


def _take_fingerprints(
    crawls: Crawls, foreign: Foreign, plan: CrawlPlan, source: str, tally: _Tally
) -> Iterator[Adopted]:
    odd = 0
    members = foreign.members(source)
    while part := list(islice(members, _A_STEP)):
        fingerprints = [found for each in part if (found := _fingerprint(each)) is not None]
        odd += len(part) - len(fingerprints)
        if fingerprints:
            crawls.remember(plan, fingerprints, are_fingerprints=True)
        done = tally.done
        tally.done = replace(done, fingerprints=done.fingerprints + len(fingerprints), fingerprints_kept=odd)
        yield tally.now()
    if not odd:
        foreign.drop(source)


def _take_requests(
    crawls: Crawls,
    foreign: Foreign,
    plan: CrawlPlan,
    source: str,
    *,
    read: Callable[[bytes], dict[str, Any]],
    tally: _Tally,
    is_resumed: bool,
) -> Iterator[Adopted]:
    if read is read_trusted:
        tally.reasons.clear()
    while part := foreign.waiting(source, limit=_A_STEP):
        # Without workers nothing comes between, so that a part of an adoption that was ended can be told.
        _pause(crawls, plan)
        pushes, keep = _converted(part, read, tally.reasons)
        if not (is_resumed and _was_pushed(crawls, plan, pushes)):
            crawls.pushes(plan, pushes)
        is_resumed = False
        foreign.settle(source, part, keep=keep, kept=tally.done.kept_in)
        tally.done = replace(tally.done, requests=tally.done.requests + len(pushes))
        yield tally.now()


def _converted(
    part: Sequence[Queued], read: Callable[[bytes], dict[str, Any]], reasons: Counter[str]
) -> tuple[list[Push], list[Queued]]:
    pushes: list[Push] = []
    keep: list[Queued] = []
    for queued in part:
        try:
            body = write_request(request_fields(read(queued.body)))
            pushes.append(Push(body, priority=round(-queued.score)))
        except (UnreadableBodyError, UnwritableError) as error:
            keep.append(queued)
            reasons[str(error)] += 1
    return pushes, keep


def request_fields(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request as the frontier keeps them, of those that Scrapy's `Request.to_dict` makes.

    Raises:
        UnreadableBodyError: there is no URL, or a field that only a class of the project's own would know.

    """
    if not isinstance(content.get("url"), str):
        raise UnreadableBodyError("it has no URL")
    named = content.get("_class")
    known = {_FIELDS[name]: value for name, value in content.items() if name in _FIELDS}
    more = {name: value for name, value in content.items() if name not in _FIELDS and name != "_class"}
    if named is None and (unknown := sorted(name for name, value in more.items() if value)):
        raise UnreadableBodyError(f"it has a field {unknown[0]}, which no request of Scrapy has")
    fields = {"url": content["url"]}
    for name, value in known.items():
        is_needed = named is not None and name in _OF_A_CLASS
        if is_needed or (value and value != _USUAL.get(name)):
            fields[name] = value
    return fields | ({} if named is None else {"class": [str(named), more]})


def _was_pushed(crawls: Crawls, plan: CrawlPlan, pushes: Sequence[Push]) -> bool:
    """Tell whether these are the newest entries of the crawl: they were pushed, and the drop was not done."""
    if not pushes or crawls.plan(plan.crawl) is None:
        return False
    newest = nlargest(len(pushes), crawls.entries(plan.crawl), key=lambda view: view.leased.entry)
    return [view.leased.body for view in reversed(newest)] == [push.body for push in pushes]


def _pause(crawls: Crawls, plan: CrawlPlan) -> None:
    """Pause the crawl if it is known; it is from its first fingerprint or entry on."""
    view = crawls.view(plan.crawl)
    if view is not None and not view.controls.is_paused:
        crawls.control(plan.crawl, is_paused=True)


def _fingerprint(member: bytes) -> bytes | None:
    try:
        return bytes.fromhex(member.decode("ascii")) if len(member) == _FINGERPRINT_CHARS else None
    except ValueError:
        return None
