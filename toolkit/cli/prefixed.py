"""Lines of many on one terminal: each with its host's or job's name before it, in a colour of its own, as they come."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import TextIO

from toolkit.cli.printer import Printer
from toolkit.views.harmless import visible

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")

MAX_KNOWN = 10_000
"""So many prefixes at most are remembered; jobs come and go while logs are followed."""


class PrefixedLines:
    """Prints `name | line`, from any thread; for programs nothing, since they get a result of their own.

    The names that are known beforehand are as wide as the widest of them; others may join at any time.
    """

    def __init__(self, printer: Printer, names: Sequence[str] = ()) -> None:
        self._printer = printer
        self._lock = threading.Lock()
        self._width = max(map(len, names), default=0)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._prefixes: dict[tuple[str, bool], str] = {}

    def print(self, name: str, line: str, is_error: bool = False) -> None:
        """Print one line; those of a host's stderr go to stderr."""
        if not self._printer.is_for_people:
            return
        stream: TextIO = sys.stderr if is_error else sys.stdout
        with self._lock:
            self._printer.has_shown = True
            stream.write(f"{self._prefix(name, is_error=is_error)} {visible(line.expandtabs())}\n")
            stream.flush()

    def _prefix(self, name: str, *, is_error: bool) -> str:
        known = self._prefixes.get((name, is_error))
        if known is not None:
            return known
        if len(self._prefixes) >= MAX_KNOWN:
            self._prefixes.clear()
        number = self._numbers.setdefault(name, len(self._numbers))
        self._width = max(self._width, len(name))
        made = self._prefixes[name, is_error] = self._made(name, number, is_error=is_error)
        return made

    def _made(self, name: str, number: int, *, is_error: bool) -> str:
        from rich.text import Text

        console = self._printer.err if is_error else self._printer.out
        text = f"{visible(name):{self._width}} |"
        if not console.is_terminal:
            return text
        with console.capture() as captured:
            console.print(Text(text, style=_COLOURS[number % len(_COLOURS)]), end="")
        return captured.get()
