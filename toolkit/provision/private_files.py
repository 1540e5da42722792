"""Files and folders that only their owner can read: written whole or not at all, disk errors told in plain words."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from toolkit.model.errors import ConfigurationError, RefusedError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
OTHERS = 0o077


@contextlib.contextmanager
def disk_errors(path: Path, doing: str) -> Iterator[None]:
    """Tell what the disk refused: which path, what was being done (`write`, `read`), and why.

    Raises:
        ConfigurationError: in place of any `OSError` of the block.

    """
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(f"cannot {doing} {path}: {why}", hint=_hint(error, path)) from error


def make_folder(path: Path) -> Path:
    """Return the folder, made if it was missing; a folder made here is its owner's alone (0700).

    Raises:
        ConfigurationError: it cannot be made, or a file stands in its place.

    """
    with disk_errors(path, "make the folder"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write(path: Path, text: str) -> None:
    """Write the file with mode 0600; atomic: a reader sees the old text or the new one, never a part.

    Raises:
        ConfigurationError: the folder is not writable, or the disk is full; the old file is as it was.

    """
    with disk_errors(path, "write"):
        fresh = _write_beside(path, text)
        fresh.replace(path)


def create(path: Path, text: str) -> bool:
    """Write the file with mode 0600 unless it exists, and tell whether it was made; of two callers one wins.

    Raises:
        ConfigurationError: the folder is not writable, or the disk is full.

    """
    with disk_errors(path, "write"):
        fresh = _write_beside(path, text)
        try:
            # A link appears with its whole text, and fails if the name is taken: O_EXCL alone would show an empty file.
            path.hardlink_to(fresh)
        except FileExistsError:
            return False
        finally:
            fresh.unlink()
    return True


def read(path: Path) -> str | None:
    """Return the file's text, or `None` if there is no such file.

    Raises:
        ConfigurationError: it is there and cannot be read, or is not text.

    """
    try:
        with disk_errors(path, "read"):
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"cannot read {path}: it is not text", hint=f"remove it: rm {path}") from error
    except ConfigurationError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def remove(path: Path) -> None:
    """Remove the file; nothing happens if it is not there."""
    with disk_errors(path, "remove"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def one_at_a_time(folder: Path, *, doing: str) -> Iterator[None]:
    """Keep a second `crawlctl up` or `down` out of the folder; the system drops the lock when this process ends.

    Raises:
        RefusedError: another command is at work in the folder.

    """
    path = make_folder(folder) / "lock"
    with disk_errors(path, "open"):
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(lock, 200, 0).decode(errors="replace").strip() or "another command"
            raise RefusedError(
                f"{holder} is at work in {folder}", hint="wait until it has ended, then try again"
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"crawlctl {doing} (pid {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Let nobody else change small files of the folder meanwhile, in this process or another; waits, for moments.

    Raises:
        ConfigurationError: the folder cannot be written.

    """
    path = make_folder(folder) / ".changing"
    with disk_errors(path, "open"):
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write_beside(path: Path, text: str) -> Path:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    return fresh


def _hint(error: OSError, path: Path) -> str | None:
    if error.errno in _FULL:
        return f"the disk of {path.parent} is full: free some space there, then try again"
    if error.errno in _FORBIDDEN:
        return f"make {path.parent} yours: ls -ld {path.parent}"
    return None
