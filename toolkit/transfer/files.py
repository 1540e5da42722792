"""Files that are there whole or not at all, also after the machine lost power."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of another when the block ends well; else that stays as it was.

    Raises:
        OSError: it could not be written.

    """
    file, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(file, "wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    _sync_folder(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content.

    Raises:
        OSError: it could not be written; the old content is there as before.

    """
    with replacing(path) as opened:
        opened.write(content)


def _sync_folder(folder: Path) -> None:
    """Have the disk keep what was renamed within a folder."""
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
