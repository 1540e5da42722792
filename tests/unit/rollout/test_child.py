"""A child process is run to its end, or ended with all that it started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from toolkit.rollout.child import clean_environ, run_child


def run(source: str, *, timeout_s: float = 60) -> tuple[int | None, str, str]:
    done = run_child([sys.executable, "-c", source], cwd=Path("/"), env=os.environ, timeout_s=timeout_s)
    return done.code, done.stdout, done.stderr


def test_output_and_exit_code_are_returned() -> None:
    assert run("import sys; print('a'); print('b', file=sys.stderr); sys.exit(4)") == (4, "a\n", "b\n")


def test_more_output_than_a_pipe_holds_does_not_stop_it() -> None:
    code, out, _ = run("print('x' * 1_000_000)")
    assert (code, len(out)) == (0, 1_000_001)


def test_there_is_no_input_to_wait_for() -> None:
    assert run("import sys; print(repr(sys.stdin.read()))") == (0, "''\n", "")


def test_a_grandchild_that_keeps_the_output_open_is_not_waited_for() -> None:
    started = time.monotonic()
    code, out, _ = run("import subprocess; print(subprocess.Popen(['sleep', '60']).pid)")
    assert code == 0
    assert time.monotonic() - started < 30
    os.kill(int(out), 9)


def test_at_the_time_limit_it_has_no_exit_code_and_what_it_said_is_kept() -> None:
    # A shell, since a busy machine needs seconds to start a Python.
    done = run_child(["sh", "-c", "echo so far; exec sleep 60"], cwd=Path("/"), env=os.environ, timeout_s=3)
    assert (done.code, done.stdout) == (None, "so far\n")


def test_a_program_that_is_not_there_raises() -> None:
    with pytest.raises(FileNotFoundError):
        run_child(["/nowhere"], cwd=Path("/"), env={}, timeout_s=1)


def test_variables_that_bend_python_or_scrapy_are_dropped() -> None:
    environ = {"PYTHONPATH": "x", "PYTHONUTF8": "1", "SCRAPY_PROJECT": "x", "SCRAPYD_USERNAME": "u", "PATH": "p"}
    assert clean_environ(environ) == {"SCRAPYD_USERNAME": "u", "PATH": "p"}
