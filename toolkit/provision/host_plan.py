"""What a plan for a host consists of: steps, problems that forbid them, and notes. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.model.names import NodeName
from toolkit.model.provisioning import Change, StepKind
from toolkit.provision.facts import Manager

__all__ = ["Carried", "HostPlan", "Problem", "Step", "StepKind"]


@dataclass(frozen=True, slots=True)
class Carried:
    """A file of this machine that goes to a path of the host; without a `source` it is our own uv."""

    source: Path | None
    target: str
    mode: int = 0o644

    @property
    def name(self) -> str:
        """What it is called on the host."""
        return self.target.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Step(Change):
    """A change with what does it. No secret is in `target`, `why` or `diff`.

    `operations` is what is done on the host; they may hold secrets, so they are never shown. Doing a step twice is as
    good as once.
    """

    operations: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    carries: tuple[Carried, ...] = ()
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a host cannot be provisioned as it is, and what to do about it."""

    doing: str
    why: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The steps for one host, in their order; with any problem none of them may be done.

    `notes` are things to know that are not ours to change: what must be open in a firewall, for one.
    """

    host: NodeName
    manager: Manager
    steps: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """The host is as it shall be."""
        return not self.steps and not self.problems
