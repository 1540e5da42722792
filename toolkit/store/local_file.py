"""The one door to SQLite files of this machine, the local store before all: schema, transactions, errors.

Processes share it by SQLite's own locks (write-ahead log, `BEGIN IMMEDIATE`), so it must lie on a local disk.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolkit.model.errors import StoreUnreachableError, StoreUnreadableError, UsageError

BUSY_TIMEOUT_S = 5.0
_RETRY_OPENING_S = 0.02
_BEGINNING = """
CREATE TABLE tokens (last INTEGER NOT NULL);
INSERT INTO tokens VALUES (0);
CREATE TABLE locks (
    project TEXT PRIMARY KEY, token INTEGER NOT NULL, claim TEXT NOT NULL,
    since_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL
);
CREATE TABLE releases (
    project TEXT, version TEXT, digest TEXT NOT NULL, body TEXT NOT NULL, holders TEXT,
    PRIMARY KEY (project, version)
);
CREATE TABLE active (project TEXT PRIMARY KEY, version TEXT NOT NULL);
CREATE TABLE history (place INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX history_of_project ON history (project, place);
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, scheduled_us INTEGER NOT NULL, is_final INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX jobs_by_time ON jobs (scheduled_us, id);
CREATE INDEX jobs_by_end ON jobs (is_final, scheduled_us, id);
"""
_AUDIT_AND_ROLLOUTS = """
CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE rollouts (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, project TEXT NOT NULL, is_open INTEGER NOT NULL,
    body TEXT NOT NULL, egg BLOB
);
"""
# What brings a file from each format to the next one; a file made now goes through all of them.
_STEPS = (_BEGINNING, _AUDIT_AND_ROLLOUTS)
FORMAT = len(_STEPS)
_CREATING = threading.Lock()


class LocalFile:
    """One SQLite file, made with mode 0600 when it is first opened; safe between threads and between processes.

    `steps` bring a file from each format to the next one, those of the local store unless others are given.

    Raises:
        StoreUnreachableError: from every method, saying which file and why.
        StoreUnreadableError: the file was written by a newer crawlctl.

    """

    def __init__(self, path: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S, steps: Sequence[str] = _STEPS) -> None:
        self.path = path
        self._steps = tuple(steps)
        self._busy_timeout_s = busy_timeout_s
        self._one_at_a_time = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Make the file if it is not there, and see that it is a store; every other method does so by itself."""
        with self._one_at_a_time, self._translated():
            self._opened()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a view of the file as it is at one moment."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the file to this caller alone; what was changed is kept on leaving without an error, else undone."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def close(self) -> None:
        """Close the file; the next use would open it again."""
        with self._one_at_a_time:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._one_at_a_time, self._translated():
            connection = self._opened()
            with _all_or_nothing(connection, begin):
                yield connection

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._make_file()
            connection = sqlite3.connect(
                self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _make_file(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only a new file is opened here: closing one would drop the locks that this process holds on it (POSIX).
        with _CREATING:
            if not self.path.exists():
                self.path.touch(mode=0o600)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Set the journal and the schema; SQLite does not wait for another process that is just doing the same."""
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                self._make_schema(connection)
                return
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_OPENING_S)

    def _make_schema(self, connection: sqlite3.Connection) -> None:
        newest = len(self._steps)
        if _format(connection) == newest:
            return
        with _all_or_nothing(connection, "BEGIN IMMEDIATE"):
            found = _format(connection)
            if found > newest:
                raise StoreUnreadableError(
                    f"the store {self.path} was written by a newer crawlctl (format {found}, this one reads up to "
                    f"{newest})",
                    hint="pip install --upgrade crawlctl",
                )
            for step in self._steps[found:]:
                for statement in step.split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {newest}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            why, hint = self._meaning(error)
            raise StoreUnreachableError(f"the store {self.path}: {why}", hint=hint) from error
        except OSError as error:
            raise StoreUnreachableError(
                f"the store {self.path}: its folder or file cannot be made: {error.strerror}",
                hint=f"can this user write to {self.path.parent}?",
            ) from error
        except UnicodeEncodeError as error:
            raise UsageError(f"{error.object!r} is not text that can be stored") from error

    def _meaning(self, error: sqlite3.Error) -> tuple[str, str]:
        code = getattr(error, "sqlite_errorname", "")
        for start, why, hint in (
            ("SQLITE_BUSY", f"another process has held it for {self._busy_timeout_s:g} s", "try again in a moment"),
            ("SQLITE_LOCKED", "another process holds it", "try again in a moment"),
            ("SQLITE_FULL", "its disk is full", f"make room on the disk of {self.path.parent}"),
            ("SQLITE_READONLY", "this user may not write to it", f"look at owner and mode of {self.path.parent}"),
            ("SQLITE_CANTOPEN", "it cannot be opened", f"can this user read and write in {self.path.parent}?"),
            ("SQLITE_PERM", "this user may not use it", f"look at owner and mode of {self.path}"),
            ("SQLITE_CORRUPT", "it is damaged", f"move it away and deploy again: mv {self.path} {self.path}.broken"),
            ("SQLITE_NOTADB", "it is no store", f"move it away: mv {self.path} {self.path}.broken"),
            ("SQLITE_IOERR", f"its disk failed ({error})", "is the disk full or gone, or a network share?"),
        ):
            if code.startswith(start):
                return why, hint
        return str(error), f"move it away if nobody uses it: mv {self.path} {self.path}.broken"


@contextmanager
def _all_or_nothing(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has undone it already after some errors, a full disk for one.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _format(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version
