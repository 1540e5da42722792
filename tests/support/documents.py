"""The documentation as tests read it: its pages, their code blocks and spans, and the command lines in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from toolkit.cli.app import app
from toolkit.cli.narrowed import narrowed
from toolkit.cli.topics import FOLDER

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(FOLDER.rglob("*.md"))]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")
# What these do, they do while the line is parsed; so they are taken out before.
_ACTING = ("--help", "-h", "--install-completion", "--show-completion")


class Block(NamedTuple):
    """A fenced block of code and the language that it names."""

    language: str
    text: str


def blocks(text: str) -> list[Block]:
    """Return the code blocks of a page, in order."""
    return [Block(*found) for found in _BLOCK.findall(text)]


def prose(text: str) -> str:
    """Return a page without its code blocks."""
    return _BLOCK.sub("", text)


def spans(text: str) -> list[str]:
    """Return the pieces of code within the prose of a page, each on one line."""
    return [" ".join(found.replace("\\|", "|").split()) for found in _SPAN.findall(prose(text))]


def commands_of(line: str) -> Iterator[list[str]]:
    """Yield the words of each crawlctl command in a shell line, without `crawlctl` itself."""
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set(";&|<>()"):
            command.append(word)
            continue
        while command and _ASSIGNMENT.fullmatch(command[0]):
            command.pop(0)
        if command and command[0] == "crawlctl":
            yield command[1:]
        command = []


def complaint(words: list[str]) -> str | None:
    """Parse a command as crawlctl would, do nothing else, and return what the parser does not like in it."""
    try:
        _parse(words)
    except Exception as error:  # noqa: BLE001 - Typer's errors have no common base that it names
        return f"crawlctl {' '.join(words)}: {error}"
    return None


def _parse(words: list[str]) -> None:
    rest = [word for word in words if word not in _ACTING]
    root: Any = typer.main.get_command(narrowed(app, rest))
    if rest[:1] == ["--version"]:
        rest = rest[1:]
    command, name, parent = root, "crawlctl", None
    while rest or parent is not None:
        parent = command.make_context(name, rest, parent=parent)
        if not hasattr(command, "resolve_command"):
            return
        name, command, rest = command.resolve_command(parent, [*parent._protected_args, *parent.args])
