"""The host keys that the operator has taken on first sight: a known_hosts file in the inventory's state folder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from toolkit.provision import private_files
from toolkit.provision.known_hosts import Entry, HostKey, parse, read_entries

KNOWN_HOSTS = "known_hosts"


class TrustedKeys:
    """Reads the file always, and adds to it only where new keys are taken; safe from several threads.

    `on_new` hears a line about each key that is added.
    """

    def __init__(
        self, folder: Path | None, *, takes_new: bool = False, on_new: Callable[[str], object] | None = None
    ) -> None:
        self._path = None if folder is None else folder / KNOWN_HOSTS
        self.takes_new = takes_new and folder is not None
        self._on_new = on_new
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Return what was taken before."""
        return [] if self._path is None else read_entries([self._path])

    def add(self, name: str, key: HostKey) -> Entry:
        """Take the key; of two that come for one name at once the first is taken, and it is the one returned.

        Raises:
            ConfigurationError: the file cannot be written.

        """
        if self._path is None:
            raise ValueError("there is no folder to keep keys in")
        with self._lock:
            before = next((entry for entry in self.entries() if entry.names == name), None)
            if before is not None:
                return before
            line = f"{name} {key.text}\n"
            private_files.make_folder(self._path.parent)
            with private_files.disk_errors(self._path, "write"), self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        if self._on_new is not None:
            self._on_new(f"took the key of {name} on first sight: {key.fingerprint}")
        return parse(line, str(self._path))[0]
