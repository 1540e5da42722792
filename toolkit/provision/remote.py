"""What a host must let us do, whether it is reached over SSH (`ssh.py`) or is this machine (`here.py`).

Commands are lists of words; nothing is put together for a shell by those who call. A secret goes in a file or in
`stdin`, never in a word. Any thread may use a host, one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toolkit.model.hosts import Host

CONNECT = "connect by SSH"
"""What is said to be under way (`HostError.doing`) before a host has let us in: nothing was done there."""

STEP_TIMEOUT_S = 120.0
"""How long a command may take unless its caller knows better."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it said; texts are decoded with replacement characters."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """It ended with 0."""
        return self.exit_code == 0

    @property
    def last_words(self) -> str:
        """The last line that it wrote, for a message."""
        lines = [line.strip() for line in f"{self.stdout}\n{self.stderr}".splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"exit code {self.exit_code}"


class Remote(Protocol):
    """One host, connected on first use. Every method may raise a `HostError` that says what was under way.

    With `as_root` it is done through sudo, or as it is where we are root already; `as_user` names another user.
    """

    @property
    def host(self) -> Host:
        """The host of the inventory."""

    def run(
        self,
        words: Sequence[str],
        *,
        doing: str,
        as_root: bool = False,
        as_user: str | None = None,
        stdin: bytes = b"",
        timeout_s: float = STEP_TIMEOUT_S,
    ) -> Ran:
        """Run a command and return how it ended, also when badly.

        Raises:
            HostUnreachableError: the connection broke, or the command outlived its time; it may go on there.
            HostUnauthorizedError: sudo refused.

        """

    def check(
        self,
        words: Sequence[str],
        *,
        doing: str,
        as_root: bool = False,
        as_user: str | None = None,
        stdin: bytes = b"",
        timeout_s: float = STEP_TIMEOUT_S,
    ) -> str:
        """Run a command that must end well, and return what it printed.

        Raises:
            HostRefusedError: it ended badly; `why` has its last words.

        """

    def follow(
        self, words: Sequence[str], *, doing: str, on_line: Callable[[str], object], as_root: bool = False
    ) -> int:
        """Run a command for as long as it takes, hand on each line as it comes, and return its exit code.

        When the caller's thread is interrupted, or the connection ends, the command is ended there too.
        """

    def read(self, path: str, *, as_root: bool = False, max_bytes: int = 1_000_000) -> bytes | None:
        """Return a file's content, `None` when there is none."""

    def write(self, path: str, content: bytes, *, mode: int, owner: str | None = None, as_root: bool = False) -> None:
        """Put a file in place whole: other processes see the old content or the new, and no other mode or owner."""

    def send(self, source: Path, path: str, *, on_bytes: Callable[[int], object] | None = None) -> None:
        """Copy a large file of this machine to a path that our login may write; `on_bytes` hears how many are there."""

    def close(self) -> None:
        """End the connection; twice is harmless."""


class Connect(Protocol):
    """Makes the `Remote` of a host; connects nowhere yet."""

    def __call__(self, host: Host) -> Remote:
        """Return the host's remote."""
