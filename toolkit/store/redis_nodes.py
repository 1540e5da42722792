"""The registry of plug-in nodes in Redis: heartbeats, leases renewed by them, drains."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from toolkit.model.errors import ConflictError
from toolkit.model.names import JobId, NodeName, Token
from toolkit.model.nodes import NodeRecord, NodeReport, Whereabouts
from toolkit.model.queue import BeatAnswer, Held
from toolkit.store import wire_jobs, wire_nodes
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.keys import Keys
from toolkit.store.ordering import ttl_ms


class RedisNodes:
    """Keeps what `NodeRegistry` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def beat(
        self,
        report: NodeReport,
        held: Sequence[Held],
        *,
        ended: Sequence[tuple[JobId, Token]] = (),
        was_registered: bool = False,
        returned_ms: int | None = None,
    ) -> BeatAnswer:
        """See `NodeRegistry.beat`."""
        keys = self._keys
        arguments: list[Argument] = [
            *(report.name, report.session, report.home, ttl_ms(report.lease_s), "1" if was_registered else "0"),
            *(wire_nodes.write_report(report), _room(report), "" if returned_ms is None else returned_ms, len(held)),
        ]
        for each in held:
            progress = "" if each.progress is None else wire_jobs.write_progress(each.progress)
            grace = "" if each.cancel_grace_s is None else repr(each.cancel_grace_s)
            arguments += [each.job_id, each.token, progress, grace]
        for job_id, token in ended:
            arguments += [job_id, token]
        more = (keys.nodes, keys.sessions, keys.draining, keys.changes, keys.clashes, keys.questions(report.name))
        verdict, *told = self._door.run("beat", keys=[*keys.queue, *more], args=arguments)
        if verdict == "clash":
            raise ConflictError(
                f"a node named {report.name} is live already, at {told[0] or 'an unknown address'}",
                hint="give this one another node_name in its scrapyd.conf, or stop the other",
            )
        now_ms, is_draining, releases, live, stale, wished, unheard, unknown, taken_up, questions, returned_ms = told
        return BeatAnswer(
            now=_moment(int(now_ms)),
            is_draining=bool(is_draining),
            releases=int(releases),
            live_nodes=int(live),
            stale=tuple(map(Token, stale)),
            unheard=tuple(map(Token, unheard)),
            unknown=tuple(map(Token, unknown)),
            taken_up=tuple(map(Token, taken_up)),
            questions=int(questions),
            wishes={
                Token(token): wire_jobs.read_wish(wish) for token, wish in zip(wished[::2], wished[1::2], strict=True)
            },
            returned_ms=int(returned_ms),
        )

    def whereabouts(self, *, anew: bool = False) -> Whereabouts:
        """See `NodeRegistry.whereabouts`."""
        return self._door.whereabouts(anew=anew)

    def look_anew(self) -> None:
        """See `NodeRegistry.look_anew`."""
        self._door.forget_connections()

    def leave(self, report: NodeReport) -> None:
        """See `NodeRegistry.leave`."""
        keys = [self._keys.room, self._keys.sessions]
        self._door.run("leave", keys=keys, args=[report.name, report.session])

    def all(self) -> Sequence[NodeRecord]:
        """See `NodeRegistry.all`. One round trip, however many nodes."""
        keys = self._keys
        time, reports, beats, draining, clashes = self._door.ask_together(
            ("TIME",),
            ("HGETALL", keys.nodes),
            ("ZRANGE", keys.beats, 0, -1, "WITHSCORES"),
            ("HGETALL", keys.draining),
            ("HGETALL", keys.clashes),
        )
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        beat_ms = {name: float(score) for name, score in zip(beats[::2], beats[1::2], strict=True)}
        return [
            _record(
                wire_nodes.read_report(reports[name]),
                beat_ms=int(beat_ms.get(name, 0)),
                now_ms=now_ms,
                drain=draining.get(name),
                clash=clashes.get(name),
            )
            for name in sorted(reports)
        ]

    def drain(self, names: Sequence[NodeName], *, who: str) -> frozenset[NodeName]:
        """See `NodeRegistry.drain`."""
        known = self._known(names)
        for name in known:
            self._door.ask_together(
                ("HSET", self._keys.draining, name, json.dumps({"who": who})),
                ("ZREM", self._keys.room, name),
                ("PUBLISH", self._keys.wake, name),
            )
        return known

    def resume(self, names: Sequence[NodeName]) -> frozenset[NodeName]:
        """See `NodeRegistry.resume`."""
        known = self._known(names)
        for name in known:
            self._door.ask_together(("HDEL", self._keys.draining, name), ("PUBLISH", self._keys.wake, name))
        return known

    def forget(self, names: Sequence[NodeName]) -> frozenset[NodeName]:
        """See `NodeRegistry.forget`."""
        keys = self._keys
        dropped = self._door.run(
            "forget_nodes",
            keys=[keys.nodes, keys.beats, keys.sessions, keys.draining, keys.room, keys.clashes],
            args=list(names),
        )
        return frozenset(map(NodeName, dropped))

    def _known(self, names: Sequence[NodeName]) -> frozenset[NodeName]:
        if not names:
            return frozenset()
        found = self._door.ask("HMGET", self._keys.nodes, *names)
        return frozenset(name for name, body in zip(names, found, strict=True) if body is not None)


def _room(report: NodeReport) -> str:
    """Return the share of the slots that is taken, or nothing when the node can take no job."""
    if report.unfit is not None or report.running >= report.slots:
        return ""
    return repr(report.running / report.slots)


def _record(report: NodeReport, *, beat_ms: int, now_ms: int, drain: str | None, clash: str | None) -> NodeRecord:
    other = {} if clash is None else json.loads(clash)
    is_fresh = other.get("at_ms", 0) > now_ms - report.lease_s * 1000
    return NodeRecord(
        report,
        beat_at=_moment(beat_ms),
        age_s=max(0, now_ms - beat_ms) / 1000,
        is_draining=drain is not None,
        drained_by=None if drain is None else json.loads(drain).get("who"),
        clash=str(other.get("report") or "an unknown address") if is_fresh else None,
    )


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
