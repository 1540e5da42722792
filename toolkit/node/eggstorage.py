"""Scrapyd's folder of eggs with writes that are whole or not at all: `eggs_dir/<project>/<version>.egg`.

The layout is Scrapyd's own, so a node may go back to Scrapyd's storage at any time. An egg that is not proven yet lies
beside the others under a name of its own: runners find it there as they find any version, and nobody is told of it.
This module is also loaded by every spider process: it must stay light, and must not reach the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from scrapyd.eggstorage import FilesystemEggStorage, sorted_versions
from scrapyd.exceptions import DirectoryTraversalError, EggNotFoundError
from scrapyd.interfaces import IEggStorage
from zope.interface import implementer  # type: ignore[import-untyped]

from toolkit.model.names import ProjectName, VersionName

STAGED_PREFIX = "__staged__"
"""What the version of an egg that is not proven yet begins with."""

SIGNATURE_SUFFIX = ".sig"
"""What the name of the file has more that proves who released an egg; Scrapyd looks at nothing but *.egg."""

MAX_SIGNATURE_CHARS = 4096
_PIECE_BYTES = 1 << 20
_TRIES = 5
_NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9_-]")


Projects = list[str]


@dataclass(frozen=True, slots=True)
class EggFile:
    """What a folder knows of an egg without reading it; the same stamp means the same bytes."""

    size_bytes: int
    modified_ns: int


@implementer(IEggStorage)
class ProvenEggStorage(FilesystemEggStorage):  # type: ignore[misc]  # Scrapyd is not typed
    """Scrapyd's egg storage with atomic puts and known digests. Any thread may call."""

    def put(self, eggfile: BinaryIO, project: str, version: str) -> None:
        """Store an egg: whoever reads meanwhile, or after a crash, sees the one before or this one, whole.

        Raises:
            DirectoryTraversalError: the project's name leaves the folder of eggs.
            OSError: it could not be written; nothing was changed.

        """
        path = self.stage(project)
        try:
            with path.open("wb") as staged:
                shutil.copyfileobj(eggfile, staged, _PIECE_BYTES)
            self.publish(path, project, version)
        finally:
            self.discard(path)

    def list(self, project: str) -> Sequence[str]:
        """Return the versions held, oldest first by Scrapyd's own rule."""
        return tuple(sorted_versions([name for name in super().list(project) if not is_staged(name)]))

    def list_projects(self) -> Projects:
        """Return the projects that have a folder, in the folder's order; one with nothing but staged eggs is none."""
        return [project for project in super().list_projects() if not self._has_only_staged(project)]

    def delete(self, project: str, version: str | None = None) -> None:
        """Remove a version, or a project with all that it has.

        Raises:
            EggNotFoundError: there is no such version.
            ProjectNotFoundError: there is no such project.
            DirectoryTraversalError: the project's name leaves the folder of eggs.

        """
        if version is None:
            super().delete(project)
            return
        try:
            self.path(project, version).unlink()
        except FileNotFoundError as error:
            raise EggNotFoundError from error
        self.keep_signature(project, version, None)
        # Scrapyd removes the folder here with all that is in it, and so would an egg that is being staged.
        with contextlib.suppress(OSError):
            self.path(project, version).parent.rmdir()

    # --- beyond Scrapyd's interface

    def stage(self, project: str) -> Path:
        """Make an empty file for an egg that is not proven yet; the version in its name is of no other egg.

        Raises:
            DirectoryTraversalError: the project's name leaves the folder of eggs.
            OSError: the folder cannot be written to.

        """
        path = self.path(project, STAGED_PREFIX + secrets.token_hex(8))
        for _ in range(_TRIES):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Somebody else may have just removed the folder, since it was empty.
            with contextlib.suppress(FileNotFoundError):
                path.touch(exist_ok=False)
                return path
        raise OSError(f"{path.parent} is removed again and again")

    def publish(self, staged: Path, project: str, version: str) -> None:
        """Let a staged egg be this version, in one step and for good, also when the power fails.

        Raises:
            OSError: it could not be done; the version is as it was.

        """
        with staged.open("rb") as written:
            os.fsync(written.fileno())
        target = self.path(project, version)
        staged.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self, staged: Path) -> None:
        """Remove a staged egg, and its project's folder when nothing else is in it. Idempotent."""
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            staged.parent.rmdir()

    def discard_old_staged(self, *, older_than_s: float) -> None:
        """Remove what a crash left half done; `older_than_s` is longer than an egg is ever staged."""
        for staged in list(Path(self.basedir).glob(f"*/{STAGED_PREFIX}*.egg")):
            with contextlib.suppress(FileNotFoundError):
                # Somebody else may share this folder: what is young may be at work.
                if time.time() - staged.stat().st_mtime > older_than_s:
                    self.discard(staged)

    def path(self, project: str, version: str) -> Path:
        """Return where the egg of a version lies, or would.

        Raises:
            DirectoryTraversalError: the project's name leaves the folder of eggs.

        """
        return Path(self._egg_path(project, version))

    def held(self) -> Iterator[tuple[ProjectName, VersionName]]:
        """Yield every project and version that lies in the folder."""
        for project in self.list_projects():
            for version in self.list(project):
                yield ProjectName(project), VersionName(version)

    def file(self, project: str, version: str) -> EggFile | None:
        """Return the stamp of an egg, or `None` when there is none."""
        return _stamp(self.path(project, version))

    def digest(self, project: str, version: str) -> str | None:
        """Return the SHA-256 of an egg in hex, or `None` when there is none. Reads the file: not for the reactor."""
        try:
            with self.path(project, version).open("rb") as egg:
                return hashlib.file_digest(egg, "sha256").hexdigest()
        except OSError:
            return None

    def signature(self, project: str, version: str) -> str | None:
        """Return the signature that lies beside an egg; whether it is a good one is not asked."""
        try:
            with self._signature_path(project, version).open(encoding="utf-8") as file:
                return file.read(MAX_SIGNATURE_CHARS + 1) or None
        except (OSError, UnicodeDecodeError):
            return None

    def signature_file(self, project: str, version: str) -> EggFile | None:
        """Return the stamp of an egg's signature, or `None` when there is none."""
        return _stamp(self._signature_path(project, version))

    def keep_signature(self, project: str, version: str, signature: str | None) -> None:
        """Lay a signature beside an egg, in one step; `None` takes away what lies there.

        Raises:
            OSError: it could not be written; what lay there is as it was.

        """
        path = self._signature_path(project, version)
        if signature is None:
            path.unlink(missing_ok=True)
            return
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            draft.write_text(f"{signature}\n", encoding="utf-8")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def _signature_path(self, project: str, version: str) -> Path:
        egg = self.path(project, version)
        return egg.with_name(egg.name + SIGNATURE_SUFFIX)

    def _get_path(self, project: str, *trusted: str) -> str:
        # Scrapyd takes "." for a name inside the folder, and would remove all projects with it.
        if os.path.normpath(project) == os.curdir:
            raise DirectoryTraversalError(project)
        return str(super()._get_path(project, *trusted))

    def _has_only_staged(self, project: str) -> bool:
        names = [path.name for path in Path(self._get_path(project)).glob("*.egg")]
        return bool(names) and all(is_staged(name) for name in names)


def _stamp(path: Path) -> EggFile | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return EggFile(found.st_size, found.st_mtime_ns)


def held_as(version: str) -> VersionName:
    """Return the name under which Scrapyd's folder holds a version: `1.0` is held, and listed, as `1_0`."""
    return VersionName(_NOT_IN_A_FILE_NAME.sub("_", version))


def is_staged(version: str) -> bool:
    """Tell whether a version's name is one that only eggs which are not proven yet have."""
    return version.startswith(STAGED_PREFIX)
