"""What comes of commands on hosts: how one ended, and a line of a host's log."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.names import NodeName


@dataclass(frozen=True, slots=True)
class Executed:
    """How a command ended on a host, and what it wrote; `is_cut` where it wrote more than is kept."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    is_cut: bool = False

    @property
    def ok(self) -> bool:
        """It ended with 0."""
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log of a host's node."""

    host: NodeName
    text: str
