"""One command on many hosts, its output handed on line by line while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolkit.model.executed import Executed
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.provision.by_shell import ByShell
from toolkit.provision.everywhere import PARALLEL, everywhere

MAX_KEPT_CHARS = 1_000_000
"""So much of each output of a host is kept for the result; all of it is handed on."""

OnLine = Callable[[NodeName, str, bool], object]
"""Hears the host, the line, and whether it is one of stderr; in the host's thread."""


def words_for(command: Sequence[str]) -> list[str]:
    """Return the words to run: several as they are, a single one as a line for the host's `sh`, as ssh(1) would."""
    return ["sh", "-c", command[0]] if len(command) == 1 else list(command)


def execute(
    hosts: Sequence[Host],
    connect: Callable[[Host], ByShell],
    command: Sequence[str],
    *,
    on_line: OnLine,
    as_root: bool = False,
    timeout_s: float | None = None,
    parallel: int = PARALLEL,
    on_done: Callable[[Outcome[Executed]], object] | None = None,
) -> Outcomes[Executed]:
    """Run the command on every host and return how it ended on each, well or badly; it has no input.

    Raises:
        InterruptedFanOutError: Ctrl-C came; the command was ended wherever it ran.

    """
    words = words_for(command)

    def act(remote: ByShell, _say: Callable[[str], None]) -> Executed:
        name = remote.host.name
        kept = (_Kept(), _Kept())

        def hear(line: str, *, is_error: bool) -> None:
            kept[is_error].add(line)
            on_line(name, line, is_error)

        exit_code = remote.watch(
            words,
            doing=f"run {command[0].split()[0] if command[0].split() else 'nothing'}",
            on_out=lambda line: hear(line, is_error=False),
            on_err=lambda line: hear(line, is_error=True),
            as_root=as_root,
            timeout_s=timeout_s,
        )
        return Executed(exit_code, kept[0].text, kept[1].text, is_cut=any(each.is_cut for each in kept))

    return everywhere(hosts, connect, act, parallel=parallel, on_done=on_done)


@dataclass
class _Kept:
    """The first lines of an output."""

    lines: list[str] = field(default_factory=list)
    size: int = 0
    is_cut: bool = False

    def add(self, line: str) -> None:
        self.is_cut = self.is_cut or self.size + len(line) > MAX_KEPT_CHARS
        if not self.is_cut:
            self.lines.append(f"{line}\n")
            self.size += len(line) + 1

    @property
    def text(self) -> str:
        return "".join(self.lines)
