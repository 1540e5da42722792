"""The part of the application that is made ready for a command line answers as the whole one does."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from toolkit.cli.app import app
from toolkit.cli.main import main
from toolkit.cli.narrowed import narrowed
from toolkit.cli.reference import declared_commands

WHOLE: Any = typer.main.get_command(app)
PATHS = [tuple(command.name.split()[1:]) for command in declared_commands()]
GROUPS = sorted({path[:1] for path in PATHS if len(path) > 1})
WRONG = [("deploi",), ("jobs", "lst"), ("jobs", "list", "--stat"), ("cron",), ("--onn", "status"), ("-i", "x", "jobs")]


def part(*words: str) -> Any:
    return typer.main.get_command(narrowed(app, words))


def told(root: Any, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    """Return what is printed for words that come to no command, and the complaint."""
    try:
        root(list(words), prog_name="crawlctl", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - Typer's errors have no common base that it names
        return f"{capsys.readouterr().out}{type(error).__name__}: {error}"
    return capsys.readouterr().out


def _declared(option: Any) -> tuple[Any, ...]:
    return (option.name, option.opts, option.secondary_opts, option.required, option.nargs, option.help)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_is_the_same_and_alone(path: tuple[str, ...]) -> None:
    ours, theirs = part(*path), WHOLE
    for word in path:
        assert list(ours.commands) == [word]
        ours, theirs = ours.commands[word], theirs.commands[word]
    assert (ours.help, ours.epilog, ours.context_settings) == (theirs.help, theirs.epilog, theirs.context_settings)
    assert [_declared(each) for each in ours.params] == [_declared(each) for each in theirs.params]


@pytest.mark.parametrize("words", [("--help",), ("-h",), *((*group, "--help") for group in GROUPS)], ids=" ".join)
def test_every_list_of_commands_is_the_whole_one(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(part(*words), words, capsys)
    assert "Usage: crawlctl" in shown
    assert shown == told(WHOLE, words, capsys)


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_words_are_answered_as_by_the_whole(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    complaint = told(part(*words, "--no-such"), (*words, "--no-such"), capsys)
    assert complaint == told(WHOLE, (*words, "--no-such"), capsys)
    assert complaint


def test_no_word_shows_the_list_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == told(WHOLE, ("--help",), capsys)


def test_a_shell_that_asks_how_a_word_goes_on_gets_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CRAWLCTL_COMPLETE", "complete_bash")
    assert narrowed(app, ["jobs"]) is app
