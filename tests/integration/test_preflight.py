"""An egg is tried in a clean process, and whatever is wrong with it is said with file, line and reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from support.scrapy_projects import spider, write_project
from support.waiting import wait_until

from toolkit.model.errors import EggError
from toolkit.rollout.egg import build_egg
from toolkit.rollout.preflight import list_spiders, preflight


def failure_of(tmp_path: Path, files: dict[str, str], *, timeout_s: float = 30) -> EggError:
    project = write_project(tmp_path, files)
    with pytest.raises(EggError) as raised:
        list_spiders(build_egg(project), root=project.root, timeout_s=timeout_s)
    return raised.value


def test_the_spiders_are_listed_in_order(tmp_path: Path) -> None:
    project = write_project(tmp_path, {"shop/spiders/a.py": spider("zebra"), "shop/spiders/z.py": spider("äpfel")})
    assert preflight(tmp_path, build_egg(project), environ={}) == ("books", "zebra", "äpfel")


def test_nothing_of_the_caller_reaches_the_egg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    write_project(elsewhere, {"shop/spiders/books.py": spider("from elsewhere")})
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "no.such.settings")
    monkeypatch.chdir(elsewhere)
    assert list_spiders(build_egg(write_project(tmp_path / "project"))) == ("books",)


def test_modules_of_crawlctl_do_not_hide_those_of_the_project(tmp_path: Path) -> None:
    files = {"tree/__init__.py": "LEAVES = 3\n", "shop/spiders/t.py": "from tree import LEAVES\n" + spider("t")}
    assert list_spiders(build_egg(write_project(tmp_path, files))) == ("books", "t")


def test_a_broken_import_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/broken.py": "import scrapy\n\nimport nope\n"})
    first, *lines = error.message.splitlines()
    assert first.endswith("shop/spiders/broken.py, line 3: ModuleNotFoundError: No module named 'nope'")
    assert lines[-1] == "  ModuleNotFoundError: No module named 'nope'"
    assert "project.egg" not in error.message
    assert error.hint is not None
    assert "install nope on the nodes" in error.hint


def test_a_syntax_error_is_named_with_its_own_line(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/broken.py": "import scrapy\n\ndef f(:\n"})
    assert "shop/spiders/broken.py, line 3: SyntaxError" in error.message


def test_settings_that_raise_are_named(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/settings.py": "import os\nTOKEN = os.environ['NOT_SET_ANYWHERE']\n"})
    assert "shop/settings.py, line 2: KeyError: 'NOT_SET_ANYWHERE'" in error.message


def test_a_spider_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/settings.py": "SPIDER_MODULES = ['shop.spyders']\n"})
    assert "ModuleNotFoundError: No module named 'shop.spyders'" in error.message


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ({"tricks.py": ""}, "tricks.py lies beside scrapy.cfg"),
        ({"tricks/more.py": ""}, "the folder tricks has no __init__.py"),
    ],
)
def test_a_module_that_was_not_packed_is_explained(tmp_path: Path, files: dict[str, str], hint: str) -> None:
    error = failure_of(tmp_path, {"shop/spiders/a.py": "import tricks\n", **files})
    assert error.hint is not None
    assert hint in error.hint


def test_a_file_opened_beside_a_module_is_explained(tmp_path: Path) -> None:
    source = "import pathlib\nDATA = (pathlib.Path(__file__).parent / 'data.txt').read_text()\n"
    error = failure_of(tmp_path, {"shop/spiders/a.py": source, "shop/spiders/data.txt": "x"})
    assert "shop/spiders/a.py, line 2: NotADirectoryError" in error.message
    assert error.hint is not None
    assert "pkgutil.get_data" in error.hint


def test_a_module_that_exits_is_named(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/a.py": "import sys\nsys.exit(3)\n"})
    assert "shop/spiders/a.py, line 2: SystemExit: 3" in error.message
    assert error.hint is not None


def test_a_process_that_ends_without_a_word_is_reported_with_its_exit_code(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/a.py": "import os\nos._exit(7)\n"})
    assert "ended with exit code 7" in error.message


def test_a_process_that_is_killed_is_reported_with_its_signal(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/a.py": "import os\nos.kill(os.getpid(), 9)\n"})
    assert "was killed by signal 9" in error.message


def test_a_print_is_refused_because_scrapyd_would_take_it_for_a_spider(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/settings.py": "SPIDER_MODULES = ['shop.spiders']\nprint('loaded', 3)\n"})
    assert "shop/settings.py, line 2 prints 'loaded 3' to standard output" in error.message
    assert error.hint is not None


def test_a_print_past_python_is_noticed_too(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/a.py": "import os\nos.system('echo hello')\n" + spider("a")})
    assert "the project prints 'hello' to standard output" in error.message


def test_a_print_to_stderr_and_logging_are_allowed(tmp_path: Path) -> None:
    source = "import logging, sys\nprint('x', file=sys.stderr)\nlogging.warning('y')\n" + spider("a")
    assert list_spiders(build_egg(write_project(tmp_path, {"shop/spiders/a.py": source}))) == ("a", "books")


def test_two_spiders_of_one_name_are_named(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/again.py": spider("books", cls="Again")})
    assert "'books' is the name of shop.spiders.again.Again and shop.spiders.books.Books" in error.message


def test_an_egg_without_spiders_is_refused(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/books.py": ""})
    assert error.message == "the egg has no spiders; SPIDER_MODULES names shop.spiders"


def test_a_spider_name_of_two_lines_is_refused(tmp_path: Path) -> None:
    error = failure_of(tmp_path, {"shop/spiders/books.py": spider("one\ntwo")})
    assert "is not one line of text" in error.message


def test_an_import_that_never_ends_is_ended_and_its_line_is_named(tmp_path: Path) -> None:
    source = "import time\nwhile True:\n    time.sleep(1)\n"
    error = failure_of(tmp_path, {"shop/spiders/a.py": source}, timeout_s=10)
    assert "did not end within 10 s; it was at shop/spiders/a.py, line 3" in error.message


def test_an_import_that_blocks_signals_and_starts_children_is_ended_with_them(tmp_path: Path) -> None:
    pid_path = tmp_path / "pid"
    source = f"""
    import faulthandler, pathlib, signal, subprocess, time
    faulthandler.cancel_dump_traceback_later()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])
    pathlib.Path({str(pid_path)!r}).write_text(str(child.pid))
    time.sleep(600)
    """
    error = failure_of(tmp_path / "project", {"shop/spiders/a.py": textwrap.dedent(source)}, timeout_s=10)
    assert "did not end within 10 s" in error.message
    pid = int(pid_path.read_text())
    wait_until(lambda: is_gone(pid), deadline_s=60, what="the end of the spider module's child")


def test_ctrl_c_ends_the_process_that_imports_the_egg(tmp_path: Path) -> None:
    pid_path = tmp_path / "pid"
    source = (
        f"import os, pathlib, time\npathlib.Path({str(pid_path)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    write_project(tmp_path / "project", {"shop/spiders/a.py": source})
    script = (
        "from pathlib import Path\nfrom toolkit.config.project import find_project\n"
        "from toolkit.rollout.egg import build_egg\nfrom toolkit.rollout.preflight import list_spiders\n"
        f"list_spiders(build_egg(find_project(Path({str(tmp_path / 'project')!r}))))\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: pid_path.exists() and pid_path.read_text(), deadline_s=60, what="the egg's import")
        os.kill(caller.pid, signal.SIGINT)
        assert caller.wait(60) != 0
    finally:
        caller.kill()
        caller.wait()
    pid = int(pid_path.read_text())
    wait_until(lambda: is_gone(pid), deadline_s=60, what="the end of the process that imports the egg")


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EggError, match="/nowhere/python cannot be run: No such file"):
        list_spiders(build_egg(write_project(tmp_path)), python=Path("/nowhere/python"))


def test_a_python_without_scrapy_is_named(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(EggError, match="cannot import Scrapy") as raised:
        list_spiders(build_egg(write_project(tmp_path / "project")), python=bare)
    assert raised.value.hint


def test_a_project_that_asks_for_another_python_is_not_tried(tmp_path: Path) -> None:
    pyproject = '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.99"\n'
    project = write_project(tmp_path, {"pyproject.toml": pyproject})
    with pytest.raises(EggError, match=r"pyproject\.toml asks for Python >=3\.99, but the project would be tried with"):
        preflight(project.root, build_egg(project), environ={})


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
