"""What of a project's folder is source: junk, secrets and links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.require import require
from support.scrapy_projects import write_files

from toolkit.model.errors import EggError
from toolkit.rollout.tree import copy_tree, read_file, read_packages, top_level_packages


def packed(root: Path) -> set[str]:
    files, _ = read_packages(root, ["shop"])
    return set(files)


@pytest.mark.parametrize(
    "name",
    [
        "shop/__pycache__/x.cpython-311.pyc",
        "shop/old.pyc",
        "shop/.hidden",
        "shop/.git/config",
        "shop/.scrapy/httpcache/x",
        "shop/settings.py~",
        "shop/#settings.py#",
        "shop/.settings.py.swp",
        "shop/shop.egg-info/PKG-INFO",
        "shop/.DS_Store",
    ],
)
def test_junk_is_never_packed(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {"shop/__init__.py": "", name: "x"})
    assert packed(tmp_path) == {"shop/__init__.py"}


def test_a_virtual_environment_is_never_packed_whatever_its_name(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/__init__.py": "", "shop/env/pyvenv.cfg": "", "shop/env/lib/x.py": ""})
    assert packed(tmp_path) == {"shop/__init__.py"}


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "prod.env", "a.pem", "id_rsa", "id_ed25519.bak2", ".netrc", "my-Credentials.json"]
)
def test_files_that_look_like_secrets_are_left_out_and_named(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {"shop/__init__.py": "", f"shop/{name}": "x"})
    files, left_out = read_packages(tmp_path, ["shop"])
    assert set(files) == {"shop/__init__.py"}
    assert left_out == (f"shop/{name}",)


def test_only_folders_with_init_are_packages(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/__init__.py": "", "docs/conf.py": "", "a.b/__init__.py": "", ".venv/__init__.py": ""})
    assert top_level_packages(tmp_path) == ("shop",)


def test_links_inside_the_project_are_followed(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/__init__.py": "", "shared/a.txt": "A", "one.txt": "1"})
    (tmp_path / "shop/shared").symlink_to("../shared")
    (tmp_path / "shop/one.txt").symlink_to(tmp_path / "one.txt")
    files, _ = read_packages(tmp_path, ["shop"])
    assert files == {"shop/__init__.py": b"", "shop/shared/a.txt": b"A", "shop/one.txt": b"1"}


def test_a_link_that_leads_out_of_the_project_is_refused_and_named(tmp_path: Path) -> None:
    write_files(tmp_path, {"project/shop/__init__.py": "", "secret.txt": "x"})
    (tmp_path / "project/shop/data.txt").symlink_to("../../secret.txt")
    with pytest.raises(EggError, match=r"shop/data\.txt is a link that leads out of the project, to .*secret\.txt"):
        packed(tmp_path / "project")


def test_a_package_that_is_a_link_out_of_the_project_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"project/scrapy.cfg": "", "elsewhere/__init__.py": ""})
    (tmp_path / "project/shop").symlink_to("../elsewhere")
    with pytest.raises(EggError, match="shop is a link that leads out of the project"):
        top_level_packages(tmp_path / "project")


def test_a_link_that_leads_nowhere_is_refused_and_named(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/__init__.py": ""})
    (tmp_path / "shop/gone.txt").symlink_to("not there")
    with pytest.raises(EggError, match=r"shop/gone\.txt is a link that leads nowhere"):
        packed(tmp_path)


@pytest.mark.parametrize("target", [".", "..", "../shop"])
def test_a_link_to_a_folder_around_itself_is_refused(tmp_path: Path, target: str) -> None:
    write_files(tmp_path, {"shop/__init__.py": ""})
    (tmp_path / "shop/again").symlink_to(target)
    with pytest.raises(EggError, match="shop/again is a link to a folder around itself"):
        packed(tmp_path)


def test_links_that_lead_to_each_other_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/a/x.txt": "", "shop/b/x.txt": ""})
    (tmp_path / "shop/a/to_b").symlink_to("../b")
    (tmp_path / "shop/b/to_a").symlink_to("../a")
    with pytest.raises(EggError, match="is a link to a folder around itself"):
        packed(tmp_path)


def test_junk_and_secrets_may_be_links_to_anywhere(tmp_path: Path) -> None:
    write_files(tmp_path, {"project/shop/__init__.py": "", "venv/pyvenv.cfg": "", "real": "x"})
    (tmp_path / "project/shop/.venv").symlink_to("../../venv")
    (tmp_path / "project/shop/env").symlink_to("../../venv")
    (tmp_path / "project/shop/.env").symlink_to("../../real")
    files, left_out = read_packages(tmp_path / "project", ["shop"])
    assert set(files) == {"shop/__init__.py"}
    assert left_out == ("shop/.env",)


def test_a_link_does_not_smuggle_a_secret_in_under_another_name(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/__init__.py": "", ".env": "TOKEN=x"})
    (tmp_path / "shop/settings.txt").symlink_to("../.env")
    files, left_out = read_packages(tmp_path, ["shop"])
    assert set(files) == {"shop/__init__.py"}
    assert left_out == ("shop/settings.txt",)


def test_a_pipe_is_passed_over_instead_of_read_for_ever(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/__init__.py": ""})
    os.mkfifo(tmp_path / "shop/pipe")
    assert packed(tmp_path) == {"shop/__init__.py"}


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/__init__.py": ""})
    try:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/shop/gr\xfcn.txt"))).write_text("x")
    except OSError:
        require(condition=False, reason="a file system that takes names which are not UTF-8")
    with pytest.raises(EggError, match=r"gr.*cannot be packed: its name is not UTF-8"):
        packed(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, {"shop/__init__.py": ""})
    with pytest.raises(EggError, match=r"shop/x\.txt cannot be read: Is a directory"):
        read_file(tmp_path, name="shop/x.txt")


def test_a_copy_keeps_dot_files_but_neither_junk_nor_secrets(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_files(
        source,
        {
            ".gitignore": "x",
            ".git/HEAD": "x",
            ".env": "x",
            "build/old.py": "x",
            "shop/build/kept.py": "x",
            "shop/__init__.py": "",
        },
    )
    target.mkdir()
    assert copy_tree(source, target) == (".env",)
    copied = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert copied == {".gitignore", "shop/build/kept.py", "shop/__init__.py"}
