"""The shared queue in Redis: each operation is one script (`lua/`), under the rules of `lua/queue_rules.lua`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from toolkit.model.errors import NotFoundError, StoreUnreachableError, StoreUnreadableError
from toolkit.model.jobs import PRIORITY_DECIMALS, Job, JobState
from toolkit.model.names import JobId, LineName, NodeName, ProjectName, SpiderName, Token
from toolkit.model.nodes import DEFAULT_LEASE_S, NodeReport
from toolkit.model.orders import check_priority
from toolkit.model.queue import Cap, Claimed, Ending, Line, NothingToClaim, place_of, read_line_name
from toolkit.store import refusals, wire, wire_jobs
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.interfaces_queue import CLAIM_PATIENCE_S
from toolkit.store.keys import Keys
from toolkit.store.ordering import microseconds, scheduled_us, ttl_ms

MAX_JOBS_A_CALL = 1000
DAY_S = 86_400
ON_NODE = "/n:"
"""What parts a node's name from a project's or spider's in a count; neither of those may hold a slash."""
MAX_REQUEUED_A_CALL = 100
UNKEPT = "no replica of Redis has acknowledged the claim"
UNKEPT_AGAIN_S = 1.0
"""How soon a node tries again after such a claim."""


class RedisQueue:
    """Keeps what `JobQueue` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def add(
        self, jobs: Sequence[Job], *, is_unique: bool = False, on_unkept: Callable[[], object] = lambda: None
    ) -> None:
        """See `JobQueue.add`."""
        refusals.check_ids_differ(jobs)
        if len(jobs) > MAX_JOBS_A_CALL:
            raise ValueError(f"{len(jobs)} jobs are more than {MAX_JOBS_A_CALL} a call")
        if not jobs:
            return
        for job in jobs:
            check_priority(job.priority or 0)
        # The places come first: a line that a node sees must always be readable.
        remember_places(self._door, self._keys, (job.on for job in jobs))
        arguments: list[Argument] = ["1" if is_unique else "0"]
        for job in jobs:
            arguments += new_job_arguments(job)
        verdict, is_kept = self._run_kept("enqueue", *arguments)
        if verdict[0] == "known":
            raise refusals.job_known(JobId(verdict[1]))
        if verdict[0] != "done":
            refuse = refusals.same_job if verdict[0] == "same" else refusals.twice_the_same
            raise refuse(next(job for job in jobs if job.id == verdict[1]))
        if not is_kept:
            on_unkept()

    def cancel(
        self, job_ids: Sequence[JobId], *, grace_s: float, on_unkept: Callable[[], object] = lambda: None
    ) -> Mapping[JobId, JobState]:
        """See `JobQueue.cancel`."""
        done = [self._run_kept("cancel", str(grace_s), *some) for some in _in_calls(job_ids)]
        before = _states([each for pairs, _ in done for each in pairs])
        if not all(is_kept for _, is_kept in done) and any(not state.is_final for state in before.values()):
            on_unkept()
        return before

    def hold(self, job_ids: Sequence[JobId]) -> frozenset[JobId]:
        """See `JobQueue.hold`."""
        return _ids(self._run_for(job_ids, "change_pending", "hold", ""))

    def release(self, job_ids: Sequence[JobId]) -> frozenset[JobId]:
        """See `JobQueue.release`."""
        return _ids(self._run_for(job_ids, "change_pending", "release", ""))

    def reprioritise(self, job_ids: Sequence[JobId], priority: float) -> frozenset[JobId]:
        """See `JobQueue.reprioritise`."""
        check_priority(priority)
        rounded = repr(round(float(priority), PRIORITY_DECIMALS))
        return _ids(self._run_for(job_ids, "change_pending", "priority", rounded))

    def move(self, job_ids: Sequence[JobId], on: Sequence[NodeName] | None) -> frozenset[JobId]:
        """See `JobQueue.move`."""
        names = None if on is None else tuple(on)
        remember_places(self._door, self._keys, [names])
        return _ids(self._run_for(job_ids, "change_pending", "place", place_of(names) or ""))

    def pause(self, job_id: JobId, *, is_paused: bool) -> JobState | None:
        """See `JobQueue.pause`."""
        return self._wish(job_id, {"is_paused": is_paused})

    def tune(self, job_id: JobId, *, concurrency: int | None, delay_s: float | None) -> JobState | None:
        """See `JobQueue.tune`."""
        wished = {"concurrency": concurrency, "delay_s": delay_s}
        return self._wish(job_id, {name: value for name, value in wished.items() if value is not None})

    def retry(self, job_ids: Sequence[JobId]) -> frozenset[JobId]:
        """See `JobQueue.retry`."""
        return _ids(self._run_for(job_ids, "retry"))

    def set_cap(self, cap: Cap) -> None:
        """See `JobQueue.set_cap`."""
        field = _field(cap.project, cap.spider)
        for name, number in ((field, cap.cluster), (f"{field}{ON_NODE}", cap.per_node)):
            if number is None:
                self._door.ask("HDEL", self._keys.caps, name)
            else:
                self._door.ask("HSET", self._keys.caps, name, number)
        # A wider cap lets more jobs go at once.
        self._door.ask("PUBLISH", self._keys.wake, "queue")

    def caps(self) -> Sequence[Cap]:
        """See `JobQueue.caps`."""
        numbers: dict[str, str] = self._door.ask("HGETALL", self._keys.caps)
        caps = []
        for field in sorted({name.removesuffix(ON_NODE) for name in numbers}):
            project, _, spider = field[2:].partition("/")
            cluster, per_node = numbers.get(field), numbers.get(f"{field}{ON_NODE}")
            caps.append(
                Cap(
                    ProjectName(project),
                    SpiderName(spider) if field.startswith("s:") else None,
                    cluster=None if cluster is None else int(cluster),
                    per_node=None if per_node is None else int(per_node),
                )
            )
        return caps

    def busy(self, project: ProjectName, spider: SpiderName | None = None, node: NodeName | None = None) -> int:
        """See `JobQueue.busy`."""
        field = _field(project, spider) + ("" if node is None else f"{ON_NODE}{node}")
        return int(self._door.ask("HGET", self._keys.busy, field) or 0)

    def lines(self) -> Sequence[Line]:
        """See `JobQueue.lines`."""
        names: Sequence[str] = sorted(self._door.ask("SMEMBERS", self._keys.lines))
        parts = [read_line_name(LineName(name)) for name in names]
        wanted = sorted({place for *_, place in parts if place is not None})
        bodies = self._door.ask("HMGET", self._keys.places, *wanted) if wanted else []
        places = {place: wire.read_nodes(body) for place, body in zip(wanted, bodies, strict=True) if body is not None}
        return [
            # A place that nobody knows lets no node in, rather than all.
            Line(project, version, spider, place, None if place is None else places.get(place, frozenset()))
            for project, version, spider, place in parts
        ]

    def position(self, job_id: JobId) -> int | None:
        """See `JobQueue.position`."""
        body = self._door.ask("HGET", self._keys.jobs, job_id)
        line = None if body is None else json.loads(body).get("line")
        score = None if line is None else self._door.ask("ZSCORE", self._keys.line(line), job_id)
        if score is None:
            return None
        names = self._door.ask("SMEMBERS", self._keys.lines)
        before = self._door.ask_together(
            *(("ZCOUNT", self._keys.line(name), "-inf", f"({float(score)!r}") for name in names)
        )
        return sum(map(int, before))

    def counts(self) -> Mapping[str, int]:
        """See `JobQueue.counts`."""
        keys = self._keys
        lines = self._door.ask("SMEMBERS", keys.lines)
        recently_ms = (time.time() - DAY_S) * 1000
        counters, active, delayed, lost, *takable = self._door.ask_together(
            ("HMGET", keys.clock, "open", "ended"),
            ("ZCARD", keys.leases),
            ("ZCARD", keys.delayed),
            # This machine's clock will do for a count over a day.
            ("ZCOUNT", keys.lost, round(recently_ms), "+inf"),
            *(("ZCARD", keys.line(name)) for name in lines),
        )
        unended, ended = (int(number or 0) for number in counters)
        pending = max(0, unended - active)
        return {
            "pending": pending,
            "held": max(0, pending - delayed - sum(takable)),
            "delayed": delayed,
            "active": active,
            "ended": ended,
            "lost_day": lost,
        }

    def active(self) -> Sequence[JobId]:
        """See `JobQueue.active`."""
        return tuple(map(JobId, self._door.ask("ZRANGE", self._keys.leases, 0, -1)))

    def open(self, *, since: datetime | None = None, limit: int) -> Sequence[JobId]:
        """See `JobQueue.open`."""
        oldest = 0 if since is None else max(0, microseconds(since))
        found = self._door.ask("ZREVRANGEBYSCORE", self._keys.unfinished_jobs, "+inf", oldest, "LIMIT", 0, limit)
        return tuple(map(JobId, found))

    def claim(
        self,
        report: NodeReport,
        lines: Sequence[LineName],
        *,
        running: int,
        has_process: Collection[JobId] = (),
        returned_ms: int = 0,
    ) -> Claimed | NothingToClaim:
        """See `JobQueue.claim`."""
        terms: list[Argument] = [
            report.name,
            report.session,
            ttl_ms(report.lease_s),
            ttl_ms(CLAIM_PATIENCE_S),
            report.slots,
            running,
            returned_ms,
            _asked_us(),
            len(has_process),
            *has_process,
        ]
        more_keys = (self._keys.draining, self._keys.sessions)
        (kind, *rest), is_kept = self._run_kept("claim", *terms, *lines, more_keys=more_keys)
        if kind == "job":
            job_id, token, facts, order = rest
            if not is_kept:
                # Begun, the job would run twice if this server were lost now. No other node would fare better.
                self._run("give_back", job_id, token, UNKEPT, ttl_ms(report.lease_s), "")
                return NothingToClaim(UNKEPT_AGAIN_S, why=UNKEPT)
            try:
                return Claimed(self._read(facts, order), Token(token))
            except StoreUnreadableError as error:
                # Given back, it would come first again, and no other job ever.
                self.finish(job_id, token, Ending(JobState.FAILED, f"{report.name} cannot run it: {error.message}"))
                return NothingToClaim(again_s=0.0)
        if kind == "beat":
            return NothingToClaim(must_beat=True)
        return NothingToClaim(None if int(rest[0]) < 0 else int(rest[0]) / 1000)

    def started(self, job_id: JobId, token: Token, *, pid: int, lease_s: float = DEFAULT_LEASE_S) -> bool:
        """See `JobQueue.started`."""
        return bool(self._run("started", job_id, token, pid, ttl_ms(lease_s)))

    def readmit(self, job: Job, token: Token, *, lease_s: float = DEFAULT_LEASE_S) -> None:
        """See `JobQueue.readmit`."""
        remember_places(self._door, self._keys, [job.on])
        pending = replace(job, state=JobState.PENDING, node=None, token=None, started_at=None, pid=None, is_held=False)
        self._run("readmit", token, ttl_ms(lease_s), *new_job_arguments(pending))

    def finish(
        self, job_id: JobId, token: Token, ending: Ending, *, lease_s: float = DEFAULT_LEASE_S
    ) -> JobState | None:
        """See `JobQueue.finish`."""
        told = wire_jobs.write_ending(ending)
        ago_ms = max(0, round(ending.ago_s * 1000))
        counted = "1" if ending.is_counted else "0"
        cancelled = "1" if ending.is_cancelled else "0"
        terms = (job_id, token, ending.state.value, ending.reason, ago_ms, told, counted, ttl_ms(lease_s), cancelled)
        state, is_kept = self._run_kept("finish", *terms, more_keys=(self._keys.samples_prefix,))
        if state == "unknown":
            raise not_known(job_id)
        if state is not None and JobState(state).is_final and not is_kept:
            raise StoreUnreachableError(f"the end of {job_id} is recorded, but no replica of Redis has it yet")
        return None if state is None else JobState(state)

    def give_back(self, job_id: JobId, token: Token, *, reason: str, lease_s: float = DEFAULT_LEASE_S) -> bool:
        """See `JobQueue.give_back`."""
        given_back = self._run("give_back", job_id, token, reason, ttl_ms(lease_s), "queue")
        if given_back < 0:
            raise not_known(job_id)
        return bool(given_back)

    def reconcile(self, report: NodeReport, tokens: Sequence[Token]) -> Mapping[JobId, JobState]:
        """See `JobQueue.reconcile`."""
        sessions = (self._keys.sessions,)
        return _states(self._run("reconcile", report.name, report.session, _asked_us(), *tokens, more_keys=sessions))

    def requeue_expired(self, *, on_lost: Callable[[JobId, Token], object] | None = None) -> Mapping[JobId, JobState]:
        """See `JobQueue.requeue_expired`."""
        terms = (MAX_REQUEUED_A_CALL, ttl_ms(DEFAULT_LEASE_S))
        settled = self._run("requeue_expired", *terms, more_keys=(self._keys.sessions,))
        lost = list(zip(settled[::3], settled[1::3], settled[2::3], strict=True))
        for name, _, token in lost:
            if on_lost is not None and token:
                on_lost(JobId(name), Token(token))
        return {JobId(name): JobState(state) for name, state, _ in lost}

    def drop_old(self, *, max_age_s: float, max_jobs: int) -> int:
        """See `JobQueue.drop_old`."""
        terms = (ttl_ms(max_age_s), max_jobs, MAX_JOBS_A_CALL)
        return int(self._run("drop_old", *terms, more_keys=(self._keys.samples_prefix,)))

    def wakes(self, *, timeout_s: float) -> Iterator[str]:
        """See `JobQueue.wakes`."""
        return self._door.listen(self._keys.wake, timeout_s=timeout_s)

    def _read(self, facts: str, order: str | None) -> Job:
        place = wire_jobs.place_in(facts)
        on = None if place is None else self._door.ask("HGET", self._keys.places, place)
        return wire_jobs.read_job(facts, order=order, on=on)

    def _wish(self, job_id: JobId, changes: Mapping[str, object]) -> JobState | None:
        state = self._run("wish", job_id, json.dumps(changes))
        return None if state is None else JobState(state)

    def _run_for(self, job_ids: Sequence[JobId], script: str, *args: Argument) -> list[str]:
        """Run a script that takes any number of jobs, for some at a time: Redis does nothing else meanwhile."""
        return [each for some in _in_calls(job_ids) for each in self._run(script, *args, *some)]

    def _run(self, script: str, *args: Argument, more_keys: Sequence[str] = ()) -> Any:
        return self._door.run(script, keys=[*self._keys.queue, *more_keys], args=args)

    def _run_kept(self, script: str, *args: Argument, more_keys: Sequence[str] = ()) -> tuple[Any, bool]:
        """Run a script whose outcome a failover must not lose, and tell whether it would not."""
        return self._door.run_kept(script, keys=[*self._keys.queue, *more_keys], args=args)


def remember_places(door: RedisDoor, keys: Keys, places: Iterable[tuple[NodeName, ...] | None]) -> None:
    """Write down which nodes the short names of places stand for, before a job that is bound to one is there."""
    known = {place: names for names in places if names is not None and (place := place_of(names))}
    if known:
        pairs = [part for place, names in known.items() for part in (place, wire.write_nodes(names))]
        door.ask("HSET", keys.places, *pairs)


def new_job_arguments(job: Job, facts: Mapping[str, object] | None = None) -> list[Argument]:
    """Return what `lua/enqueue_rules.lua` wants to be told of a new job; `facts` are more than the job itself holds."""
    due_ms = wire_jobs.milliseconds(job.due_at)
    return [
        *(job.id, scheduled_us(job), wire_jobs.write_facts(job, facts), wire_jobs.write_order(job)),
        *(wire_jobs.line_of(job), repr(wire_jobs.priority_of(job)), wire_jobs.likeness(job)),
        *("" if due_ms is None else repr(due_ms), "1" if job.is_held else ""),
    ]


def not_known(job_id: JobId) -> NotFoundError:
    """Return the error of a job that the queue does not know (any more)."""
    return NotFoundError(f"the shared queue knows no job {job_id}")


def _asked_us() -> int:
    """Return what puts the calls of one session in order; it rises as long as the node's process lives."""
    return time.monotonic_ns() // 1000


def _field(project: ProjectName, spider: SpiderName | None) -> str:
    return f"p:{project}" if spider is None else f"s:{project}/{spider}"


def _in_calls(job_ids: Sequence[JobId]) -> Iterator[list[JobId]]:
    """Part ids so that no call keeps Redis busy with more than so many jobs."""
    ids = list(dict.fromkeys(job_ids))
    return (ids[begin : begin + MAX_JOBS_A_CALL] for begin in range(0, len(ids), MAX_JOBS_A_CALL))


def _states(pairs: Sequence[str]) -> dict[JobId, JobState]:
    return {JobId(name): JobState(state) for name, state in zip(pairs[::2], pairs[1::2], strict=True)}


def _ids(names: Sequence[str]) -> frozenset[JobId]:
    return frozenset(JobId(name) for name in names)
