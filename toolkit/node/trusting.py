"""Whose releases this node takes: the file of public keys that scrapyd.conf names, read again whenever it has changed.

Where none is named, every egg is taken, as Scrapyd does. Where one is named and cannot be read, none is. Any thread may
ask.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from toolkit.model.errors import ConfigurationError, UntrustedError
from toolkit.model.names import ProjectName, VersionName
from toolkit.trust.keys import TrustedKeys, read_trusted_keys
from toolkit.trust.signatures import check_signature

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class _Read:
    """What was found in the file when it had this stamp."""

    stamp: Stamp
    keys: TrustedKeys | None
    problem: str | None = None


class Trust:
    """The keys whose signatures count on this node; without a `path` nothing needs to be signed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read = _Read(None, None)

    @property
    def is_wanted(self) -> bool:
        """The node takes nothing but what is signed."""
        return self._path is not None

    @property
    def stamp(self) -> Stamp:
        """What changes when the keys may have changed."""
        try:
            found = self._path.stat() if self._path is not None else None
        except OSError:
            return None
        return found and (found.st_ino, found.st_size, found.st_mtime_ns)

    def check_start(self) -> None:
        """Make sure that the keys can be read.

        Raises:
            ConfigurationError: they cannot.

        """
        if self._path is not None:
            _ = _keys(self._path)

    def require(self, project: ProjectName, version: VersionName, digest: str, signature: str | None) -> None:
        """Make sure that these bytes may be used under this name.

        Raises:
            UntrustedError: no trusted key has signed them so, or it cannot be told which keys are trusted.

        """
        if self._path is None:
            return
        found = self._now(self._path)
        if found.keys is None:
            raise UntrustedError(f"{project} {version} cannot be trusted now: {found.problem}")
        check_signature(found.keys, project, version, digest, signature)

    def _now(self, path: Path) -> _Read:
        with self._lock:
            # Stamped before it is read: what is written in between is read again.
            stamp = self.stamp
            if stamp is None or stamp != self._read.stamp:
                try:
                    self._read = _Read(stamp, _keys(path))
                except ConfigurationError as error:
                    self._read = _Read(stamp, None, error.message)
            return self._read


def _keys(path: Path) -> TrustedKeys:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"trusted_keys {path} cannot be read: {error}") from error
    return read_trusted_keys(text, source=f"trusted_keys {path}")
