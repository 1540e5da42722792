"""Every command line that the documentation shows is one that crawlctl understands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documents import PAGES, ROOT, blocks, commands_of, complaint, spans

from toolkit.cli.reference import declared_commands

COMMANDS = {command.name.removeprefix("crawlctl ") for command in declared_commands()}
GROUPS = {name.partition(" ")[0] for name in COMMANDS if " " in name}
# Words that follow where a hint speaks of crawlctl itself.
NO_COMMANDS = {"anew", "may"}
_NAMED = re.compile(r"\bcrawlctl ([a-z]+)(?: ([a-z]+))?")


def lines_of(page: Path) -> Iterator[list[str]]:
    for block in blocks(page.read_text(encoding="utf-8")):
        # The usage lines of the reference, with their [OPTIONS], are no command lines.
        if block.language not in {"json", "yaml"} and "[OPTIONS]" not in block.text:
            for line in block.text.splitlines():
                yield from commands_of(line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_line_in_a_code_block_parses(page: Path) -> None:
    assert [said for words in lines_of(page) if (said := complaint(words))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_named_in_a_sentence_exists_with_its_options(page: Path) -> None:
    named = [span for span in spans(page.read_text(encoding="utf-8")) if span.startswith("crawlctl ")]
    whole = [words for span in named for words in commands_of(span) if " ".join(words) not in COMMANDS | GROUPS]
    assert [said for words in whole if (said := complaint(words))] == []


def test_the_pages_have_command_lines_at_all() -> None:
    assert sum(1 for page in PAGES for _ in lines_of(page)) > 60


def test_what_is_no_command_line_is_refused() -> None:
    for line in ("deploy --on", "deploi", "jobs lst", "status --onn eu", "jobs list --state sleeping", "why"):
        assert complaint(line.split()), line


def test_every_hint_names_a_command_that_exists() -> None:
    wrong = []
    for path in sorted((ROOT / "toolkit").rglob("*.py")):
        for hint in hints_of(path):
            for first, second in _NAMED.findall(hint):
                is_known = first in COMMANDS | GROUPS | NO_COMMANDS or f"{first} {second}" in COMMANDS
                wrong += [] if is_known else [f"{path.name}: {hint}"]
    assert not wrong


def hints_of(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            yield "".join(
                part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else " X "
                for part in ast.walk(node.value)
                if isinstance(part, (ast.Constant, ast.FormattedValue))
            )
