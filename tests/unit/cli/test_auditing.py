"""How a command's entry comes into the audit: what it said of itself, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import typer

from toolkit.cli.auditing import MAX_TEXT_CHARS, auditing
from toolkit.cli.session import GlobalOptions, Session
from toolkit.model.audit import AuditEntry
from toolkit.model.errors import LockHeldError, NodesFailedError, StoreUnreachableError, UsageError
from toolkit.store.local_store import LocalStore


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("CRAWLCTL_STATE", str(tmp_path / "state"))
    (tmp_path / "inventory.yaml").write_text("hosts: {node-1: {address: 127.0.0.1}}\n")
    monkeypatch.chdir(tmp_path)
    session = Session(GlobalOptions(), audit="nodes drain")
    yield session
    session.close()


def noted(session: Session) -> list[AuditEntry]:
    return list(session.store.audit.entries())


def ended(session: Session, act: Callable[[], object]) -> AuditEntry | None:
    """Run what a command does, and return the entry that it left, if any."""
    with suppress(BaseException), auditing(session):
        act()
    return next(iter(noted(session)), None)


def raising(session: Session, end: BaseException) -> Callable[[], None]:
    def act() -> None:
        session.audit("node-1", nodes=["node-1"])
        raise end

    return act


def test_a_command_that_did_its_work_is_done(session: Session) -> None:
    def act() -> None:
        session.audit("shop v1", nodes=["node-1"])
        session.audit(nodes=["node-1", "node-2"], detail="2 nodes")

    entry = ended(session, act)
    assert entry is not None
    assert (entry.action, entry.subject, entry.nodes) == ("nodes drain", "shop v1", ("node-1", "node-2"))
    assert (entry.result, entry.detail) == ("done", "2 nodes")
    assert entry.who.partition(":")[0].count("@") == 1


@pytest.mark.parametrize(
    ("end", "result", "detail"),
    [
        (NodesFailedError("two of them failed"), "failed", "two of them failed"),
        (UsageError("so not"), "failed", "so not"),
        (KeyboardInterrupt(), "interrupted", None),
        (typer.Exit(130), "interrupted", None),
        (typer.Exit(6), "refused", None),
        (typer.Exit(4), "failed", None),
        (ZeroDivisionError("a bug"), "failed", None),
    ],
)
def test_however_a_command_ends_its_entry_says_so(
    session: Session, end: BaseException, result: str, detail: str | None
) -> None:
    entry = ended(session, raising(session, end))
    assert entry is not None
    assert (entry.result, entry.detail) == (result, detail)


def test_a_lock_that_somebody_holds_is_a_refusal(session: Session) -> None:
    held = LockHeldError("shop", who="bob@desk:1", since=session.store.now(), why="deploy v2")
    entry = ended(session, raising(session, held))
    assert entry is not None
    assert entry.result == "refused"
    assert "bob@desk:1" in str(entry.detail)


def test_a_failure_told_beside_a_result_is_in_the_entry(session: Session) -> None:
    def act() -> None:
        session.audit("node-1")
        raise session.failed(NodesFailedError("1 of 2 failed"))

    entry = ended(session, act)
    assert entry is not None
    assert (entry.result, entry.detail) == ("failed", "1 of 2 failed")


def test_a_command_that_never_came_to_its_work_leaves_nothing(session: Session) -> None:
    def act() -> None:
        raise UsageError("not so")

    assert ended(session, act) is None


def test_what_changed_nothing_leaves_nothing(session: Session) -> None:
    def act() -> None:
        session.audit("shop v1")
        session.audit_nothing()

    assert ended(session, act) is None


def test_a_command_that_only_reads_opens_no_store(tmp_path: Path) -> None:
    session = Session(GlobalOptions(inventory=tmp_path / "none.yaml"))
    with auditing(session):
        session.audit("nobody hears this")
    assert "store" not in vars(session)


def test_an_entry_that_cannot_be_written_is_told_and_nothing_else(
    session: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnreachableError("the Redis at nowhere does not answer")

    monkeypatch.setattr(LocalStore, "audit", property(away))
    with auditing(session):
        session.audit("node-1")
    assert "this is not in the audit: the Redis at nowhere" in capsys.readouterr().err


def test_an_entry_is_short_and_holds_no_password_of_an_address(session: Session) -> None:
    def act() -> None:
        session.audit("https://ann:pass/w@rd@site/x", detail="x" * 1000 + "\nsecond line")

    entry = ended(session, act)
    assert entry is not None
    assert entry.subject == "https" + "://***@site/x"
    assert len(str(entry.detail)) == MAX_TEXT_CHARS
