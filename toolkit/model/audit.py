"""One entry of the append-only record of who changed what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from toolkit.model.names import NodeName


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that somebody asked for. `who` is `user@host:pid`, as of a lock; the host is where it was asked from.

    `action` is the command's words without options, as in `nodes drain`; `subject` what it was done to; `result` is
    `done`, `failed`, `refused`, `interrupted`, or `begun` where the end is another entry; `detail` one line. Never
    holds a secret. `id` is the store's, rising.
    """

    at: datetime
    who: str
    action: str
    subject: str
    nodes: tuple[NodeName, ...]
    result: str
    detail: str | None = None
    id: str = ""
