"""The append-only record of changes in Redis: a stream, whose ids are Redis' own time."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from toolkit.model.audit import AuditEntry
from toolkit.store import refusals, wire_audit
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces import MAX_AUDIT
from toolkit.store.keys import Keys

_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_ENTRY = "entry"


class RedisAudit:
    """Keeps what `Audit` promises; each call is one round trip."""

    def __init__(self, door: RedisDoor, keys: Keys, *, max_entries: int = MAX_AUDIT) -> None:
        self._door = door
        self._key = keys.audit
        self._max_entries = max_entries

    def note(self, entry: AuditEntry) -> str:
        """See `Audit.note`."""
        body = wire_audit.write_entry(entry)
        return str(self._door.ask("XADD", self._key, "MAXLEN", self._max_entries, "*", _ENTRY, body))

    def entries(
        self, *, limit: int = 100, since: datetime | None = None, before: str | None = None
    ) -> Sequence[AuditEntry]:
        """See `Audit.entries`."""
        if limit < 1:
            return ()
        if before is not None and not _ID.fullmatch(before):
            raise refusals.no_audit_id(before)
        newest = "+" if before is None else f"({before}"
        oldest = "-" if since is None else str(max(0, math.ceil(since.timestamp() * 1000)))
        found = self._door.ask("XREVRANGE", self._key, newest, oldest, "COUNT", limit)
        return tuple(_entry(entry_id, dict(fields)) for entry_id, fields in found)


def _entry(entry_id: str, fields: dict[str, str]) -> AuditEntry:
    at = datetime.fromtimestamp(int(entry_id.partition("-")[0]) / 1000, UTC)
    return wire_audit.read_entry(fields.get(_ENTRY, ""), entry_id=entry_id, at=at)
