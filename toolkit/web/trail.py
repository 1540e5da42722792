"""What the audit and the server's log say of the pages themselves: sign-ins, users and tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from toolkit.model.audit import AuditEntry
from toolkit.model.errors import CrawlctlError, RefusedError
from toolkit.web.served import Served
from toolkit.web.visitor import Visitor

MAX_SUBJECT_CHARS = 100
log = logging.getLogger("crawlctl.web")


def note(served: Served, action: str, subject: str, result: str, *, address: str, who: str | None = None) -> None:
    """Write an entry; a store that is away keeps nobody from signing in, and the log has it in any case."""
    name = "".join(char if char.isprintable() else "?" for char in subject)[:MAX_SUBJECT_CHARS]
    log.info("%s of %r from %s: %s", action, name, address or "nowhere", result)
    entry = AuditEntry(
        at=datetime.now(UTC),  # the store puts its own time there
        who=who or f"{name}@web",
        action=action,
        subject=name,
        nodes=(),
        result=result,
        detail=f"from {address}" if address else None,
    )
    try:
        served.desk.store.audit.note(entry)
    except CrawlctlError as error:
        log.warning("this is not in the audit: %s", error.message)


@contextmanager
def noted(visitor: Visitor, action: str, subject: str, *, address: str) -> Iterator[None]:
    """Write an entry of what is done within the block to users and tokens, with how it went."""
    result = "interrupted"
    try:
        yield
        result = "done"
    except CrawlctlError as error:
        result = "refused" if isinstance(error, RefusedError) else "failed"
        raise
    finally:
        note(visitor.served, action, subject, result, address=address, who=visitor.who)
