"""Who is signed in: sessions of browsers, the browsers that a user signed in from, and tokens of programs.

Each is a random secret that only its holder has; the file keeps its digest.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolkit.model.accounts import ApiToken, Role, least
from toolkit.model.errors import NotFoundError, StoreUnreachableError, UsageError
from toolkit.store.local_file import LocalFile
from toolkit.web.accounts_file import digest_of

IDLE_S = 12 * 3600.0
"""After so long without a request a session ends."""
ABSOLUTE_S = 7 * 86400.0
"""After so long a session ends in any case."""
DEVICE_S = 180 * 86400.0
SEEN_EVERY_S = 60.0
MAX_TOKEN_S = 10 * 366 * 86400.0
"""Who wants a token for longer wants one that does not end."""
MAX_SESSIONS, MAX_DEVICES, MAX_TOKENS = 20, 20, 100
TOKEN_PREFIX = "crawlctl_"  # noqa: S105 - the beginning of each, so that scanners of leaked secrets know them
MAX_SECRET_CHARS, MAX_LABEL_CHARS = 200, 100

_log = logging.getLogger("crawlctl.web")


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whose session or token it is, and what may be done with it now."""

    user: str
    role: Role


class Sessions:
    """Makes, finds and ends sessions and tokens. Any thread and any process may call. `clock`: seconds since 1970.

    Raises:
        StoreUnreachableError: from every method; the file cannot be used, and why.

    """

    def __init__(self, file: LocalFile, *, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock
        self._noted_from = 0

    def begin(self, user: str, *, address: str) -> str:
        """Sign a user in: return the new session's secret. The oldest beyond twenty of the user end."""
        secret, now = secrets.token_urlsafe(32), self._now()
        with self._file.writing() as connection:
            connection.execute(
                "INSERT INTO sessions SELECT ?, name, ?, ?, ? FROM users WHERE name = ?",
                (digest_of(secret), now, now, address, user),
            )
            self._drop_old(connection)
            connection.execute(
                "DELETE FROM sessions WHERE user = ? AND digest NOT IN "
                "(SELECT digest FROM sessions WHERE user = ? ORDER BY seen_ms DESC LIMIT ?)",
                (user, user, MAX_SESSIONS),
            )
        return secret

    def find(self, secret: str, *, is_use: bool = True) -> SignedIn | None:
        """Return whose session this is, while it lasts; `is_use` keeps it from ending idle."""
        if not secret or len(secret) > MAX_SECRET_CHARS:
            return None
        now, digest = self._now(), digest_of(secret)
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT user, role, seen_ms, sessions.created_ms FROM sessions JOIN users ON name = user "
                "WHERE digest = ?",
                (digest,),
            ).fetchone()
        if row is None or now - row[2] >= IDLE_S * 1000 or now - row[3] >= ABSOLUTE_S * 1000:
            return None
        if is_use and now - row[2] >= SEEN_EVERY_S * 1000:
            self._note_use("UPDATE sessions SET seen_ms = ? WHERE digest = ?", now, digest)
        return SignedIn(row[0], Role(row[1]))

    def end(self, secret: str) -> None:
        """Sign out; one that is over already is as good."""
        with self._file.writing() as connection:
            connection.execute("DELETE FROM sessions WHERE digest = ?", (digest_of(secret),))

    def end_others(self, user: str, *, but: str) -> int:
        """End all sessions of a user but this one; return how many."""
        with self._file.writing() as connection:
            done = connection.execute("DELETE FROM sessions WHERE user = ? AND digest <> ?", (user, digest_of(but)))
            return done.rowcount

    def remember_device(self, user: str) -> str:
        """Return a secret by which a browser shows later that this user has signed in from it."""
        secret, now = secrets.token_urlsafe(32), self._now()
        with self._file.writing() as connection:
            connection.execute("INSERT INTO devices VALUES (?, ?, ?)", (digest_of(secret), user, now))
            connection.execute(
                "DELETE FROM devices WHERE user = ? AND digest NOT IN "
                "(SELECT digest FROM devices WHERE user = ? ORDER BY created_ms DESC LIMIT ?)",
                (user, user, MAX_DEVICES),
            )
        return secret

    def is_device_of(self, user: str, secret: str) -> bool:
        """Say whether this user has signed in from the browser with this secret within half a year."""
        if not secret or len(secret) > MAX_SECRET_CHARS:
            return False
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT 1 FROM devices WHERE digest = ? AND user = ? AND created_ms > ?",
                (digest_of(secret), user, self._now() - DEVICE_S * 1000),
            ).fetchone()
        return row is not None

    def make_token(self, user: str, role: Role, *, label: str, ttl_s: float | None = None) -> tuple[ApiToken, str]:
        """Return a new token of a user and its text, which cannot be had again.

        Raises:
            NotFoundError: there is no such user.
            UsageError: its role would allow more than the user's, or the label or the time will not do.

        """
        _check_label(label)
        if ttl_s is not None and not 0 < ttl_s <= MAX_TOKEN_S:
            raise UsageError("a token must last for some time, ten years at most", hint="or for ever: name no time")
        secret, now = TOKEN_PREFIX + secrets.token_urlsafe(32), self._now()
        expires = None if ttl_s is None else now + int(ttl_s * 1000)
        row = (secrets.token_hex(4), digest_of(secret), user, role.value, label, now, expires, None)
        with self._file.writing() as connection:
            known = connection.execute("SELECT role FROM users WHERE name = ?", (user,)).fetchone()
            if known is None:
                raise NotFoundError(f"there is no user {user}", hint="crawlctl web users list")
            if not Role(known[0]).allows(role):
                raise UsageError(f"{user} may {known[0]} only, so no token of {user} may {role.value}")
            count = connection.execute("SELECT count(*) FROM tokens WHERE user = ?", (user,)).fetchone()[0]
            if count >= MAX_TOKENS:
                raise UsageError(f"{user} has {count} tokens already", hint="crawlctl web tokens revoke ID")
            connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return _token((row[0], *row[2:])), secret

    def find_token(self, secret: str) -> SignedIn | None:
        """Return whose token this is, with the lesser of its role and the user's present one."""
        if not secret or len(secret) > MAX_SECRET_CHARS:
            return None
        now, digest = self._now(), digest_of(secret)
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT user, tokens.role, users.role, expires_ms, used_ms FROM tokens JOIN users ON name = user "
                "WHERE digest = ?",
                (digest,),
            ).fetchone()
        if row is None or (row[3] is not None and now >= row[3]):
            return None
        if row[4] is None or now - row[4] >= SEEN_EVERY_S * 1000:
            self._note_use("UPDATE tokens SET used_ms = ? WHERE digest = ?", now, digest)
        return SignedIn(row[0], least(Role(row[1]), Role(row[2])))

    def tokens(self, user: str | None = None) -> list[ApiToken]:
        """Return the tokens of a user, or of all, oldest first."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT id, user, role, label, created_ms, expires_ms, used_ms FROM tokens "
                "WHERE ?1 IS NULL OR user = ?1 ORDER BY created_ms, id",
                (user,),
            )
            return [_token(row) for row in rows]

    def revoke(self, token_id: str, *, user: str | None = None) -> ApiToken:
        """Take a token away, of this user only if one is named; return what it was.

        Raises:
            NotFoundError: there is no such token.

        """
        found = next((each for each in self.tokens(user) if each.id == token_id), None)
        if found is None:
            raise NotFoundError(f"there is no token {token_id[:40]!r}", hint="crawlctl web tokens list")
        with self._file.writing() as connection:
            connection.execute("DELETE FROM tokens WHERE id = ?", (token_id,))
        return found

    def _note_use(self, statement: str, now: int, digest: bytes) -> None:
        """Note when it was used; a file that cannot be written to, as on a full disk, keeps nobody from looking."""
        if now < self._noted_from:
            return
        try:
            with self._file.writing() as connection:
                connection.execute(statement, (now, digest))
        except StoreUnreachableError as error:
            self._noted_from = now + int(SEEN_EVERY_S * 1000)
            _log.warning("sessions end too early if this lasts: %s", error.message)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _drop_old(self, connection: sqlite3.Connection) -> None:
        now = self._now()
        connection.execute(
            "DELETE FROM sessions WHERE seen_ms <= ? OR created_ms <= ?",
            (now - IDLE_S * 1000, now - ABSOLUTE_S * 1000),
        )


def form_token_of(secret: str) -> str:
    """Return what the forms of a session carry: only who has the session can know it, and it does not tell it."""
    return hmac.digest(secret.encode(), b"crawlctl form", "sha256").hex()


def _check_label(label: str) -> None:
    if not label.strip() or len(label) > MAX_LABEL_CHARS or not label.isprintable():
        raise UsageError(f"a token needs a name of at most {MAX_LABEL_CHARS} printable characters")


def _token(row: Sequence[Any]) -> ApiToken:
    token_id, user, role, label, created_ms, expires_ms, used_ms = row
    times = [None if each is None else _moment(each) for each in (expires_ms, used_ms)]
    return ApiToken(token_id, user, Role(role), label, _moment(created_ms), *times)


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
