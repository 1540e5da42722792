"""Rules, sinks and how far each sink is told, in Redis."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from toolkit.model.alerts import Alerts, Failed, HeldEvent, Progressed, Silence, SinkLease, SinkState
from toolkit.model.errors import ConflictError
from toolkit.model.events import Event
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.interfaces_alerts import MAX_FAILED, MAX_HELD
from toolkit.store.keys import Keys
from toolkit.store.ordering import ttl_ms
from toolkit.store.wire_alerts import (
    moment,
    read_alerts,
    read_failed,
    read_held,
    told_of,
    write_alerts,
    write_failed,
    write_held,
)
from toolkit.store.wire_events import read_event

_TRIES = 5


class RedisAlerts:
    """Keeps what `AlertStore` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def revision(self) -> int:
        """See `AlertStore.revision`."""
        return int(self._door.ask("HGET", self._keys.alerts, "revision") or 0)

    def read(self) -> Alerts:
        """See `AlertStore.read`."""
        found = dict(self._door.ask("HGETALL", self._keys.alerts))
        if "body" not in found:
            return Alerts()
        at = moment(found["at_ms"]) if "at_ms" in found else None
        return read_alerts(found["body"], revision=int(found["revision"]), by=found.get("by", ""), at=at)

    def put(self, alerts: Alerts, *, by: str) -> int:
        """See `AlertStore.put`."""
        body = write_alerts(alerts)
        for _ in range(_TRIES):
            before = self.read()
            gone = [name for name in before.sinks if name not in alerts.sinks]
            args: list[Argument] = [before.revision, body, by, *alerts.sinks]
            keys = [*self._keys.alerting, *(key for name in gone for key in self._of(name))]
            done = self._door.run("put_alerts", keys=keys, args=args)
            if done:
                return int(done)
        raise ConflictError("somebody else changes the alerts at the same time", hint="crawlctl alerts apply")

    def take(self, sinks: Sequence[str], *, holder: str, term_s: float) -> SinkLease | None:
        """See `AlertStore.take`."""
        states = self.states(sinks) if sinks else {}
        for name in (name for name in sinks if states[name].by is None):
            found = self._door.run("take_sink", keys=self._all(name), args=[name, holder, ttl_ms(term_s)])
            if found:
                return _lease(name, found)
        return None

    def renew(self, lease: SinkLease, *, term_s: float) -> SinkLease | None:
        """See `AlertStore.renew`."""
        args: list[Argument] = [lease.sink, lease.token, ttl_ms(term_s)]
        found = self._door.run("renew_sink", keys=self._all(lease.sink), args=args)
        return _lease(lease.sink, found) if found else None

    def advance(self, lease: SinkLease, step: Progressed, *, term_s: float) -> SinkLease | None:
        """See `AlertStore.advance`."""
        body = json.dumps(_step(lease.sink, step), ensure_ascii=False)
        args: list[Argument] = [lease.sink, lease.token, ttl_ms(term_s), MAX_HELD, MAX_FAILED, body]
        found = self._door.run("advance_sink", keys=self._all(lease.sink), args=args)
        return _lease(lease.sink, found) if found else None

    def give_back(self, lease: SinkLease) -> None:
        """See `AlertStore.give_back`."""
        self._door.run("renew_sink", keys=self._all(lease.sink), args=[lease.sink, lease.token, 0])

    def news(self, after: str, *, wait_s: float, limit: int = 100) -> tuple[str, Sequence[Event]]:
        """See `AlertStore.news`."""
        block_ms = ttl_ms(min(wait_s, self._door.address.answer_timeout_s / 2))
        asked = ("XREAD", "COUNT", limit, "BLOCK", block_ms, "STREAMS", self._keys.events, after)
        found = self._door.ask(*asked)
        entries = found[0][1] if found else []
        read = [read_event(event_id, dict(fields)) for event_id, fields in entries]
        return (entries[-1][0] if entries else after), tuple(event for event in read if event is not None)

    def hurry(self, sinks: Sequence[str]) -> None:
        """See `AlertStore.hurry`."""
        if sinks:
            self._door.ask_together(*(("HSET", self._keys.sink(name), "next_ms", 0) for name in sinks))

    def states(self, sinks: Sequence[str]) -> Mapping[str, SinkState]:
        """See `AlertStore.states`."""
        commands: list[Sequence[Argument]] = [("TIME",)]
        for name in sinks:
            commands += [("HGETALL", self._keys.sink(name)), ("ZCARD", self._keys.held_for(name))]
        now, *found = self._door.ask_together(*commands)
        pairs = zip(sinks, found[::2], found[1::2], strict=True)
        return {name: _state(dict(fields), int(held), now_ms=_ms(now)) for name, fields, held in pairs}

    def silence(self, rule: str, *, for_s: float, by: str) -> Silence:
        """See `AlertStore.silence`."""
        until = self._door.now() + timedelta(seconds=for_s)
        body = json.dumps({"until_ms": round(until.timestamp() * 1000), "by": by})
        self._door.ask("HSET", self._keys.silences, rule, body)
        return Silence(rule, until, by)

    def unsilence(self, rule: str) -> bool:
        """See `AlertStore.unsilence`."""
        return bool(self._door.ask("HDEL", self._keys.silences, rule))

    def silences(self) -> Sequence[Silence]:
        """See `AlertStore.silences`."""
        found, now = self._door.ask_together(("HGETALL", self._keys.silences), ("TIME",))
        read = _silences(dict(found))
        return tuple(read[rule] for rule in sorted(read) if read[rule].until > moment(_ms(now)))

    def failed(self, *, limit: int = 100) -> Sequence[Failed]:
        """See `AlertStore.failed`."""
        lines = self._door.ask("LRANGE", self._keys.failed_alerts, 0, max(0, limit - 1)) if limit > 0 else []
        pairs = (line.partition(" ") for line in lines)
        return tuple(read_failed(body, at=moment(at_ms)) for at_ms, _, body in pairs)

    def _of(self, sink: str) -> tuple[str, str]:
        return (self._keys.sink(sink), self._keys.held_for(sink))

    def _all(self, sink: str) -> tuple[str, ...]:
        return (*self._keys.alerting, *self._of(sink))


def _lease(sink: str, found: Sequence[Any]) -> SinkLease:
    token, now_ms, revision, flat, silences, waiting = found
    fields = _pairs(flat)
    held = (read_held(raw, due_ms=int(float(due_ms))) for raw, due_ms in _pairs(waiting).items())
    return SinkLease(
        sink=sink,
        token=int(token),
        now=moment(now_ms),
        revision=int(revision),
        cursor=fields["cursor"],
        tries=int(fields.get("tries", 0)),
        not_before=moment(fields["next_ms"]) if "next_ms" in fields else None,
        told=told_of(fields),
        silences={rule: each.until for rule, each in _silences(_pairs(silences)).items()},
        held=tuple(each for each in held if each is not None),
    )


def _step(sink: str, step: Progressed) -> dict[str, Any]:
    body: dict[str, Any] = {
        "hold": [_held(sink, each) for each in step.hold],
        "drop": [each.raw for each in step.drop],
        "told": list(step.told),
        "failed": [json.dumps(write_failed(each)) for each in step.failed],
        "is_delivered": step.is_delivered,
        "pause_ms": round(step.pause_s * 1000),
    }
    optional = {"cursor": step.cursor, "tries": step.tries, "error": step.error}
    return body | {name: value for name, value in optional.items() if value is not None}


def _held(sink: str, each: HeldEvent) -> list[Any]:
    """Return when it is due, what is held, and what is noted in its stead where too much is held already."""
    failed = Failed(sink, each.event.id, each.event.subject, (each.rule,), "too much is held back for this sink")
    due_ms = round(each.due.timestamp() * 1000)
    return [due_ms, write_held(each.event, each.rule), json.dumps(write_failed(failed))]


def _state(fields: Mapping[str, str], held: int, *, now_ms: int) -> SinkState:
    # As in `lua/take_sink.lua`: a lease from before a clock was set back holds nothing.
    is_held = 0 < int(fields.get("expires_ms", 0)) - now_ms <= int(fields.get("term_ms", 0))
    return SinkState(
        cursor=fields.get("cursor", ""),
        held=held,
        tries=int(fields.get("tries", 0)),
        error=fields.get("error"),
        delivered=int(fields.get("delivered", 0)),
        delivered_at=moment(fields["delivered_ms"]) if "delivered_ms" in fields else None,
        by=fields.get("holder") if is_held else None,
    )


def _silences(found: Mapping[str, str]) -> dict[str, Silence]:
    read = {rule: json.loads(body) for rule, body in found.items()}
    return {rule: Silence(rule, moment(body["until_ms"]), body.get("by", "")) for rule, body in read.items()}


def _ms(time: tuple[int, int]) -> int:
    seconds, microseconds = time
    return int(seconds) * 1000 + int(microseconds) // 1000


def _pairs(flat: Sequence[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
