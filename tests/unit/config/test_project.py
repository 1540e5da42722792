"""What a `scrapy.cfg` says of its project."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.config.project import DeployTarget, ScrapyProject, find_project, read_targets
from toolkit.model.errors import ProjectError
from toolkit.model.hosts import Secret

SETTINGS = "[settings]\ndefault = shop.settings\n"


def project(folder: Path, text: str = SETTINGS) -> ScrapyProject:
    (folder / "scrapy.cfg").write_text(text, encoding="utf-8")
    return find_project(folder)


def test_the_closest_project_is_found_from_a_folder_inside(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = outer.settings\n")
    inner = tmp_path / "inner" / "shop" / "spiders"
    inner.mkdir(parents=True)
    (tmp_path / "inner" / "scrapy.cfg").write_text(SETTINGS)
    assert find_project(inner) == ScrapyProject(tmp_path / "inner", find_project(inner).name, "shop.settings")
    assert find_project(inner).name == "shop"
    assert find_project(tmp_path / "inner" / "scrapy.cfg").root == tmp_path / "inner"


def test_the_deploy_section_names_the_project(tmp_path: Path) -> None:
    assert project(tmp_path, f"{SETTINGS}[deploy]\nproject = other\n").name == "other"


def test_targets_inherit_from_the_plain_one_as_scrapyd_client_has_it(tmp_path: Path) -> None:
    text = f"""{SETTINGS}
[deploy]
url = http://one:6800/
project = shop
username = me
password = 100%sure
[deploy:two]
url = http://two:6800/
[deploy:three]
username = you
"""
    assert project(tmp_path, text).targets == (
        DeployTarget("default", "http://one:6800/", "shop", "me", password=Secret("100%sure")),
        DeployTarget("two", "http://two:6800/", "shop", "me", password=Secret("100%sure")),
        DeployTarget("three", "http://one:6800/", "shop", "you", password=Secret("100%sure")),
    )
    assert "sure" not in repr(find_project(tmp_path))


def test_a_url_may_name_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPYD_HOST", "three")
    project(tmp_path, f"{SETTINGS}[deploy]\nurl = http://$SCRAPYD_HOST:6800/\n")
    (target,) = read_targets(tmp_path / "scrapy.cfg")
    assert target.url == "http://three:6800/"


def test_a_setup_script_or_a_package_table_declares_a_build(tmp_path: Path) -> None:
    assert not project(tmp_path).declares_build
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert not find_project(tmp_path).declares_build
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'shop'\n")
    assert find_project(tmp_path).declares_build
    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / "setup.py").touch()
    assert find_project(tmp_path).declares_build


def test_without_a_project_the_hint_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        find_project(tmp_path)
    assert "scrapy startproject" in (caught.value.hint or "")
    with pytest.raises(ProjectError, match="does not exist"):
        find_project(tmp_path / "absent")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no settings module"),
        ("[settings]\nshop = shop.settings\n", "names no settings module"),
        ("[settings]\ndefault = ../x\n", "project '"),
        (f"{SETTINGS}[deploy]\nproject = a/b\n", "project 'a/b' cannot be used"),
        ("password = hunter2\n", "line 1 is wrong"),
        (f"{SETTINGS}{SETTINGS}", "line 3 is wrong (DuplicateSection)"),
        (f"{SETTINGS}hunter2\n", "line 3 is wrong (Parsing)"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_without_its_text(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ProjectError) as caught:
        project(tmp_path, text)
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_bytes(b"[settings]\ndefault = \xff\n")
    with pytest.raises(ProjectError, match="not UTF-8"):
        find_project(tmp_path)
    (tmp_path / "scrapy.cfg").write_text(SETTINGS)
    (tmp_path / "pyproject.toml").write_text("[project\n")
    with pytest.raises(ProjectError, match=r"pyproject\.toml cannot be read"):
        find_project(tmp_path)
