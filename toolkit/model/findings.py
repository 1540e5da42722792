"""What a doctor finds: one thing that is wrong, or might become so, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.names import NodeName


class Severity(StrEnum):
    """How bad it is; the worst comes first.

    An error keeps something from working, or loses work; a warning will, or weakens a promise; a note is worth knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `check` names the entry of the runbook, as in `redis-eviction`; `node` is `None` for the cluster.

    `command` is what mends or shows it, as it can be typed. `is_fixable` says that `crawlctl doctor --fix` does it;
    `fixed` is what that did, once it did.
    """

    check: str
    severity: Severity
    text: str
    node: NodeName | None = None
    command: str | None = None
    is_fixable: bool = False
    fixed: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found, worst first; the checks that were made; and what could not be looked at."""

    findings: tuple[Finding, ...]
    checks: tuple[str, ...]
    unseen: tuple[str, ...] = ()
