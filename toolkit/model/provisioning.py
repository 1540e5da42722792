"""What provisioning changes on a host, and what became of it, as it is shown: no secret is in any of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from toolkit.model.hosts import Host


class StepKind(StrEnum):
    """What a change is about; the word that tables and JSON show."""

    USER = "user"
    FOLDER = "folder"
    CARRY = "carry"
    PACKAGES = "packages"
    FILE = "file"
    SERVICE = "service"
    RESTART = "restart"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a host: what it concerns, why it is needed, and for a text file the lines that change."""

    kind: StepKind
    target: str
    why: str
    diff: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What became of one host: the steps that were done, or with a dry run would be, and things to know."""

    host: Host
    steps: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Anything was done."""
        return bool(self.steps)


@dataclass(frozen=True, slots=True)
class Wheelhouse:
    """A folder of wheels that was filled for hosts; `fetched` counts the wheels that were not there before."""

    folder: Path
    python: str
    platform: str
    packages: int
    fetched: int
    size_bytes: int
