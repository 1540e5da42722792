"""A Python that loaded Scrapy before there was an egg finds exactly what one finds that begins with the egg."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.scrapy_projects import spider, write_project
from support.waiting import wait_until

from toolkit.model.errors import EggError
from toolkit.rollout import preflight as preflight_module
from toolkit.rollout.ahead import scrapy_loading_ahead
from toolkit.rollout.egg import build_egg
from toolkit.rollout.preflight import Preflight, list_spiders

HERE = Path(sys.executable)
PLAIN = {name: text for name, text in os.environ.items() if name != "VIRTUAL_ENV"}


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[psutil.Process]:
    """Give the process that loads Scrapy ahead; a trial that starts another one fails."""
    known = _children()
    with scrapy_loading_ahead(PLAIN):
        (waiting,) = _children() - known
        with monkeypatch.context() as patch:
            patch.setattr(preflight_module.Preflight, "_new", _must_not_start)
            yield waiting


@pytest.mark.usefixtures("ahead")
def test_the_spiders_are_the_same(tmp_path: Path) -> None:
    project = write_project(tmp_path, {"shop/spiders/a.py": spider("zebra"), "shop/spiders/z.py": spider("äpfel")})
    assert list_spiders(build_egg(project)) == ("books", "zebra", "äpfel")


@pytest.mark.usefixtures("ahead")
def test_a_broken_import_is_named_in_the_same_words(tmp_path: Path) -> None:
    project = write_project(tmp_path, {"shop/spiders/a.py": "import nothing_like_it\n"})
    with pytest.raises(EggError, match=r"shop/spiders/a\.py, line 1: ModuleNotFoundError: No module named 'nothing_l"):
        list_spiders(build_egg(project), root=project.root)


@pytest.mark.usefixtures("ahead")
def test_a_spider_that_hangs_is_ended_at_its_time_limit(tmp_path: Path) -> None:
    project = write_project(tmp_path, {"shop/spiders/a.py": "import time\n\ntime.sleep(60)\n"})
    with pytest.raises(EggError, match=r"did not end within 10 s; it was at shop/spiders/a\.py, line 3"):
        list_spiders(build_egg(project), root=project.root, timeout_s=10)


@pytest.mark.usefixtures("ahead")
def test_the_egg_is_tried_in_an_empty_folder_without_input(tmp_path: Path) -> None:
    source = "import os, sys\n\nassert not os.listdir()\nassert not sys.stdin.read()\n" + spider("a")
    assert list_spiders(build_egg(write_project(tmp_path, {"shop/spiders/a.py": source}))) == ("a", "books")


@pytest.mark.usefixtures("ahead")
def test_a_module_of_the_egg_comes_before_one_of_that_name_which_was_loaded(tmp_path: Path) -> None:
    # Scrapy loads the standard library's pty, and needs nothing of it here.
    files = {
        "pty/__init__.py": 'MINE = "mine"\n',
        "shop/spiders/a.py": f"import pty\n\n{spider('x')}\nassert pty.MINE\n",
    }
    assert list_spiders(build_egg(write_project(tmp_path, files))) == ("books", "x")


def test_another_python_than_the_foreseen_one_is_started_anew(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path))
    with scrapy_loading_ahead({**PLAIN, "VIRTUAL_ENV": str(tmp_path / "gone")}), Preflight(egg, python=HERE) as begun:
        assert begun.spiders() == ("books",)


def test_one_that_died_meanwhile_is_replaced(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path))
    known = _children()
    with scrapy_loading_ahead(PLAIN):
        (waiting,) = _children() - known
        waiting.kill()
        wait_until(lambda: waiting.status() == psutil.STATUS_ZOMBIE, deadline_s=60, what="its end")
        assert list_spiders(egg) == ("books",)


def test_nothing_is_left_of_one_that_was_not_needed() -> None:
    known = _children()
    with scrapy_loading_ahead(PLAIN):
        (waiting,) = _children() - known
    assert not waiting.is_running()


def test_it_ends_by_itself_when_its_starter_is_gone(tmp_path: Path) -> None:
    source = "import os\nfrom toolkit.rollout.ahead import scrapy_loading_ahead\nwith scrapy_loading_ahead({}):\n"
    source += "    import psutil\n    print(psutil.Process().children()[0].pid, flush=True)\n    os._exit(0)\n"
    done = subprocess.run([HERE, "-c", source], check=True, capture_output=True, text=True, cwd=tmp_path)
    wait_until(lambda: not psutil.pid_exists(int(done.stdout)), deadline_s=60, what="the end of the process")


def _children() -> set[psutil.Process]:
    return set(psutil.Process(os.getpid()).children())


def _must_not_start(*_: object) -> None:
    raise AssertionError("the process that waits was not used")
