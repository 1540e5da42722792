"""The versions that this node has proven to hold: their eggs are here, and their spiders were listed from them.

Kept in one file of the node's state folder, so that a restart proves nothing twice. An entry counts only for the very
bytes, the Python and the installed packages that it was proven with. Any thread may ask and change.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scrapyd.eggstorage import sorted_versions
from twisted.logger import Logger

from toolkit.model.names import ProjectName, SpiderName, VersionName
from toolkit.node.eggstorage import EggFile

_log = Logger()
_FORMAT = 1

Key = tuple[ProjectName, VersionName]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a proof depends on besides the egg: the Python, and a digest of the installed packages and versions."""

    python: str
    packages: str

    @classmethod
    def now(cls) -> Surroundings:
        """Return those of this process' environment; reads every package's metadata, tens of milliseconds."""
        found = {f"{each.name}=={each.version}" for each in importlib.metadata.distributions()}
        digest = hashlib.sha256("\n".join([sys.prefix, *sorted(found)]).encode()).hexdigest()
        return cls(f"{platform.python_implementation()} {platform.python_version()}", digest)


@dataclass(frozen=True, slots=True)
class Proof:
    """That an egg's spiders were listed: which bytes, in which surroundings, what was found, when (UTC).

    `environment` is the one of its own in which that was done, if it has one (`environments.py`).
    """

    digest: str
    spiders: tuple[SpiderName, ...]
    surroundings: Surroundings
    at: datetime
    file: EggFile | None = None
    environment: str | None = None


class Catalogue:
    """What is proven, and what should be and is not, with the reason.

    `remembered` proofs are those of earlier lives; they count again once `confirm` has seen that they still hold.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._proofs: dict[Key, Proof] = {}
        self._behind: dict[Key, str] = {}
        self._versions: Mapping[ProjectName, tuple[VersionName, ...]] = MappingProxyType({})
        self._remembered = _read(path)

    def versions(self) -> Mapping[ProjectName, tuple[VersionName, ...]]:
        """Return the proven versions of each project, oldest first by Scrapyd's own rule; costs nothing."""
        return self._versions

    def newest(self, project: str) -> VersionName | None:
        """Return the last of a project's proven versions."""
        held = self._versions.get(ProjectName(project), ())
        return held[-1] if held else None

    def spiders(self, project: str, version: str) -> tuple[SpiderName, ...] | None:
        """Return a proven version's spiders, `None` when it is not proven."""
        proof = self.proof(project, version)
        return None if proof is None else proof.spiders

    def proof(self, project: str, version: str) -> Proof | None:
        """Return the proof of a version, if there is one that holds."""
        return self._proofs.get((ProjectName(project), VersionName(version)))

    def remembered(self, project: str, *, digest: str, surroundings: Surroundings) -> Proof | None:
        """Return what is known, now or from an earlier life, of these bytes in these surroundings."""
        with self._lock:
            for (named, _), proof in (*self._proofs.items(), *self._remembered.items()):
                if (named, proof.digest, proof.surroundings) == (project, digest, surroundings):
                    return proof
        return None

    def known_digest(self, project: str, version: str, *, file: EggFile) -> str | None:
        """Return the digest of an egg's file, without reading it, if it was proven with this stamp."""
        key = (ProjectName(project), VersionName(version))
        proof = self._proofs.get(key) or self._remembered.get(key)
        return None if proof is None or proof.file != file else proof.digest

    def environment(self, project: str, version: str | None) -> str | None:
        """Return the environment in which a version runs, also one that is just being proven again; none has most."""
        key = (ProjectName(project), VersionName(version or self.newest(project) or ""))
        proof = self._proofs.get(key) or self._remembered.get(key)
        return None if proof is None else proof.environment

    def environments(self) -> Mapping[str, tuple[Key, ...]]:
        """Return the versions that have an environment of their own, by its name."""
        with self._lock:
            found: dict[str, list[Key]] = {}
            for key, proof in sorted({**self._remembered, **self._proofs}.items()):
                if proof.environment is not None:
                    found.setdefault(proof.environment, []).append(key)
            return {name: tuple(keys) for name, keys in found.items()}

    def confirm(
        self,
        project: str,
        version: str,
        *,
        file: EggFile,
        surroundings: Surroundings,
        is_there: Callable[[str | None], bool] = lambda _: True,
    ) -> bool:
        """Let a remembered proof count again if its egg's file is untouched and the surroundings are the same.

        `is_there` tells whether its environment still is.
        """
        key = (ProjectName(project), VersionName(version))
        proof = self._proofs.get(key) or self._remembered.get(key)
        if proof is None or (proof.file, proof.surroundings) != (file, surroundings):
            return False
        if not is_there(proof.environment):
            return False
        if key not in self._proofs:
            self.add(*key, proof)
        return True

    def add(self, project: str, version: str, proof: Proof) -> None:
        """Note a version as proven, and no longer behind."""
        key = (ProjectName(project), VersionName(version))
        with self._lock:
            self._proofs[key] = proof
            self._remembered[key] = proof
            self._behind.pop(key, None)
            self._changed()

    def drop(self, project: str, version: str | None = None) -> None:
        """Forget a version, or all of a project. Idempotent."""
        with self._lock:
            gone = {key for key in (*self._proofs, *self._remembered, *self._behind) if key[0] == project}
            for key in gone if version is None else gone & {(ProjectName(project), VersionName(version))}:
                self._proofs.pop(key, None)
                self._remembered.pop(key, None)
                self._behind.pop(key, None)
            self._changed()

    def suspend(self, project: str, version: str, reason: str) -> None:
        """Note that a version should be held and is not, and why; a proof of other bytes no longer counts."""
        key = (ProjectName(project), VersionName(version))
        with self._lock:
            self._behind[key] = reason
            if self._proofs.pop(key, None) is not None:
                self._changed()

    def try_again(self, project: str, version: str) -> None:
        """Take back the reason why a version is not held: it is being seen to again."""
        with self._lock:
            self._behind.pop((ProjectName(project), VersionName(version)), None)

    def keep_behind(self, wanted: frozenset[Key]) -> None:
        """Forget the reasons of what nobody wants any more."""
        with self._lock:
            self._behind = {key: reason for key, reason in self._behind.items() if key in wanted}

    def behind(self) -> Mapping[str, str]:
        """Return what should be held and is not, by `project version`, with the reason."""
        with self._lock:
            return {f"{project} {version}": reason for (project, version), reason in sorted(self._behind.items())}

    def reason(self, project: str, version: str) -> str | None:
        """Return why a version that should be held is not."""
        return self._behind.get((ProjectName(project), VersionName(version)))

    def _changed(self) -> None:
        """Renew what `versions` answers, and the file; a disk that is full costs a listing at the next start."""
        by_project: dict[ProjectName, list[VersionName]] = {}
        for project, version in self._proofs:
            by_project.setdefault(project, []).append(version)
        self._versions = MappingProxyType(
            {project: tuple(sorted_versions(versions)) for project, versions in sorted(by_project.items())}
        )
        try:
            _write(self._path, self._remembered)
        except OSError as error:
            _log.warn("The catalogue of proven versions could not be written: {error}", error=error)


def _write(path: Path, proofs: Mapping[Key, Proof]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [_row(*key, proof) for key, proof in sorted(proofs.items())]
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps({"format": _FORMAT, "proofs": rows}, indent=1), encoding="utf-8")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _row(project: ProjectName, version: VersionName, proof: Proof) -> dict[str, Any]:
    file = proof.file
    return {
        "project": project,
        "version": version,
        "digest": proof.digest,
        "spiders": proof.spiders,
        "python": proof.surroundings.python,
        "packages": proof.surroundings.packages,
        "at": proof.at.isoformat(),
        "size_bytes": file and file.size_bytes,
        "modified_ns": file and file.modified_ns,
        "environment": proof.environment,
    }


def _read(path: Path) -> dict[Key, Proof]:
    """Return what the file holds; one that cannot be read costs a listing of each egg, nothing more."""
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT:
            return {}
        return dict(_proof(row) for row in content["proofs"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _log.warn("The catalogue of proven versions cannot be read, so each is proven again: {error}", error=error)
        return {}


def _proof(row: Mapping[str, Any]) -> tuple[Key, Proof]:
    file = None if row["size_bytes"] is None else EggFile(int(row["size_bytes"]), int(row["modified_ns"]))
    spiders = tuple(SpiderName(str(name)) for name in row["spiders"])
    surroundings = Surroundings(str(row["python"]), str(row["packages"]))
    at = datetime.fromisoformat(row["at"])
    environment = row.get("environment")
    named = None if environment is None else str(environment)
    proof = Proof(str(row["digest"]), spiders, surroundings, at.astimezone(UTC), file, named)
    return (ProjectName(str(row["project"])), VersionName(str(row["version"]))), proof


def with_file(proof: Proof, file: EggFile | None) -> Proof:
    """Return the proof, bound to an egg's file as it is now."""
    return replace(proof, file=file)
