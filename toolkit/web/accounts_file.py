"""The file in which users, sessions and tokens are kept: SQLite, for its owner only, beside the inventory's state.

It holds hashes only: who reads it can neither sign in nor take over a session.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from toolkit.store.local_file import LocalFile

NAME = "web.sqlite3"
_BEGINNING = """
CREATE TABLE users (name TEXT PRIMARY KEY, role TEXT NOT NULL, hash TEXT NOT NULL, created_ms INTEGER NOT NULL);
CREATE TABLE sessions (
    digest BLOB PRIMARY KEY, user TEXT NOT NULL, created_ms INTEGER NOT NULL, seen_ms INTEGER NOT NULL,
    address TEXT NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user);
CREATE TABLE devices (digest BLOB PRIMARY KEY, user TEXT NOT NULL, created_ms INTEGER NOT NULL);
CREATE INDEX devices_of_user ON devices (user);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, digest BLOB NOT NULL UNIQUE, user TEXT NOT NULL, role TEXT NOT NULL, label TEXT NOT NULL,
    created_ms INTEGER NOT NULL, expires_ms INTEGER, used_ms INTEGER
);
CREATE INDEX tokens_of_user ON tokens (user)
"""


def accounts_file(folder: Path) -> LocalFile:
    """Return the file of a state folder; it is made when it is first used."""
    return LocalFile(folder / NAME, steps=(_BEGINNING,))


def digest_of(secret: str) -> bytes:
    """Return what is kept of a random secret: it has 256 bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(secret.encode()).digest()
