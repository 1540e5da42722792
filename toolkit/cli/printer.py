"""The one printer: results to stdout as a table, JSON or JSON lines; talk and progress to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toolkit.model.errors import UsageError
from toolkit.views.harmless import harmless_json, visible, visible_parts

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from toolkit.views.view import View

PIPED_WIDTH = 240
QUIET_S = 1.0


class Output(StrEnum):
    """How results are shown."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class Printer:
    """Shows results and talk. Colours and progress only on a terminal; `NO_COLOR` is honoured by rich itself."""

    def __init__(self, output: Output = Output.TABLE) -> None:
        self.output = output
        self.has_shown = False

    @cached_property
    def out(self) -> Console:
        """Where results go."""
        return _console(is_err=False)

    @cached_property
    def err(self) -> Console:
        """Where talk goes."""
        return _console(is_err=True)

    @property
    def is_for_people(self) -> bool:
        """A table was asked for."""
        return self.output is Output.TABLE

    def get_ready(self) -> None:
        """Load what talking needs, at a moment at which that costs nothing."""
        _ = self.err

    def show(self, view: View) -> None:
        """Print one result."""
        self.has_shown = True
        if self.output is Output.TABLE:
            self.out.print(view.table())
        elif self.output is Output.JSON:
            self._write(_json(view.data, indent=2))
        else:
            for row in view.data if isinstance(view.data, list) else [view.data]:
                self._write(_json(row))

    def redraw(self, view: View) -> None:
        """Print a result over the one before, on a terminal; below it elsewhere, for programs as one line."""
        if not self.is_for_people:
            self._write(_json(view.data))
            return
        if self.out.is_terminal:
            self.out.clear()
        self.show(view)

    def stream(self, parts: Iterable[bytes], *, field: str | None = None) -> None:
        """Pass bytes through to stdout as they come; with a `field`, programs get each line as an object.

        On a terminal, control characters are shown instead: what a crawl found may hold any.
        """
        self.has_shown = True
        if field is not None and not self.is_for_people:
            for line in _lines(parts):
                self._write(_json({field: line}))
            return
        if sys.stdout.isatty():
            for text in visible_parts(parts):
                sys.stdout.write(text)
                sys.stdout.flush()
            return
        for part in parts:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()

    def line(self, text: str) -> None:
        """Print one line of what came from outside; its control characters are shown, and do nothing."""
        self.has_shown = True
        self._write(visible(text.expandtabs()))

    def say(self, text: str, *, style: str | None = None) -> None:
        """Talk to the operator, on stderr."""
        self.err.print(visible(text), style=style, markup=False, highlight=False, soft_wrap=True)

    def error(self, described: dict[str, Any], *, has_result: bool = False) -> None:
        """Tell an error: on stderr for people, as an object on stdout for programs that got no result yet."""
        if not self.is_for_people and not has_result:
            self._write(_json({"error": described}))
            return
        if described["kind"] != "interrupted":  # an operator's wish, and no error
            self.err.print("error:", style="bold red", end=" ")
        self.err.print(visible(described["message"]), markup=False, highlight=False, soft_wrap=True)
        if described["hint"]:
            self.err.print("hint:", style="bold", end=" ")
            self.err.print(visible(described["hint"]), markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def live(self, draw: Callable[[], RenderableType]) -> Iterator[None]:
        """Show what `draw` gives, again and again, while the block runs; nothing where there is no terminal."""
        if not self.err.is_terminal:
            yield
            return
        from rich.live import Live

        with Live(get_renderable=draw, console=self.err, refresh_per_second=8, transient=True):
            yield

    @contextmanager
    def busy(self, what: Callable[[], str]) -> Iterator[None]:
        """Say on a terminal what is waited for, and for how long by now, while the block runs; not in its first second.

        So that nobody has to guess whether a command hangs.
        """
        from rich.text import Text

        begun = time.monotonic()

        def line() -> Text:
            waited_s = time.monotonic() - begun
            return Text(visible(f"{what()} ({waited_s:.0f} s)") if waited_s >= QUIET_S else "", style="dim")

        with self.live(line):
            yield

    def confirm(self, question: str) -> bool:
        """Ask on the terminal; without one, the answer is an error that names the flag.

        Raises:
            UsageError: there is nobody to ask.

        """
        if not sys.stdin.isatty():
            raise UsageError(f"{question} There is no terminal to ask on", hint="say it beforehand: --yes")
        self.err.print(f"{question} [y/N] ", end="", markup=False, highlight=False)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    @property
    def can_ask(self) -> bool:
        """Somebody is at a terminal, and wants to read tables."""
        return self.is_for_people and sys.stdin.isatty() and self.err.is_terminal

    def choose(self, question: str, answers: Mapping[str, str], *, default: str) -> str:
        """Ask on the terminal for one of several answers by its letter; anything else is the default."""
        offered = ", ".join(
            f"[{letter.upper() if letter == default else letter}] {text}" for letter, text in answers.items()
        )
        self.err.print(visible(f"{question} {offered}: "), end="", markup=False, highlight=False, soft_wrap=True)
        answer = sys.stdin.readline().strip().lower()[:1]
        return answer if answer in answers else default

    def _write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _json(value: Any, *, indent: int | None = None) -> str:
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return harmless_json(json.dumps(value, ensure_ascii=not is_utf8, indent=indent))


def _lines(parts: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", "replace")


def _console(*, is_err: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if is_err else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter shows its number
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    return Console(stderr=is_err, width=width, highlight=False, emoji=False)
