"""The generated reference holds everything, is up to date, and is the same wherever it is made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.documents import ROOT

from toolkit.cli.errors import TABLE, ExitCode
from toolkit.cli.reference import REFERENCE, declared_commands, main, pages, stale, write
from toolkit.config.options import OPTIONS


def test_the_reference_is_up_to_date() -> None:
    assert stale() == [], "make docs"


def test_every_command_and_each_of_its_options_is_in_the_reference() -> None:
    text = pages()["commands.md"]
    for command in declared_commands():
        section = text.partition(f"## {command.name}\n")[2].partition("\n## ")[0]
        assert command.help in section
        assert command.examples, f"{command.name} has no example"
        for parameter in command.parameters:
            assert parameter.help, f"{command.name}: {parameter.names} has no help"
            assert all(f"`{name}`" in section for name in parameter.names), (command.name, parameter.names)


def test_the_reference_knows_the_options_that_the_help_shows() -> None:
    for name in ("schedule", "deploy", "jobs list", "cancel"):
        shown = subprocess.run(
            [sys.executable, "-m", "toolkit.cli.main", *name.split(), "--help"],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        section = pages()["commands.md"].partition(f"## crawlctl {name}\n")[2].partition("\n## ")[0]
        helped = set(re.findall(r"^│ +(--[a-z-]+)", shown, re.MULTILINE)) - {"--help", "--inventory", "--output"}
        assert helped == set(re.findall(r"^\| `(--[a-z-]+)`", section, re.MULTILINE))


def test_every_option_exit_code_and_kind_of_error_is_in_the_reference() -> None:
    made = pages()
    assert all(f"| `{option.name}` |" in made["options.md"] for option in OPTIONS)
    assert all(f"\n| {code.value} |" in made["exit-codes.md"] for code in ExitCode)
    assert all(f"\n| `{kind}` | {code.value} |" in made["exit-codes.md"] for _, kind, code, _ in TABLE)
    assert json.loads(made["inventory.schema.json"])["title"] == "crawlctl inventory"


def test_every_environment_variable_of_the_code_is_in_the_option_table() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "toolkit").rglob("*.py"))
    # By CRAWLCTL_RUN a node tells a process which job it is; nobody sets it.
    used = set(re.findall(r"\"(CRAWLCTL_[A-Z_]*[A-Z])\"", sources)) - {"CRAWLCTL_RUN"}
    assert used <= {option.name for option in OPTIONS}


@pytest.mark.parametrize(
    "surroundings",
    [
        {"COLUMNS": "20", "TERM": "dumb", "NO_COLOR": "1"},
        {"COLUMNS": "400", "FORCE_COLOR": "1", "TERM": "xterm-256color", "LANG": "C", "PYTHONHASHSEED": "7"},
        {"TYPER_USE_RICH": "0", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "8"},
    ],
)
def test_the_reference_is_the_same_on_every_terminal(surroundings: dict[str, str]) -> None:
    command = [sys.executable, "-m", "toolkit.cli.reference", "--check"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **surroundings}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_stale_file_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    assert stale(tmp_path) == []
    (tmp_path / "options.md").write_text("old")
    (tmp_path / "exit-codes.md").unlink()
    assert stale(tmp_path) == [tmp_path / "options.md", tmp_path / "exit-codes.md"]


def test_the_check_ends_with_1_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("toolkit.cli.reference.stale", lambda: [REFERENCE / "commands.md"])
    assert main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "commands.md is not up to date" in told
    assert "hint: make docs" in told


def test_an_unknown_word_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--chek"]) == ExitCode.USAGE
    assert "usage:" in capsys.readouterr().err
