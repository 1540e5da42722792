"""Passwords: what may be one, and its hash. Hashing is slow and takes memory on purpose, so few are hashed at once."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from toolkit.model.errors import RefusedError, UsageError

MIN_CHARS, MAX_CHARS = 10, 500
MAX_AT_ONCE = 4
MAX_WAITING_S = 5.0


class Passwords:
    """Hashes and checks passwords with argon2id. Any thread may call.

    At most four at once are under way, so that a crowd at the sign-in cannot take all memory.
    """

    def __init__(self, hasher: PasswordHasher | None = None, *, patience_s: float = MAX_WAITING_S) -> None:
        self._hasher = hasher or PasswordHasher()
        self._patience_s = patience_s
        self._room = threading.BoundedSemaphore(MAX_AT_ONCE)
        # What an unknown user's password is compared with, so that it takes as long as for a known one.
        self._nobody = self._hasher.hash("nobody has this password")

    def hash(self, password: str) -> str:
        """Return the text to keep of a password.

        Raises:
            RefusedError: too many are being hashed already.

        """
        with self._one_of_few():
            return self._hasher.hash(_normal(password))

    def is_right(self, password: str, kept: str | None) -> bool:
        """Compare a password with what was kept; with nothing kept it takes as long, and is never right.

        Raises:
            RefusedError: too many are being checked already.

        """
        with self._one_of_few():
            try:
                return self._hasher.verify(kept or self._nobody, _normal(password)[:MAX_CHARS]) and kept is not None
            except (VerificationError, InvalidHashError):
                return False

    def is_old(self, kept: str) -> bool:
        """Say whether it was hashed with less care than is taken today."""
        return self._hasher.check_needs_rehash(kept)

    @contextmanager
    def _one_of_few(self) -> Iterator[None]:
        if not self._room.acquire(timeout=self._patience_s):
            raise RefusedError("too many passwords are being checked now", hint="try again in a moment")
        try:
            yield
        finally:
            self._room.release()


def check_password(password: str, *, user: str) -> str:
    """Return a new password, or say why it will not do.

    Raises:
        UsageError: it is too short, too long, the user's name, one letter many times, or holds control characters.

    """
    normal = _normal(password)
    if len(normal) < MIN_CHARS:
        raise UsageError(f"the password is too short: {MIN_CHARS} characters at least", hint="several words make one")
    if len(normal) > MAX_CHARS:
        raise UsageError(f"the password is too long: {MAX_CHARS} characters at most")
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in normal):
        raise UsageError("the password holds a control character")
    is_name_and_little = user.lower() in normal.lower() and len(normal) < len(user) + MIN_CHARS
    if len(set(normal)) == 1 or is_name_and_little:
        raise UsageError("the password is too easy to guess", hint="several words make a good one")
    return password


def _normal(password: str) -> str:
    # One keyboard sends an accent as its own character, another does not.
    return unicodedata.normalize("NFKC", password)
