"""Reading the audit: entries that pass a filter, page by page, so that a rare one is found however old it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from toolkit.model.audit import AuditEntry
from toolkit.store.interfaces import Store

PAGE = 1000


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries to show; an empty field lets every one through. `who` is a part of it, `action` its begin."""

    since: datetime | None = None
    who: str | None = None
    action: str | None = None
    node: str | None = None

    def admits(self, entry: AuditEntry) -> bool:
        """Tell whether the entry is one of those asked for."""
        return (
            (self.who is None or self.who.casefold() in entry.who.casefold())
            and (self.action is None or entry.action.startswith(self.action))
            and (self.node is None or self.node in entry.nodes or self.node in entry.subject.split())
        )


def audit_trail(store: Store, wanted: AuditFilter, *, limit: int) -> Sequence[AuditEntry]:
    """Return the newest entries that pass the filter, newest first."""
    found: list[AuditEntry] = []
    before: str | None = None
    is_plain = wanted == AuditFilter(since=wanted.since)
    size = min(limit, PAGE) if is_plain else PAGE
    while len(found) < limit:
        page = store.audit.entries(limit=size, since=wanted.since, before=before)
        found += [entry for entry in page if wanted.admits(entry)]
        if len(page) < size:
            break
        before = page[-1].id
    return found[:limit]
