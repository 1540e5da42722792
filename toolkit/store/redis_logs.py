"""Shipped logs in Redis: a hash of what is known and one of packed parts for each job, and three keys over all."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.names import JobId, NodeName
from toolkit.model.shipped import LogPart, Shipment, ShippedLog
from toolkit.store import wire_logs
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces_logs import Laid, LogTerms
from toolkit.store.keys import Keys
from toolkit.store.ordering import ttl_ms

AT_ONCE = 100
"""How many logs are taken away in one step."""

_TRIES = 20


class RedisLogs:
    """Keeps what `ShippedLogs` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def of_job(self, job_id: JobId) -> Sequence[ShippedLog]:
        """See `ShippedLogs.of_job`."""
        known: dict[str, str] = self._door.ask("HGETALL", self._keys.log(job_id))
        logs = [wire_logs.read_log(body, node=NodeName(node)) for node, body in known.items()]
        return sorted(logs, key=lambda log: (log.written_at, log.node))

    def lay(
        self, job_id: JobId, log: ShippedLog, *, terms: LogTerms, shipment: Shipment | None = None, content: bytes = b""
    ) -> Laid:
        """See `ShippedLogs.lay`."""
        field = "" if shipment is None else _field(log.node, shipment.part)
        gone = () if shipment is None else shipment.gone
        own = (self._keys.log(job_id), self._keys.log_parts(job_id))
        packed = wire_logs.pack(content) if shipment is not None else b""
        for _ in range(_TRIES):
            laid = Laid(
                self._door.run(
                    "ship_log",
                    keys=[*own, self._keys.logs_order, self._keys.logs_ended, self._keys.logs_sizes],
                    args=[
                        *(job_id, log.node, log.revision - 1, wire_logs.write_log(log), ttl_ms(terms.keep_s)),
                        *(terms.max_total_bytes, "1" if log.is_complete else "0", field, packed),
                        *(_field(log.node, part) for part in gone),
                    ],
                )
            )
            if laid is not Laid.FULL or not self._make_room(but=job_id):
                return laid
        return Laid.FULL

    def read(self, job_id: JobId, log: ShippedLog, part: LogPart) -> bytes | None:
        """See `ShippedLogs.read`."""
        packed = self._door.ask_for_bytes("HGET", self._keys.log_parts(job_id), _field(log.node, part))
        return None if packed is None else wire_logs.unpack(packed, part)

    def drop_old(self, *, keep_s: float) -> int:
        """See `ShippedLogs.drop_old`."""
        oldest_ms = round(self._door.now().timestamp() * 1000) - ttl_ms(keep_s)
        old = self._door.ask("ZRANGEBYSCORE", self._keys.logs_order, "-inf", f"({oldest_ms}", "LIMIT", 0, AT_ONCE)
        return self._drop(old, keep_ms=ttl_ms(keep_s))

    def _make_room(self, *, but: JobId) -> bool:
        ended = self._door.ask("ZRANGE", self._keys.logs_ended, 0, 1)
        return bool(self._drop([each for each in ended if each != but][:1], keep_ms=-1))

    def _drop(self, jobs: Sequence[str], *, keep_ms: int) -> int:
        if not jobs:
            return 0
        keys = self._keys
        own = [key for job in jobs for key in (keys.log(JobId(job)), keys.log_parts(JobId(job)))]
        over_all = [keys.logs_order, keys.logs_ended, keys.logs_sizes]
        return int(self._door.run("drop_logs", keys=[*over_all, *own], args=[keep_ms, *jobs]))


def _field(node: NodeName, part: LogPart) -> str:
    return f"{node} {part.begin}"
