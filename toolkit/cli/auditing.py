"""How a command that changes something gets into the audit: it says what and on which nodes, its end says how it went.

An entry is written once, after the command's work. One that cannot be written is told, and changes nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolkit.cli.audit_note import AuditNote, Told
from toolkit.cli.errors import ExitCode, described
from toolkit.model.errors import CrawlctlError, StoreUnreachableError, UsageError

if TYPE_CHECKING:
    from toolkit.cli.session import Session

DONE, FAILED, REFUSED, INTERRUPTED = "done", "failed", "refused", "interrupted"
MAX_TEXT_CHARS = 300

_RESULTS: Mapping[int, str] = {ExitCode.OK: DONE, ExitCode.REFUSED: REFUSED, ExitCode.INTERRUPTED: INTERRUPTED}
_USERINFO = re.compile(r"://\S*@")


@contextmanager
def auditing(session: Session) -> Iterator[None]:
    """Write the session's entry, if it has one, when the block is left, by whatever way; the way out stays the same."""
    note = session.audit_note
    if note is None:
        yield
        return
    try:
        yield
    except BaseException as end:
        _leave(session, note, end)
        raise
    _leave(session, note, None)


def _leave(session: Session, note: AuditNote, end: BaseException | None) -> None:
    error = note.error or (end if isinstance(end, CrawlctlError) else None)
    is_refused_words = isinstance(note.error, UsageError)  # or somebody said no when asked
    is_begun = note.told is not None or end is None or (note.error is not None and not is_refused_words)
    if note.is_unwanted or not is_begun:
        return
    told, result = note.told or Told(), _result(end, error)
    detail = f"{told.detail}: {error.message}" if told.detail and error else error.message if error else told.detail
    try:
        # A store that was away a moment ago is not waited for once more.
        if isinstance(error, StoreUnreachableError):
            raise error
        _write(session, note.action, replace(told, detail=detail), result)
    except CrawlctlError as unwritten:
        session.printer.say(f"this is not in the audit: {unwritten.message}", style="yellow")


def _write(session: Session, action: str, told: Told, result: str) -> None:
    from toolkit.model.audit import AuditEntry
    from toolkit.model.names import NodeName
    from toolkit.rollout.lock import operator

    session.store.audit.note(
        AuditEntry(
            at=datetime.now(UTC),  # the store puts its own time there
            who=operator(),
            action=action,
            subject=_line(told.subject),
            nodes=tuple(NodeName(name) for name in told.nodes),
            result=result,
            detail=None if told.detail is None else _line(told.detail),
        )
    )


def _result(end: BaseException | None, error: CrawlctlError | None) -> str:
    """Say in one word how the command ended, by the exit code that it ends with."""
    if end is None:
        return DONE
    if isinstance(end, KeyboardInterrupt):
        return INTERRUPTED
    code = getattr(end, "exit_code", None)
    if code is None and error is not None:
        code = described(error)[0]
    return _RESULTS.get(code, FAILED) if isinstance(code, int) else FAILED


def _line(text: str) -> str:
    """Keep one short line, without what may be a password in an address."""
    line = _USERINFO.sub("://***@", " ".join(text.split()))
    return line if len(line) <= MAX_TEXT_CHARS else f"{line[: MAX_TEXT_CHARS - 1]}…"
