"""Holds hosts against what was provisioned: what provisioning would do to one now is the drift. Changes no host."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toolkit.config.inventory import Inventory
from toolkit.doctor.judged import ERROR, NOTE, WARNING, Judged, found, named
from toolkit.model.names import NodeName
from toolkit.provision.provisioning import Provisioning
from toolkit.provision.remote import Remote
from toolkit.rollout.lock import operator


@dataclass(frozen=True, slots=True)
class DriftEvidence:
    """What provisioning would do to a host now; `is_provisioned` is false where it never did anything."""

    node: NodeName
    is_provisioned: bool = True
    steps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Drift:
    """Looks at provisioned hosts as the next provisioning would; what they have in common is made once."""

    def __init__(self, inventory: Inventory, state_folder: Path) -> None:
        self._inventory = inventory
        self._state_folder = state_folder
        self._scratch = tempfile.TemporaryDirectory(prefix="crawlctl-", ignore_cleanup_errors=True)
        self._making = threading.Lock()

    def of(self, remote: Remote) -> DriftEvidence:
        """Return what would be done to a host that was provisioned before.

        Raises:
            HostError: it cannot be looked at.
            ConfigurationError: the inventory asks for what cannot be.

        """
        with self._making:
            engine = self._engine
        _, _, planned = engine.look(remote, lambda _: None)
        return DriftEvidence(
            remote.host.name,
            steps=tuple(f"{step.kind.value} {step.target}" for step in planned.steps),
            problems=tuple(each.why for each in planned.problems),
        )

    def close(self) -> None:
        """Remove what was made for the looks."""
        self._scratch.cleanup()

    @cached_property
    def _engine(self) -> Provisioning:
        return Provisioning(self._inventory, self._state_folder, scratch=Path(self._scratch.name), who=operator())


def judge_drift(evidence: DriftEvidence) -> Iterator[Judged]:
    """Say what on the host is not as it was provisioned. Pure."""
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
