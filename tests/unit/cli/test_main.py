"""The front door: every end of a command is an exit code, and no end is a traceback."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli import run_crawlctl

from toolkit.cli import main as front
from toolkit.cli.main import main
from toolkit.model.errors import ConflictError


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def ending_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def end(*_: Any) -> int:
        raise error

    monkeypatch.setattr(front, "_parsed", end)


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (ConflictError("no"), 6, "conflict"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("division"), 1, "bug"),
    ],
)
def test_every_end_is_an_exit_code_and_one_object_for_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, kind: str
) -> None:
    ending_with(monkeypatch, error)
    assert main(["status", "--output", "json"]) == code
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == kind
    assert main(["status"]) == code
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "Traceback" not in seen.err


def test_a_bug_shows_its_traceback_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    ending_with(monkeypatch, ZeroDivisionError("division"))
    monkeypatch.setenv("CRAWLCTL_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["status"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "table"),
        (["--output", "json", "jobs"], "json"),
        (["jobs", "list", "--output=jsonl"], "jsonl"),
        (["jobs", "--output"], "table"),
        (["jobs", "--output", "xml"], "table"),
        (["--output", "table"], "table"),
    ],
)
def test_the_wished_shape_is_known_before_anything_is_parsed(words: list[str], expected: str) -> None:
    assert front._wanted_output(words) == expected


def test_words_that_do_not_parse_are_told_in_the_wished_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--output", "json", "no-such-command"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "usage"


def test_a_word_that_is_no_choice_is_told_with_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--output", "tabel"]) == 2
    assert "error: Invalid value for '--output': 'tabel' is not one of 'table'" in capsys.readouterr().err


def test_sigterm_is_an_interruption() -> None:
    main(["--version"])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    ended = run_crawlctl("--help", cwd=tmp_path)
    assert ended.expect(0).out.startswith(("\n", "Usage", " "))
