"""Every command either notes in the audit what it changes, or is known here to change nothing of the cluster's."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from toolkit import cli
from toolkit.cli.reference import declared_commands

# What only reads, or touches no more than files and processes of this machine.
READING = {
    *("demo", "init", "up", "down", "build", "docs"),
    *("status", "top", "releases", "rollouts list", "rollouts show", "audit", "events", "why", "logs"),
    *("alerts list", "alerts show", "alerts failed"),
    *("cron list", "cron show", "cron next", "cron history"),
    *("jobs list", "jobs show", "jobs limits", "items job", "items list", "items count"),
    *("crawls list", "crawls show", "crawls peek", "crawls export"),
    *("nodes list", "nodes show", "nodes logs", "nodes wheelhouse"),
    *("inventory check", "inventory show", "inventory list", "inventory schema"),
    *("keys list", "keys show"),
    *("metrics show", "metrics dashboard", "metrics rules"),
    *("web serve", "web users list", "web tokens list"),
}


@cache
def audited() -> set[str]:
    """Return the words of every `audit=` in the command line's modules."""
    found = set()
    for path in Path(cli.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "command":
                found |= {key.value.value for key in call.keywords if key.arg == "audit"}  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("path", sorted(each.name.removeprefix("crawlctl ") for each in declared_commands()))
def test_a_command_is_audited_or_only_reads(path: str) -> None:
    assert (path in audited()) is not (path in READING), f"give command(..., audit={path!r}) or list it as reading"


def test_an_audited_command_says_its_own_words() -> None:
    known = {each.name.removeprefix("crawlctl ") for each in declared_commands()}
    assert audited() - known == set()
