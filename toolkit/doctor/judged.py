"""What a judgement is made of: a finding, and the remedy that `--fix` has for it, if there is a safe one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.doctor.checks import CHECKS
from toolkit.model.findings import Finding, Severity
from toolkit.model.names import NodeName, ProjectName, VersionName

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class BringEgg:
    """Bring an active release to a node that lacks it, out of the store, and read it back."""

    node: NodeName
    project: ProjectName
    version: VersionName


@dataclass(frozen=True, slots=True)
class RemoveStrays:
    """Take the versions of a project that no release knows off all nodes, as far as no job needs them."""

    project: ProjectName


@dataclass(frozen=True, slots=True)
class WithdrawOffer:
    """Take back what killed deploys of a project left on offer."""

    project: ProjectName


@dataclass(frozen=True, slots=True)
class EndOrphan:
    """Ask a spider process that is nobody's to close; `start` proves that it is still the same one."""

    node: NodeName
    pid: int
    start: str
    as_root: bool


Remedy = BringEgg | RemoveStrays | WithdrawOffer | EndOrphan


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding with what would mend it."""

    finding: Finding
    remedy: Remedy | None = None


def found(
    check: str,
    severity: Severity,
    text: str,
    *,
    node: NodeName | None = None,
    command: str | None = None,
    remedy: Remedy | None = None,
) -> Judged:
    """Return a finding; `text` goes on after the node's name where there is one."""
    whole = text if node is None else f"{node} {text}"
    return Judged(Finding(CHECKS[check].name, severity, whole, node, command, is_fixable=remedy is not None), remedy)


def worst_first(judged: Sequence[Judged]) -> list[Judged]:
    """Sort by severity, then by check, then by node; equal ones keep their order."""
    ranks = {severity: rank for rank, severity in enumerate(Severity)}
    places = {name: place for place, name in enumerate(CHECKS)}
    return sorted(
        judged, key=lambda each: (ranks[each.finding.severity], places[each.finding.check], each.finding.node or "")
    )


def named(names: Sequence[str]) -> str:
    """Name a few of many."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
