"""The one printer: data to stdout, talk to stderr, nothing that a terminal obeys."""

from __future__ import annotations

import io
import json
import sys

import pytest

from toolkit.cli.errors import INTERRUPTED
from toolkit.cli.printer import Output, Printer
from toolkit.model.errors import UsageError
from toolkit.views.view import View, plain_table

NASTY = "\x1b[2J\x9b31m\ud83d"
ROWS = [{"name": "a", "text": NASTY}, {"name": "b", "text": "Zürich"}]


def a_view(data: object = None) -> View:
    return View(ROWS if data is None else data, lambda: plain_table("NAME", rows=[("a",)]))


class Terminal(io.TextIOWrapper):
    """A stream that says that it is a terminal, and keeps what it was given."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.kept = io.BytesIO()
        super().__init__(self.kept, encoding=encoding, write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return self.kept.getvalue().decode(self.encoding)


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Sit down at a terminal; in the test itself, since pytest takes the streams anew before each."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_a_table_goes_to_stdout_and_talk_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer()
    printer.show(a_view())
    printer.say("hello")
    seen = capsys.readouterr()
    assert seen.out.split() == ["NAME", "a"]
    assert seen.err == "hello\n"


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(Output.JSON).show(a_view())
    out = capsys.readouterr().out
    assert json.loads(out) == ROWS
    assert "Zürich" in out
    assert "\x1b" not in out
    assert "\x9b" not in out


def test_jsonl_is_a_line_a_row_and_one_for_what_is_no_list(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(Output.JSONL).show(a_view())
    Printer(Output.JSONL).show(a_view({"one": 1}))
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [*ROWS, {"one": 1}]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_json_also_where_letters_are_few(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    stream = Terminal(encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    Printer(Output.JSON).show(a_view([{"text": "日本 ü"}]))
    assert json.loads(stream.text) == [{"text": "日本 ü"}]


def test_a_terminal_that_cannot_show_a_letter_gets_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal("ascii")
    monkeypatch.setattr(sys, "stderr", stream)
    Printer().say("日本")
    assert "\\u65e5\\u672c" in stream.text


def test_an_error_goes_to_stderr_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    Printer().error({"kind": "usage", "message": f"what? {NASTY}", "hint": "so"})
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err == "error: what? \\x1b[2J\\x9b31m\\ud83d\nhint: so\n"


def test_an_error_goes_to_stdout_for_programs_that_got_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"kind": "usage", "message": NASTY, "hint": None}
    Printer(Output.JSON).error(told)
    assert json.loads(capsys.readouterr().out) == {"error": told}
    Printer(Output.JSON).error(told, has_result=True)
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith("error: ")


def test_a_stream_that_is_piped_is_passed_on_byte_by_byte(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Printer().stream([b"\x1b[31m\xff", b"\r\nmore"], field="line")
    assert capfdbinary.readouterr().out == b"\x1b[31m\xff\r\nmore"


def test_a_stream_on_a_terminal_is_shown_and_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    Printer().stream([b"\x1b[31mZ\xc3", b"\xbcrich\r\nmore"], field="line")
    assert terminal.text == "\\x1b[31mZürich\nmore"


def test_a_stream_is_an_object_a_line_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(Output.JSON).stream([b"one\ntw", b"o\nthree"], field="line")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"line": "one"},
        {"line": "two"},
        {"line": "three"},
    ]


def test_progress_is_shown_only_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    drawn: list[int] = []

    def draw() -> str:
        drawn.append(1)
        return "working"

    with Printer().live(draw):
        pass
    assert not drawn
    assert capsys.readouterr().err == ""


def test_progress_is_drawn_on_a_terminal_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    with Printer().live(lambda: "working"):
        pass
    assert "working" in terminal.text


def test_a_command_that_keeps_people_waiting_says_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    with Printer().busy(lambda: "waiting for node-1"):
        pass
    assert "node-1" not in terminal.text
    monkeypatch.setattr("toolkit.cli.printer.QUIET_S", 0.0)
    with Printer().busy(lambda: "waiting for node-1"):
        pass
    assert "waiting for node-1 (0 s)" in terminal.text


@pytest.mark.parametrize(
    ("answer", "is_yes"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_question_is_answered_by_yes_alone(
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    is_yes: bool,  # noqa: FBT001 - a column of the table
) -> None:
    terminal = at_terminal(monkeypatch)
    typed = Terminal()
    typed.kept.write(answer.encode())
    typed.kept.seek(0)
    monkeypatch.setattr(sys, "stdin", typed)
    assert Printer().confirm("Cancel 3 job(s)?") is is_yes
    assert "Cancel 3 job(s)? [y/N]" in terminal.text


def test_without_a_terminal_there_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError) as caught:
        Printer().confirm("Cancel 3 job(s)?")
    assert "--yes" in (caught.value.hint or "")


def test_an_interruption_is_told_to_people_as_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    Printer().error(dict(INTERRUPTED))
    assert capsys.readouterr().err == "interrupted\n"
