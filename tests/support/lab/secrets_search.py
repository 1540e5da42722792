"""Looks for secrets where others could read them: in the words of all processes, in logs, and in files of hosts."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from support.lab.lab import Lab

_EVERY_S = 0.05


class ProcessWords:
    """Notes the command line of every process of this machine, the hosts' included, from entering to leaving it."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def count(self) -> int:
        """How many different command lines there were."""
        return len(self._seen)

    def with_any(self, secrets: Iterable[str]) -> list[str]:
        """Return the command lines that a secret was in."""
        wanted = [secret.encode() for secret in secrets]
        return [words.decode(errors="replace") for words in self._seen if any(secret in words for secret in wanted)]

    def _watch(self) -> None:
        while not self._is_over.wait(_EVERY_S):
            for entry in os.scandir("/proc"):
                if entry.name.isdecimal():
                    try:
                        self._seen.add(Path(entry.path, "cmdline").read_bytes())
                    except OSError:
                        continue


def open_files_with_any(lab: Lab, host: str, secrets: Iterable[str]) -> list[str]:
    """Return what was written to a host's disk since it was made, that everybody there may read, and holds a secret."""
    wanted = [secret.encode() for secret in secrets]
    top = lab.host(host).folder / "disk" / "upper"
    found = []
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if Path(folder, name).lstat().st_mode & stat.S_IXOTH]
        for path in (Path(folder, name) for name in files):
            about = path.lstat()
            is_open = stat.S_ISREG(about.st_mode) and about.st_mode & stat.S_IROTH
            if is_open and any(secret in path.read_bytes() for secret in wanted):
                found.append(str(path.relative_to(top)))
    return found


def files_with_any(folder: Path, secrets: Iterable[str]) -> list[str]:
    """Return the files below a folder that hold a secret, whoever may read them."""
    wanted = [secret.encode() for secret in secrets]
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in paths if any(secret in path.read_bytes() for secret in wanted)]
