"""The places beside Redis that logs are shipped to, as their writer sees them: a folder, or a bucket of S3.

A log is a folder of packed parts whose names sort by offset: `zcat` of all of them is the log, also without crawlctl.
Every method waits, and raises `OSError` when the place does not do it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

from toolkit.config.log_places import LogAddress, log_folder
from toolkit.model.shipped import LogName, LogPart

_PART = re.compile(r"\d+-\d+\.log\.gz|\.\d+-\d+\.log\.gz\.\d+")
"""The name of a part, or of its draft."""


class LogPlace(Protocol):
    """Where parts of logs are laid."""

    def put(self, log: LogName, part: LogPart, packed: bytes) -> None:
        """Lay a part, whole or not at all; again is no harm."""

    def remove(self, log: LogName, parts: Collection[LogPart]) -> None:
        """Take parts away; those that are not there are as good as taken away."""

    def keep_only(self, log: LogName, parts: Collection[LogPart]) -> None:
        """Take away what an interrupted shipment left beside these parts."""

    def drop_old(self, *, keep_s: float) -> None:
        """Take away the logs to which nothing was laid for so long, where the place does not do that itself."""


def place_of(address: LogAddress) -> LogPlace:
    """Return the place; nothing is sent yet."""
    return S3Place(address) if address.is_s3 else FolderPlace(Path(address.text))


class FolderPlace:
    """A folder, such as a mounted share."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, log: LogName, part: LogPart, packed: bytes) -> None:
        """See `LogPlace.put`."""
        folder = self._root / log_folder(log)
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{part.name}.{os.getpid()}"
        try:
            draft.write_bytes(packed)
            draft.replace(folder / part.name)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def remove(self, log: LogName, parts: Collection[LogPart]) -> None:
        """See `LogPlace.remove`."""
        for part in parts:
            (self._root / log_folder(log) / part.name).unlink(missing_ok=True)

    def keep_only(self, log: LogName, parts: Collection[LogPart]) -> None:
        """See `LogPlace.keep_only`."""
        kept = {part.name for part in parts}
        folder = self._root / log_folder(log)
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name not in kept and path.name.endswith((".log.gz", f".log.gz.{os.getpid()}")):
                path.unlink(missing_ok=True)

    def drop_old(self, *, keep_s: float) -> None:
        """See `LogPlace.drop_old`."""
        oldest = time.time() - keep_s
        # project / spider / job / node; several nodes may do this at once.
        for folder in self._root.glob("*/*/*/*"):
            try:
                if not folder.is_symlink() and folder.is_dir() and folder.stat().st_mtime < oldest:
                    _remove_log(folder)
            except OSError:
                continue


def _remove_log(folder: Path) -> None:
    """Remove the parts in a folder, and it with the job's if nothing else is there: the place may not be ours alone."""
    parts = [path for path in folder.iterdir() if _PART.fullmatch(path.name)]
    if not parts:
        return
    for path in parts:
        path.unlink(missing_ok=True)
    folder.rmdir()
    folder.parent.rmdir()


class S3Place:
    """A bucket of S3, or of what speaks like it. A rule of the bucket takes old logs away."""

    def __init__(self, address: LogAddress) -> None:
        from obstore.store import S3Store  # noqa: PLC0415 - an extra, and heavy: only where logs go to S3

        self._prefix = address.prefix
        self._bucket: Any = S3Store(address.bucket, **address.client_options())

    def put(self, log: LogName, part: LogPart, packed: bytes) -> None:
        """See `LogPlace.put`."""
        _translated(lambda: self._bucket.put(self._folder(log) + part.name, packed))

    def remove(self, log: LogName, parts: Collection[LogPart]) -> None:
        """See `LogPlace.remove`."""
        if parts:
            _translated(lambda: self._bucket.delete([self._folder(log) + part.name for part in parts]))

    def keep_only(self, log: LogName, parts: Collection[LogPart]) -> None:
        """See `LogPlace.keep_only`."""
        folder = self._folder(log)
        kept = {folder + part.name for part in parts}
        found = _translated(lambda: [each["path"] for batch in self._bucket.list(folder) for each in batch])
        stray = [path for path in found if path not in kept]
        if stray:
            _translated(lambda: self._bucket.delete(stray))

    def drop_old(self, *, keep_s: float) -> None:
        """See `LogPlace.drop_old`."""

    def _folder(self, log: LogName) -> str:
        return f"{self._prefix}{log_folder(log)}/"


def _translated(call: Callable[[], Any]) -> Any:
    from obstore.exceptions import BaseError  # noqa: PLC0415 - see above

    try:
        return call()
    except FileNotFoundError:
        return None
    except BaseError as error:
        # Its text may go on for pages, with the server's whole answer.
        raise OSError(" ".join(str(error).split())[:300]) from error
