"""One crawl in Redis, as its workers use it: every operation is one script (`lua/crawl_*.lua`), sent whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from toolkit.model.crawls import (
    Answer,
    Commit,
    CrawlPlan,
    EntryId,
    Joined,
    Leased,
    SeenKind,
    StartRole,
    Taken,
    Verdict,
)
from toolkit.model.errors import RefusedError, StoreUnreadableError
from toolkit.model.names import WorkerName
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.crawl_keys import FrontierKeys
from toolkit.store.redis_sweep import sweep
from toolkit.store.wire_crawls import (
    bloom_shape,
    form_of,
    member_of,
    read_controls,
    read_member,
    read_standing,
    score_of,
    write_limit,
    write_plan,
)

_WORDS = {
    "spider": "the crawl {crawl} belongs to the spider {found}, not to {wanted}",
    "project": "the crawl {crawl} belongs to the project {found}, not to {wanted}",
    "arguments": "the crawl {crawl} was begun with {found}, and this spider has {wanted}",
    "crawl": "the entries under {requests} are those of the crawl {found}, not of {wanted}",
    "requests key": "the crawl {crawl} keeps its entries under {found}, not under {wanted}",
    "order": "the crawl {crawl} keeps its entries in {found} order, and this worker wants {wanted}",
    "seen": "the crawl {crawl} keeps what it has seen as {found}, and this worker wants {wanted}",
    "fingerprints": "the crawl {crawl} has fingerprints of {found}, and this worker makes those of {wanted}",
    "foreign queue": "{requests} in Redis is a {found} that is not the frontier's; most likely scrapy-redis'",
    "foreign seen set": "{seen} in Redis is a {found} that is not the frontier's: scrapy-redis' seen set, most likely",
    "seeds": "{seeds} in Redis is a {found}, and this worker wants its seeds in a {wanted}",
    "items": "{items} in Redis is a {found}, and this worker wants its items in a {wanted}",
}
_HINTS = {
    "spider": "give the crawl another name: FRONTIER_CRAWL, or crawlctl schedule --crawl NAME",
    "project": "give the crawl another name: FRONTIER_CRAWL, or crawlctl schedule --crawl NAME; "
    "crawlctl crawls clear {crawl} forgets the old one",
    "arguments": "to work on it all the same, name it: FRONTIER_CRAWL, or crawlctl schedule --crawl {crawl}; "
    "crawlctl crawls clear {crawl} drops what is left of it",
    "crawl": "write %(spider)s into SCHEDULER_QUEUE_KEY, which becomes the crawl's id; "
    "crawlctl crawls clear {found} drops what is left of the other",
    "requests key": "give all workers of the crawl the same SCHEDULER_QUEUE_KEY",
    "order": "let it end with the settings it began with, or crawlctl crawls clear {crawl}",
    "seen": "let it end with the settings it began with, or crawlctl crawls clear {crawl}",
    "fingerprints": "give all workers the same REQUEST_FINGERPRINTER_CLASS, or crawlctl crawls clear {crawl}",
    "foreign queue": "crawlctl crawls adopt {crawl} takes it over",
    "foreign seen set": "crawlctl crawls adopt {crawl} takes it over",
    "seeds": "set REDIS_START_URLS_AS_SET or REDIS_START_URLS_AS_ZSET as they were pushed, or DEL {seeds}",
    "items": "drain or rename {items}, or choose the pipeline that wrote it",
}


class RedisFrontier:
    """Keeps what `Frontier` promises."""

    def __init__(self, door: RedisDoor, plan: CrawlPlan) -> None:
        self._plan = plan
        self._keys = FrontierKeys(plan.keys)
        self._all = self._keys.all
        self._door = door

    def join(self, worker: WorkerName, *, ttl_s: float, flush: bool = False, is_new_life: bool = True) -> Joined:
        """See `Frontier.join`."""
        marks = ["1" if flush else "0", "1" if is_new_life else "0"]
        args: list[Argument] = [worker, _ms(ttl_s), *marks, *plan_arguments(self._plan), self._plan.run]
        args += self._limits()
        verdict, *told = self._run("crawl_join", args)
        if verdict == b"refused":
            raise self._refusal(*(_text(each) for each in told))
        if verdict == b"over":
            return Joined(token=0, pending=0, start=StartRole.DONE, controls=read_controls(None), is_over=True)
        if verdict == b"wait":
            return Joined(
                token=0, pending=0, start=StartRole.WAIT, controls=read_controls(None), again_s=told[0] / 1000
            )
        token, pending, start, controls, is_first = told
        if is_first:
            sweep(self._door, self._all)
        return Joined(
            token=int(token),
            pending=pending,
            start=StartRole(_text(start)),
            controls=read_controls(controls),
            is_first=bool(is_first),
        )

    def commit(self, commit: Commit) -> Answer:
        """See `Frontier.commit`."""
        verdict, *told = self._run("crawl_commit", commit_arguments(commit, self._plan.seen))
        if verdict == b"done":
            return _answer(told)
        if verdict == b"spoilt":
            raise StoreUnreadableError(
                f"{_text(told[0])} in Redis is of another type than the crawl's: somebody else wrote to it",
                hint="rename or delete it, and start the workers again; nothing of the crawl is lost",
            )
        return Answer(Verdict(verdict.decode()), known=told[0] if told else 0)

    def renew(self, worker: WorkerName, token: int, *, ttl_s: float) -> bool:
        """See `Frontier.renew`."""
        return bool(self._run("crawl_renew", [worker, token, _ms(ttl_s)]))

    def is_kept(self, worker: WorkerName, token: int, *, ttl_s: float) -> bool:
        """See `Frontier.is_kept`."""
        # A replica receives all writes in their order, so one that has this has the commits before it. It goes over the
        # connection that carried those: another one may lead to another server.
        is_there, is_kept = self._door.run_kept_for_bytes(
            "crawl_renew", keys=self._keys.all, args=[worker, token, _ms(ttl_s)]
        )
        return bool(is_there) and is_kept

    def held(self, worker: WorkerName, token: int) -> Sequence[EntryId]:
        """See `Frontier.held`."""
        standing, held = self._door.ask_together_for_bytes(
            ("HGET", self._keys.standings, worker), ("HKEYS", self._keys.hands(worker))
        )
        if standing is None or read_standing(standing.decode())[0] != str(token):
            return ()
        return tuple(map(EntryId, held))

    def rejoin(self, worker: WorkerName, token: int, *, number: int, ttl_s: float, taken: Sequence[Taken]) -> int:
        """See `Frontier.rejoin`."""
        args: list[Argument] = [worker, token, number, _ms(ttl_s), *plan_arguments(self._plan), self._plan.run]
        args += [len(self._plan.limits), *self._limits()]
        for each in taken:
            form, root = form_of(each.fingerprint, self._plan.seen) if each.fingerprint else (b"", 0)
            args += [member_of(each.leased), each.leased.score, form, root]
        return int(self._run("crawl_rejoin", args))

    def leave(self, worker: WorkerName, token: int, *, is_finished: bool = False) -> bool:
        """See `Frontier.leave`."""
        plan = self._plan
        marks = ["1" if is_finished else "0", "1" if plan.persists else "0"]
        was_cleared = bool(self._run("crawl_leave", [worker, token, *marks, plan.crawl]))
        if is_finished:
            # Also where the answer to an earlier call was lost, which had cleared it.
            sweep(self._door, self._all)
        return was_cleared

    def close(self) -> None:
        """Let go of the connections; twice is harmless."""
        self._door.close()

    def _run(self, script: str, args: Sequence[Argument]) -> Any:
        return self._door.run_for_bytes(script, keys=self._all, args=args)

    def _limits(self) -> list[Argument]:
        return [each for limit in self._plan.limits for each in (limit.domain, write_limit(limit))]

    def _refusal(self, what: str, found: str, wanted: str) -> RefusedError:
        keys, crawl = self._plan.keys, self._plan.crawl
        names = {"requests": keys.requests, "seen": keys.seen, "seeds": keys.seeds, "items": keys.items}
        if what == "arguments":
            found, wanted = (each or "no arguments" for each in (found, wanted))
        words = {**names, "crawl": crawl, "found": found, "wanted": wanted}
        return RefusedError(_WORDS[what].format(**words), hint=_HINTS[what].format(**words))


def plan_arguments(plan: CrawlPlan) -> list[Argument]:
    """Return what the scripts that may have to begin a crawl want to know of it, from its id on."""
    capacity, bits = bloom_shape(plan.bloom_error)
    return [
        *(plan.crawl, write_plan(plan), plan.order, plan.seen, plan.seeds, plan.items),
        *(plan.fingerprints, plan.max_deliveries, capacity, bits),
    ]


def commit_arguments(commit: Commit, kind: SeenKind) -> list[Argument]:
    """Return a commit as `crawl_commit.lua` reads it."""
    marks = "".join(
        mark
        for mark, is_set in (
            ("M", commit.has_more),
            ("E", commit.start_is_done),
        )
        if is_set
    )
    args: list[Argument] = [
        *(commit.worker, commit.token, commit.number, _ms(commit.ttl_s), commit.want, commit.controls_seen),
        *(marks or "-", len(commit.pushes), len(commit.done), len(commit.loose_items), len(commit.limits)),
        len(commit.loose_items) + sum(len(brought) for brought in _items_of_pages(commit)),
        len(commit.ahead),
    ]
    for push in commit.pushes:
        form, root = form_of(push.fingerprint, kind) if push.fingerprint else (b"", 0)
        args += (push.filter.value, score_of(push.priority), form, root, push.body)
    for part in commit.ahead:
        args += (part.entry, len(part.items), *part.items)
    for done in commit.done:
        args += (done.entry, done.disposition.value, done.why, done.ahead, len(done.items), *done.items)
    args += commit.loose_items
    for limit in commit.limits:
        args += (limit.domain, write_limit(limit))
    return args


def _items_of_pages(commit: Commit) -> Iterator[tuple[bytes, ...]]:
    for done in commit.done:
        yield done.items
    for part in commit.ahead:
        yield part.items


def _answer(told: Sequence[Any]) -> Answer:
    number, pending, workers, start, is_over, idle_ms, again_ms, is_hungry, controls, refused, duplicates, leased = told
    return Answer(
        Verdict.DONE,
        leased=_leased(leased),
        duplicates=tuple(duplicates),
        refused=refused,
        pending=pending,
        workers=workers,
        start=StartRole(_text(start)),
        controls=read_controls(None if controls == b"-" else controls) if controls else None,
        again_s=again_ms / 1000 if again_ms >= 0 else None,
        is_hungry=bool(is_hungry),
        is_over=bool(is_over),
        idle_s=idle_ms / 1000,
        known=number,
    )


def _leased(flat: Sequence[bytes]) -> tuple[Leased, ...]:
    return tuple(read_member(member, score) for member, score in zip(flat[::2], flat[1::2], strict=True))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _text(value: bytes | str | int) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
