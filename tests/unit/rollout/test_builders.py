"""How a project is built is decided by its own files."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scrapy_projects import write_files, write_project

from toolkit.model.errors import EggError
from toolkit.rollout.builders import BuildStyle, Packaging, packaging_of

DIRECT = Packaging(BuildStyle.DIRECT)
SCRAPYD_CLIENT = Packaging(BuildStyle.SCRAPYD_CLIENT)
PROJECT = '[project]\nname = "shop"\nversion = "1"\n'
SETUPTOOLS = '[build-system]\nrequires = ["setuptools>=61", "wheel"]\nbuild-backend = "setuptools.build_meta"\n'
HATCHLING = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
POETRY = '[build-system]\nrequires = ["poetry-core"]\nbuild-backend = "poetry.core.masonry.api"\n[tool.poetry]\n'


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, DIRECT),
        ({"setup.cfg": "[flake8]\nmax-line-length = 100\n"}, DIRECT),
        ({"pyproject.toml": PROJECT}, DIRECT),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 100\n"}, DIRECT),
        ({"pyproject.toml": '[tool.poetry]\nname = "shop"\n'}, DIRECT),
        ({"pyproject.toml": POETRY + "package-mode = false\n"}, DIRECT),
        ({"pyproject.toml": HATCHLING + PROJECT + "[tool.uv]\npackage = false\n"}, DIRECT),
        ({"pyproject.toml": SETUPTOOLS}, DIRECT),
        ({"setup.py": "import setuptools\n"}, SCRAPYD_CLIENT),
        ({"setup.cfg": "[options]\npackages = find:\n"}, SCRAPYD_CLIENT),
        ({"pyproject.toml": PROJECT + "[tool.setuptools]\npackages = ['shop']\n"}, SCRAPYD_CLIENT),
        ({"pyproject.toml": SETUPTOOLS + PROJECT}, SCRAPYD_CLIENT),
        ({"pyproject.toml": '[build-system]\nrequires = ["setuptools"]\n' + PROJECT}, SCRAPYD_CLIENT),
        ({"pyproject.toml": HATCHLING + PROJECT, "setup.py": "import setuptools\n"}, SCRAPYD_CLIENT),
        ({"pyproject.toml": HATCHLING + PROJECT}, Packaging(BuildStyle.BACK_END, "hatchling")),
        ({"pyproject.toml": POETRY + 'name = "shop"\n'}, Packaging(BuildStyle.BACK_END, "poetry")),
        # As `poetry new` leaves a Scrapy project whose package is not named like it: nothing there can be packaged.
        ({"pyproject.toml": POETRY + 'name = "my-crawlers"\n'}, DIRECT),
        ({"pyproject.toml": HATCHLING + '[project]\nname = "my-crawlers"\n'}, DIRECT),
        (
            {"pyproject.toml": POETRY + 'name = "my-crawlers"\npackages = [{include = "shop"}]\n'},
            Packaging(BuildStyle.BACK_END, "poetry"),
        ),
        (
            {"pyproject.toml": HATCHLING + PROJECT, "src/shop/__init__.py": ""},
            Packaging(BuildStyle.BACK_END, "hatchling"),
        ),
        (
            {"pyproject.toml": SETUPTOOLS.replace('"wheel"', '"setuptools_scm[toml]>=8"') + PROJECT},
            Packaging(BuildStyle.BACK_END, "setuptools"),
        ),
    ],
)
def test_a_project_is_built_as_its_files_ask(tmp_path: Path, files: dict[str, str], expected: Packaging) -> None:
    project = write_project(tmp_path, files)
    assert packaging_of(tmp_path, settings_module=project.settings_module) == expected


def test_a_setup_py_that_was_edited_after_scrapyd_deploy_made_it_counts(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "setup.py": "from setuptools import setup, find_packages\n"
            "setup(name='project', version='1.0', packages=find_packages(), package_data={'shop': ['*.json']},\n"
            "      entry_points={'scrapy': ['settings = shop.settings']})\n"
        },
    )
    assert packaging_of(tmp_path, settings_module="shop.settings") == SCRAPYD_CLIENT


@pytest.mark.parametrize(("name", "text"), [("pyproject.toml", "[project\n"), ("setup.cfg", "options\n")])
def test_a_packaging_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str) -> None:
    write_files(tmp_path, {name: text})
    with pytest.raises(EggError, match=rf"{name} cannot be read: .*line"):
        packaging_of(tmp_path, settings_module="shop.settings")
