"""The append-only record of changes of a cluster without Redis, in a file of this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from toolkit.model.audit import AuditEntry
from toolkit.store import refusals, wire_audit
from toolkit.store.interfaces import MAX_AUDIT
from toolkit.store.local_file import LocalFile

_LARGEST_ID = 2**63 - 1


class LocalAudit:
    """Keeps what `Audit` promises, by this machine's clock."""

    def __init__(self, file: LocalFile, *, max_entries: int = MAX_AUDIT) -> None:
        self._file = file
        self._max_entries = max_entries

    def note(self, entry: AuditEntry) -> str:
        """See `Audit.note`."""
        body = wire_audit.write_entry(entry)
        with self._file.writing() as rows:
            added = rows.execute(
                "INSERT INTO audit (at_ms, body) VALUES (?, ?)", (time.time_ns() // 1_000_000, body)
            ).lastrowid
            rows.execute("DELETE FROM audit WHERE id <= ?", ((added or 0) - self._max_entries,))
        return str(added)

    def entries(
        self, *, limit: int = 100, since: datetime | None = None, before: str | None = None
    ) -> Sequence[AuditEntry]:
        """See `Audit.entries`."""
        if before is not None and not (before.isascii() and before.isdigit() and len(before) < len(str(_LARGEST_ID))):
            raise refusals.no_audit_id(before)
        oldest_ms = 0 if since is None else math.ceil(since.timestamp() * 1000)
        last = _LARGEST_ID if before is None else int(before)
        with self._file.reading() as rows:
            found = rows.execute(
                "SELECT id, at_ms, body FROM audit WHERE id < ? AND at_ms >= ? ORDER BY id DESC LIMIT ?",
                (last, oldest_ms, max(0, limit)),
            ).fetchall()
        return tuple(
            wire_audit.read_entry(body, entry_id=str(entry_id), at=datetime.fromtimestamp(at_ms / 1000, UTC))
            for entry_id, at_ms, body in found
        )
