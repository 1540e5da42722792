"""Lines of many hosts on one terminal: each with its host's name before it, in a colour of its own, as they come."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import TextIO

from toolkit.cli.printer import Printer
from toolkit.views.harmless import visible

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")


class PrefixedLines:
    """Prints `name | line`, from any thread; for programs nothing, since they get a result of their own."""

    def __init__(self, printer: Printer, names: Sequence[str]) -> None:
        self._printer = printer
        self._lock = threading.Lock()
        width = max(map(len, names), default=0)
        self._prefixes = {
            is_error: {name: self._prefix(name, width, at, is_error=is_error) for at, name in enumerate(names)}
            for is_error in (False, True)
        }

    def print(self, name: str, line: str, is_error: bool = False) -> None:
        """Print one line; those of a host's stderr go to stderr."""
        if not self._printer.is_for_people:
            return
        stream: TextIO = sys.stderr if is_error else sys.stdout
        with self._lock:
            self._printer.has_shown = True
            stream.write(f"{self._prefixes[is_error][name]} {visible(line.expandtabs())}\n")
            stream.flush()

    def _prefix(self, name: str, width: int, at: int, *, is_error: bool) -> str:
        from rich.text import Text

        console = self._printer.err if is_error else self._printer.out
        if not console.is_terminal:
            return f"{name:{width}} |"
        with console.capture() as captured:
            console.print(Text(f"{name:{width}} |", style=_COLOURS[at % len(_COLOURS)]), end="")
        return captured.get()
