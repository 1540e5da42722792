"""The crons of one cluster in Redis: definitions, what is due, and firings that happen once (`lua/fire_crons.lua`)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from toolkit.model.crons import Cron, CronView, Due, Firing, Overlap, Proposal, Taken, TakenCrons, Trigger
from toolkit.model.errors import StoreUnreadableError
from toolkit.store import refusals, wire_crons
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.interfaces_watch import MAX_FIRINGS
from toolkit.store.keys import Keys
from toolkit.store.ordering import ttl_ms
from toolkit.store.redis_queue import MAX_JOBS_A_CALL, new_job_arguments, remember_places
from toolkit.store.wire_crons import due_ms, moment

REPLACE_GRACE_S = 30
"""How long a job that is replaced may take to close."""

LOOK_AGAIN_S = 30.0
"""How often a firing that waits for the end of the one before is looked at, should that end not have told of itself."""

MAX_WAITING = 100
"""How many firings of a cron wait for the one before them; what is due beyond that is skipped."""

_ANY_REVISION = "-"


class RedisCrons:
    """Keeps what `Crons` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def all(self) -> Sequence[CronView]:
        """See `Crons.all`."""
        keys = self._keys
        bodies, states, good = self._door.ask_together(
            ("HGETALL", keys.crons), ("HGETALL", keys.cron_states), ("HGETALL", keys.cron_followers)
        )
        return tuple(_view(bodies[name], states.get(name), good.get(f"+{name}")) for name in sorted(bodies))

    def get(self, name: str) -> CronView | None:
        """See `Crons.get`."""
        keys = self._keys
        body, state, good = self._door.ask_together(
            ("HGET", keys.crons, name), ("HGET", keys.cron_states, name), ("HGET", keys.cron_followers, f"+{name}")
        )
        return None if body is None else _view(body, state, good)

    def count(self) -> int:
        """See `Crons.count`."""
        return int(self._door.ask("HLEN", self._keys.crons))

    def soonest(self, *, limit: int) -> Sequence[CronView]:
        """See `Crons.soonest`. Two round trips."""
        if limit < 1:
            return ()
        keys = self._keys
        # Beside its due time a cron may have firings there that wait, or came by a job's end.
        places = self._door.ask("ZRANGE", keys.crons_due, 0, 2 * limit - 1)
        names = list(dict.fromkeys(str(place).partition("\n")[0] for place in places))[:limit]
        if not names:
            return ()
        bodies, states, good = self._door.ask_together(
            ("HMGET", keys.crons, *names),
            ("HMGET", keys.cron_states, *names),
            ("HMGET", keys.cron_followers, *(f"+{name}" for name in names)),
        )
        views = (_view(*three) for three in zip(bodies, states, good, strict=True) if three[0] is not None)
        return tuple(sorted((view for view in views if view.next_at is not None), key=lambda view: str(view.next_at)))

    def put(
        self,
        crons: Sequence[Cron],
        *,
        by: str,
        due: Mapping[str, Due] | None = None,
        expected: Mapping[str, str] | None = None,
    ) -> frozenset[str]:
        """See `Crons.put`."""
        if not crons:
            return frozenset()
        keys, arguments = self._keys, list[Argument]()
        for cron in crons:
            first = (due or {}).get(cron.name)
            arguments += [
                *(cron.name, wire_crons.write_cron(cron, by=by), wire_crons.revision_of(cron), *_times(first)),
                *(wire_crons.followed(cron), "" if cron.after is None else cron.after.outcome.value),
                "1" if cron.is_paused else "",
                (expected or {}).get(cron.name, _ANY_REVISION),
            ]
        verdict, *names = self._door.run(
            "put_crons",
            keys=[keys.crons, keys.cron_states, keys.crons_due, keys.cron_followers, keys.wake],
            args=arguments,
        )
        if verdict == "changed":
            raise refusals.cron_changed(names[0])
        return frozenset(names)

    def remove(self, names: Collection[str]) -> frozenset[str]:
        """See `Crons.remove`."""
        keys = self._keys
        shared = [keys.crons, keys.cron_states, keys.crons_due, keys.cron_followers]
        return frozenset(
            name
            for name in names
            if self._door.run("remove_cron", keys=[*shared, keys.cron_history(name)], args=[name])
        )

    def firings(self, name: str, *, limit: int = 50) -> Sequence[Firing]:
        """See `Crons.firings`."""
        if limit < 1:
            return ()
        bodies = self._door.ask("LRANGE", self._keys.cron_history(name), 0, limit - 1)
        return tuple(wire_crons.read_firing(name, body) for body in bodies)

    def take(self, *, most: int = 50, lease_s: float = 2.0) -> TakenCrons:
        """See `Crons.take`."""
        keys = self._keys
        now_ms, next_in_ms, *rest = self._door.run(
            "take_crons",
            keys=[keys.crons, keys.cron_states, keys.crons_due, keys.cron_followers],
            args=[most, ttl_ms(lease_s)],
        )
        taken: list[Taken] = []
        for place, body, state, good in zip(rest[::4], rest[1::4], rest[2::4], rest[3::4], strict=True):
            # A newer crawlctl's cron is for newer nodes; those that can be read shall not wait for it.
            with contextlib.suppress(StoreUnreadableError):
                taken.append(_taken(place, body, state, good))
        return TakenCrons(moment(int(now_ms)), tuple(taken), int(next_in_ms) / 1000 if next_in_ms else None)

    def commit(
        self, proposals: Sequence[Proposal], *, on_unkept: Callable[[], object] = lambda: None
    ) -> Sequence[Firing | None]:
        """See `Crons.commit`."""
        return tuple(told for some in _in_calls(proposals) for told in self._commit(some, on_unkept))

    def _commit(self, proposals: Sequence[Proposal], on_unkept: Callable[[], object]) -> Sequence[Firing | None]:
        keys = self._keys
        # The places come first: a line that a node sees must always be readable.
        remember_places(self._door, keys, (job.on for each in proposals for job in each.jobs))
        arguments: list[Argument] = [REPLACE_GRACE_S, MAX_FIRINGS, ttl_ms(LOOK_AGAIN_S), MAX_WAITING]
        for proposal in proposals:
            arguments += _arguments(proposal)
        told, is_kept = self._door.run_kept(
            "fire_crons",
            keys=[*keys.queue, keys.crons, keys.cron_states, keys.cron_history_prefix],
            args=arguments,
        )
        firings = tuple(
            wire_crons.read_firing(each.taken.cron.name, body) if body.startswith("{") else None
            for each, body in zip(proposals, told, strict=True)
        )
        if not is_kept and any(firings):
            on_unkept()
        return firings


def _view(body: str, state: str | None, good_ms: str | None) -> CronView:
    cron, revision, by = wire_crons.read_cron(body)
    fields = wire_crons.state_in(state)
    due, waits = wire_crons.due_in(fields), fields.maybe_texts("waits")
    return CronView(
        cron,
        next_at=None if due is None else due.fires_at,
        last=wire_crons.firing_in(cron.name, fields.part("last")) if fields.has("last") else None,
        waits_since=wire_crons.trigger_in(waits[0]).at if waits else None,
        last_success_at=moment(int(good_ms)) if good_ms else None,
        by=by,
        revision=revision,
        waiting=len(waits),
    )


def _taken(place: str, body: str, state: str, good_ms: str) -> Taken:
    """Read a place: a cron's name alone is its next due time, one with an empty rest the firing that waits longest."""
    cron, revision, _ = wire_crons.read_cron(body)
    fields = wire_crons.state_in(state)
    _, mark, rest = place.partition("\n")
    due = None if mark else wire_crons.due_in(fields)
    trigger = Trigger(due.at) if due else wire_crons.trigger_in(rest or fields.texts("waits")[0])
    last_good = moment(int(good_ms)) if good_ms else None
    waited = bool(mark) and not rest
    return Taken(cron, revision, trigger, place=place, due=due, waited=waited, last_success_at=last_good)


def _in_calls(proposals: Sequence[Proposal]) -> Iterator[list[Proposal]]:
    """Part proposals so that no call keeps Redis busy with more than so many jobs, or those of one firing."""
    some: list[Proposal] = []
    for each in proposals:
        if some and sum(len(one.jobs) for one in some) + len(each.jobs) > MAX_JOBS_A_CALL:
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def _arguments(proposal: Proposal) -> list[Argument]:
    taken = proposal.taken
    cron, trigger = taken.cron, taken.trigger
    overlap = cron.overlap if proposal.heeds_overlap else Overlap.ALLOW
    facts = {"cron": cron.name, "cron_ms": due_ms(trigger.at)}
    about = {"spider": cron.spider, "due": trigger.at.isoformat(timespec="seconds")}
    if project := proposal.jobs[0].project if proposal.jobs else cron.project:
        about["project"] = project
    return [
        *(cron.name, taken.place, taken.revision, wire_crons.trigger_text(trigger), due_ms(trigger.at)),
        *("" if taken.due is None else due_ms(taken.due.at), proposal.state.value, proposal.reason or ""),
        *(*_times(proposal.next), overlap.value, proposal.by, json.dumps(about), len(proposal.jobs)),
        *(argument for job in proposal.jobs for argument in new_job_arguments(job, facts)),
    ]


def _times(due: Due | None) -> tuple[Argument, Argument]:
    return ("", "") if due is None else (due_ms(due.at), due_ms(due.fires_at))
