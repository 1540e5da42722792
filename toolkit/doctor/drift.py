"""Judges how far hosts are from what was provisioned: a plan that is not empty is the drift. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.doctor.judged import ERROR, NOTE, WARNING, Judged, found, named
from toolkit.model.names import NodeName


@dataclass(frozen=True, slots=True)
class DriftEvidence:
    """What provisioning would do to a host now; `is_provisioned` is false where it never did anything."""

    node: NodeName
    is_provisioned: bool = True
    steps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def judge_drift(evidence: DriftEvidence) -> Iterator[Judged]:
    """Say what on the host is not as it was provisioned."""
    name = evidence.node
    look = f"crawlctl nodes provision --on {name} --dry-run"
    if not evidence.is_provisioned:
        text = "was never provisioned by crawlctl: nobody sees to its packages and its configuration"
        yield found("host-drift", NOTE, text, node=name, command=look)
    elif evidence.problems:
        text = f"could not be provisioned again as it is: {evidence.problems[0]}"
        yield found("host-drift", ERROR, text, node=name, command=look)
    elif evidence.steps:
        text = f"is not as the inventory and its last provisioning say: {named(evidence.steps)}"
        yield found("host-drift", WARNING, text, node=name, command=look)
