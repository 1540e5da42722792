"""The users of the pages: name, role and password's hash, in a file of the operator's machine."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime

from toolkit.model.accounts import Role, User
from toolkit.model.errors import ConflictError, NotFoundError, RefusedError, UsageError
from toolkit.store.local_file import LocalFile
from toolkit.web.passwords import Passwords, check_password

__all__ = ["Accounts", "Role", "User", "check_name"]

MAX_NAME_CHARS = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class Accounts:
    """The users of one cluster's pages. Any thread and any process may call; every change is atomic.

    Whoever's password or role changes is signed out everywhere at once. `clock` returns seconds since the epoch.

    Raises:
        StoreUnreachableError: from every method; the file cannot be used, and why.

    """

    def __init__(
        self, file: LocalFile, *, passwords: Passwords | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.file = file
        self.clock = clock
        self._passwords = passwords or Passwords()

    def users(self) -> list[User]:
        """Return all users, sorted by name."""
        with self.file.reading() as connection:
            return [_user(row) for row in connection.execute("SELECT name, role, created_ms FROM users ORDER BY name")]

    def get(self, name: str) -> User | None:
        """Return one user."""
        with self.file.reading() as connection:
            row = connection.execute("SELECT name, role, created_ms FROM users WHERE name = ?", (name,)).fetchone()
        return None if row is None else _user(row)

    def require(self, name: str) -> User:
        """Return one user, or raise `NotFoundError`."""
        with self.file.reading() as connection:
            return _known(connection, name)

    def add(self, name: str, role: Role, password: str, *, must_be_first: bool = False) -> User:
        """Add a user; with `must_be_first` only while there is none.

        Raises:
            UsageError: the name or the password will not do.
            ConflictError: there is such a user, or there is one at all.

        """
        user = User(check_name(name), role, datetime.fromtimestamp(self.clock(), UTC))
        kept = self._passwords.hash(check_password(password, user=name))
        with self.file.writing() as connection:
            if must_be_first and connection.execute("SELECT 1 FROM users").fetchone():
                raise ConflictError("there is a user already", hint="sign in, or crawlctl web users add NAME")
            try:
                row = (user.name, role.value, kept, int(self.clock() * 1000))
                connection.execute("INSERT INTO users VALUES (?, ?, ?, ?)", row)
            except sqlite3.IntegrityError as error:
                raise ConflictError(f"there is a user {name} already", hint="crawlctl web users list") from error
        return user

    def set_role(self, name: str, role: Role) -> User:
        """Give a user another role.

        Raises:
            NotFoundError: there is no such user.
            RefusedError: nobody would be left to administer.

        """
        with self.file.writing() as connection:
            known = _known(connection, name)
            if known.role is Role.ADMINISTER and role is not Role.ADMINISTER:
                _refuse_last(connection, name)
            connection.execute("UPDATE users SET role = ? WHERE name = ?", (role.value, name))
            _sign_out(connection, name)
        return User(name, role, known.created_at)

    def set_password(self, name: str, password: str) -> None:
        """Give a user another password; the user's sessions end, tokens of programs stay.

        Raises:
            UsageError: the password will not do.
            NotFoundError: there is no such user.

        """
        kept = self._passwords.hash(check_password(password, user=name))
        with self.file.writing() as connection:
            _known(connection, name)
            connection.execute("UPDATE users SET hash = ? WHERE name = ?", (kept, name))
            _sign_out(connection, name)
            connection.execute("DELETE FROM devices WHERE user = ?", (name,))

    def remove(self, name: str) -> None:
        """Remove a user with all sessions and tokens.

        Raises:
            NotFoundError: there is no such user.
            RefusedError: nobody would be left to administer, and somebody is left to look on.

        """
        with self.file.writing() as connection:
            known = _known(connection, name)
            others = connection.execute("SELECT count(*) FROM users").fetchone()[0] - 1
            if known.role is Role.ADMINISTER and others:
                _refuse_last(connection, name)
            for table, column in (("users", "name"), ("sessions", "user"), ("devices", "user"), ("tokens", "user")):
                connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))  # noqa: S608 - names of ours

    def is_right(self, name: str, password: str) -> bool:
        """Compare a user's password; an unknown user's is never right, and takes as long.

        Raises:
            RefusedError: too many are being checked already.

        """
        with self.file.reading() as connection:
            row = connection.execute("SELECT hash FROM users WHERE name = ?", (name,)).fetchone()
        kept = None if row is None else row[0]
        if not self._passwords.is_right(password, kept):
            return False
        if kept is not None and self._passwords.is_old(kept):
            fresh = self._passwords.hash(password)
            with self.file.writing() as connection:
                connection.execute("UPDATE users SET hash = ? WHERE name = ? AND hash = ?", (fresh, name, kept))
        return True


def check_name(text: str) -> str:
    """Return a new user's name, or say why it will not do.

    Raises:
        UsageError: it is empty, too long, or has other characters than `a-z`, digits, `.`, `_` and `-`.

    """
    if not _NAME.fullmatch(text) or len(text) > MAX_NAME_CHARS:
        raise UsageError(
            f"user name {text[:MAX_NAME_CHARS]!r} cannot be used: at most {MAX_NAME_CHARS} small letters, digits, "
            "'.', '_' and '-', a letter or digit first"
        )
    return text


def _user(row: tuple[str, str, int]) -> User:
    return User(row[0], Role(row[1]), datetime.fromtimestamp(row[2] / 1000, UTC))


def _known(connection: sqlite3.Connection, name: str) -> User:
    row = connection.execute("SELECT name, role, created_ms FROM users WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFoundError(f"there is no user {name}", hint="crawlctl web users list")
    return _user(row)


def _refuse_last(connection: sqlite3.Connection, name: str) -> None:
    row = connection.execute("SELECT 1 FROM users WHERE role = ? AND name <> ?", (Role.ADMINISTER.value, name))
    if row.fetchone() is None:
        raise RefusedError(
            f"{name} is the only one who may administer", hint="give another user that role first: crawlctl web users"
        )


def _sign_out(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM sessions WHERE user = ?", (name,))
