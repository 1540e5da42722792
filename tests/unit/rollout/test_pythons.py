"""Which Python tries a project, and which Pythons Scrapyd can stand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.scrapy_projects import write_files

from toolkit.model.errors import EggError
from toolkit.rollout.pythons import check_node_environment, check_python, choose_python

HERE = Path(sys.executable)


def pretend_python(path: Path, *, version: str = "[3, 12, 1]", setuptools: str = '"80.9.0"', code: int = 0) -> Path:
    """Write a program that answers what it is asked as such a Python would; `code` tells whether it has Scrapy."""
    write_files(
        path.parent,
        {
            path.name: f"""#!/bin/sh
case "$2" in *find_spec*) exit {code};; esac
echo '{{"python": {version}, "setuptools": {setuptools}}}'
"""
        },
    )
    path.chmod(0o755)
    return path


def test_the_active_virtual_environment_comes_first(tmp_path: Path) -> None:
    active = pretend_python(tmp_path / "active/bin/python")
    pretend_python(tmp_path / "project/.venv/bin/python")
    assert choose_python(tmp_path / "project", {"VIRTUAL_ENV": str(tmp_path / "active")}) == active


def test_the_projects_own_environment_comes_next(tmp_path: Path) -> None:
    own = pretend_python(tmp_path / ".venv/bin/python")
    assert choose_python(tmp_path, {}) == own


def test_an_environment_without_scrapy_is_passed_over(tmp_path: Path) -> None:
    pretend_python(tmp_path / "active/bin/python", code=1)
    own = pretend_python(tmp_path / ".venv/bin/python")
    assert choose_python(tmp_path, {"VIRTUAL_ENV": str(tmp_path / "active")}) == own


def test_an_environment_that_is_broken_is_passed_over(tmp_path: Path) -> None:
    write_files(tmp_path, {".venv/bin/python": "not a program"})
    assert choose_python(tmp_path, {"VIRTUAL_ENV": str(tmp_path / "gone")}) == HERE


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project]\nrequires-python = ">=3.8,<3.10"\n'),
        ("setup.cfg", "[options]\npython_requires = >=3.8,<3.10\n"),
    ],
)
def test_a_python_that_the_project_excludes_is_refused(tmp_path: Path, name: str, text: str) -> None:
    write_files(tmp_path, {name: text})
    with pytest.raises(EggError, match=rf"{name} asks for Python >=3\.8,<3\.10, but .* Python 3\."):
        check_python(tmp_path, HERE)


def test_a_python_that_the_project_asks_for_is_accepted(tmp_path: Path) -> None:
    write_files(tmp_path, {"pyproject.toml": '[project]\nrequires-python = ">=3.10"\n'})
    check_python(tmp_path, HERE)


def test_a_requirement_that_is_none_is_reported(tmp_path: Path) -> None:
    write_files(tmp_path, {"pyproject.toml": '[project]\nrequires-python = "three"\n'})
    with pytest.raises(EggError, match="'three', which is no version specifier"):
        check_python(tmp_path, HERE)


@pytest.mark.parametrize("version", ["[3, 9, 18]", "[3, 14, 0]"])
def test_a_python_that_scrapyd_does_not_run_on_is_named(tmp_path: Path, version: str) -> None:
    python = pretend_python(tmp_path / "python", version=version)
    with pytest.raises(EggError, match=r"Scrapyd 1\.6 runs on Python 3\.10 to 3\.13, not on Python 3\."):
        check_python(tmp_path, python)
    assert "not on Python 3." in (check_node_environment(python) or "")


@pytest.mark.parametrize("version", ["[3, 10, 0]", "[3, 13, 9]"])
def test_the_oldest_and_newest_python_are_accepted(tmp_path: Path, version: str) -> None:
    assert check_node_environment(pretend_python(tmp_path / "python", version=version)) is None


@pytest.mark.parametrize("setuptools", ['"82.0.0"', '"84.2.0"'])
def test_setuptools_without_pkg_resources_is_named_with_the_cure(tmp_path: Path, setuptools: str) -> None:
    words = check_node_environment(pretend_python(tmp_path / "python", setuptools=setuptools))
    assert words is not None
    assert "without the pkg_resources that Scrapyd 1.6 imports: pip install 'setuptools<81'" in words


def test_no_setuptools_at_all_is_named(tmp_path: Path) -> None:
    words = check_node_environment(pretend_python(tmp_path / "python", setuptools="null"))
    assert words is not None
    assert "has no setuptools" in words


def test_this_environment_can_be_a_node() -> None:
    assert check_node_environment(HERE) is None


def test_a_python_that_is_not_there_or_is_none_is_named(tmp_path: Path) -> None:
    assert "cannot be run: No such file" in (check_node_environment(tmp_path / "python") or "")
    write_files(tmp_path, {"python": "#!/bin/sh\necho oh no >&2\nexit 4\n"})
    (tmp_path / "python").chmod(0o755)
    assert "does not work as a Python:\n  oh no" in (check_node_environment(tmp_path / "python") or "")
