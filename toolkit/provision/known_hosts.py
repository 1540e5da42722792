"""Host keys: what known_hosts files say, and whether a key that a host shows is the one that is known.

Nothing here can be told to take any key: a key is known, or it is not, or it is another one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

SSH_PORT = 22


class Verdict(Enum):
    """What is to be thought of a key."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public key: its type, as `ssh-ed25519`, and its bytes."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"{self.kind} SHA256:{digest}"

    @property
    def text(self) -> str:
        """As known_hosts and the variable `ssh.host_key` have it."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a known_hosts file; `place` says where it stands."""

    names: str
    key: HostKey
    place: str
    is_revoked: bool = False


def parse_key(text: str) -> HostKey | None:
    """Return the key of a text like `ssh-ed25519 AAAA… comment`; `None` where it is none."""
    kind, _, rest = text.strip().partition(" ")
    try:
        blob = base64.b64decode(rest.split()[0], validate=True)
    except (binascii.Error, IndexError, ValueError):
        return None
    inner = kind.encode()
    return HostKey(kind, blob) if blob[4 : 4 + len(inner)] == inner else None


def parse(text: str, place: str) -> list[Entry]:
    """Return the entries of a known_hosts file; lines that are none, and certificate authorities, are passed over."""
    found: list[Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in {"", "@revoked"}:  # noqa: PLR2004 - names type key
            continue
        if (key := parse_key(f"{words[1]} {words[2]}")) is not None:
            found.append(Entry(words[0], key, f"{place}:{number}", marker == "@revoked"))
    return found


def read_entries(paths: Iterable[Path]) -> list[Entry]:
    """Return the entries of these files; a file that is not there has none.

    Raises:
        OSError: one is there and cannot be read.

    """
    found: list[Entry] = []
    for path in paths:
        try:
            found += parse(path.read_text(errors="replace"), str(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def name_of(host: str, port: int) -> str:
    """Return what a known_hosts file calls this server."""
    return host.lower() if port == SSH_PORT else f"[{host.lower()}]:{port}"


def entries_of(entries: Iterable[Entry], name: str) -> list[Entry]:
    """Return the entries that are about the server of this name."""
    return [entry for entry in entries if _is_about(entry.names, name)]


def judge(known: Sequence[Entry], shown: HostKey) -> Verdict:
    """Decide about a key by the entries about its server: one of several keys may match, a revoked one never."""
    if any(entry.is_revoked and entry.key == shown for entry in known):
        return Verdict.REVOKED
    good = [entry.key for entry in known if not entry.is_revoked]
    if shown in good:
        return Verdict.KNOWN
    return Verdict.CHANGED if good else Verdict.UNKNOWN


def algorithms_first(known: Sequence[Entry], offered: Sequence[str]) -> tuple[str, ...]:
    """Return the algorithms with those of the known keys first, so that the host shows a key that can be compared."""
    kinds = {entry.key.kind for entry in known if not entry.is_revoked}
    first = [name for name in offered if _kind_of(name) in kinds]
    return (*first, *(name for name in offered if name not in first))


def _kind_of(algorithm: str) -> str:
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") and "-cert-" not in algorithm else algorithm


def _is_about(names: str, name: str) -> bool:
    if names.startswith("|1|"):
        return _is_hash_of(names, name)
    is_named = False
    for pattern in names.lower().split(","):
        if pattern.startswith("!"):
            if _matches(pattern[1:], name):
                return False
        elif _matches(pattern, name):
            is_named = True
    return is_named


def _matches(pattern: str, name: str) -> bool:
    # Brackets are part of the name here: [host]:port.
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _is_hash_of(names: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in names.split("|")[2:4])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
