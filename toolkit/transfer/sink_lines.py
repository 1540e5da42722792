"""Items as JSON lines: in a file, each exactly once, or on standard output.

Beside the file stands `<file>.position`: how long the file is, and which item of each crawl is its last. Lines are on
disk before the position is, so what is beyond that length was written by a drain that was ended, and is cut off.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from toolkit.model.errors import ConfigurationError, RefusedError, UsageError
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Item
from toolkit.transfer.address import Place
from toolkit.transfer.files import write_atomically
from toolkit.transfer.items import Written, line_of

POSITION_SUFFIX = ".position"
STDOUT = "stdout"
_FORMAT = 1


class LinesFile:
    """A file that only drains write to; several crawls may go to the same one, one after the other."""

    def __init__(self, place: Place) -> None:
        self.identity = place.identity
        self.shown = place.shown
        self.cut_bytes = 0
        """How much of an unfinished batch was cut off when it began."""
        self._path = place.path
        self._file: int | None = None
        self._size = 0
        self._last: dict[str, str] = {}

    @property
    def position_path(self) -> Path:
        """Where the position is kept."""
        return self._path.with_name(self._path.name + POSITION_SUFFIX)

    def begin(self, source: str) -> str:
        """Open the file, cut off what was not finished, and return the mark of the source's last item that is in it.

        Where the file is gone but its position is not, a new one begins after the items that the old one has.

        Raises:
            UsageError: it is no regular file.
            RefusedError: another drain writes to it; or it is not empty and no drain wrote it, or was shortened since.
            ConfigurationError: it cannot be opened or read.

        """
        if self._file is None:
            with self._told("opened"):
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                self.close()
                raise UsageError(f"{self.shown} is no regular file, which alone can be gone on with", hint="--to -")
            self._lock(self._file)
            found = os.fstat(self._file).st_size
            self._size, self._last = self._read_position(found)
            self._cut(self._file, found)
        return self._last.get(source, "")

    def write(self, source: str, crawl: CrawlId, items: Sequence[Item]) -> Written:  # noqa: ARG002 - see Sink
        """Append the items, and note the position when they are on disk.

        Raises:
            ConfigurationError: the disk is full, or the file cannot be written; it is as long as it was before.

        """
        if self._file is None:
            raise ValueError("begin comes first")
        lines = [line_of(item.body) for item in items]
        content = b"".join(line + b"\n" for line, _ in lines)
        with self._told("written"):
            try:
                os.ftruncate(self._file, self._size)
                _append(self._file, content, at=self._size)
                os.fsync(self._file)
            except BaseException:
                # Ctrl-C too: whoever reads the file meanwhile shall find whole lines.
                with suppress(OSError):
                    os.ftruncate(self._file, self._size)
                raise
            # From here on nothing is cut: the position may be on disk although noting it failed.
            self._note(self._size + len(content), self._last | {source: items[-1].mark})
        return Written(new=len(items), altered=sum(altered for _, altered in lines))

    def close(self) -> None:
        """Close the file, which ends the lock on it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise RefusedError(
                f"another drain is writing to {self.shown}", hint="wait for it, or name another file"
            ) from error
        except OSError:
            return  # A file system without locks, such as some network ones.

    def _read_position(self, found_bytes: int) -> tuple[int, dict[str, str]]:
        with self._told("read"):
            try:
                text = self.position_path.read_text(encoding="utf-8")
            except FileNotFoundError:
                text = ""
        if not text:
            if found_bytes:
                raise RefusedError(
                    f"{self.shown} is not empty, and has no {self.position_path.name} that says which items are in it",
                    hint="name another file, or move it away",
                )
            return 0, {}
        size, last = self._parsed(text)
        if found_bytes == 0:
            return 0, last
        if found_bytes < size:
            raise RefusedError(
                f"{self.shown} has {found_bytes} bytes, but a drain has written {size}: it was changed since",
                hint=f"move it away; a new file begins after the items that {self.position_path.name} names",
            )
        return size, last

    def _parsed(self, text: str) -> tuple[int, dict[str, str]]:
        try:
            content: dict[str, Any] = json.loads(text)
            sizes = {_FORMAT: content["size"]}
            return int(sizes[content["v"]]), {str(source): str(last) for source, last in content["last"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RefusedError(
                f"{self.position_path} is no position that this crawlctl can read",
                hint="move it and its file away; then every item that is still in the crawl is drained",
            ) from error

    def _cut(self, file: int, found_bytes: int) -> None:
        self.cut_bytes = found_bytes - self._size
        if self.cut_bytes > 0:
            with self._told("cut"):
                os.ftruncate(file, self._size)
                os.fsync(file)

    def _note(self, size: int, last: dict[str, str]) -> None:
        write_atomically(self.position_path, json.dumps({"v": _FORMAT, "size": size, "last": last}).encode())
        self._size, self._last = size, last

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "then start it again: it goes on where it stopped" if done == "written" else None
            raise ConfigurationError(f"{self.shown} cannot be {done}: {error.strerror or error}", hint=hint) from error


class StandardOutput:
    """Each item as a line on standard output; the last batch comes again if the drain was ended before it was told."""

    identity = STDOUT
    shown = STDOUT

    def begin(self, source: str) -> str:  # noqa: ARG002 - see Sink
        """Know nothing of what came before."""
        return ""

    def write(self, source: str, crawl: CrawlId, items: Sequence[Item]) -> Written:  # noqa: ARG002 - see Sink
        """Write the items, and have the pipe take them."""
        lines = [line_of(item.body) for item in items]
        sys.stdout.buffer.write(b"".join(line + b"\n" for line, _ in lines))
        sys.stdout.buffer.flush()
        return Written(new=len(items), altered=sum(altered for _, altered in lines))

    def close(self) -> None:
        """Leave standard output open for others."""


def _append(file: int, content: bytes, *, at: int) -> None:
    """Write all of the content from a place on; a full disk may take a part and refuse the rest."""
    rest = memoryview(content)
    while rest:
        taken = os.pwrite(file, rest, at)
        at += taken
        rest = rest[taken:]
