"""An egg's bytes, what is read of a foreign one, and how one is written."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.scrapy_projects import write_files, write_project

from toolkit.model.errors import EggError
from toolkit.rollout.egg import Egg, build_egg, read_egg, write_egg

# The same on every machine and Python: a change here means that every project's digest changes with the next release.
DIGEST_OF_AN_ORDINARY_PROJECT = "8265ba62c7ccffd55bf6764db62312ec4c25748f82a96e41996c73156bad9aa3"


def names_in(egg: Egg) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(egg.content)) as archive:
        return archive.namelist()


def text_in(egg: Egg, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(egg.content)) as archive:
        return archive.read(name).decode()


def zip_at(path: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_an_ordinary_project_has_the_same_digest_on_every_machine(tmp_path: Path) -> None:
    project = write_project(tmp_path, {"shop/größen.txt": "€", "shop/plain/no_init.py": "X = 1\n"})
    assert build_egg(project).digest == DIGEST_OF_AN_ORDINARY_PROJECT


def test_the_egg_of_an_ordinary_project_says_how_it_was_made(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path))
    assert (egg.builder, egg.settings_module, egg.files, egg.left_out) == ("direct", "shop.settings", 4, ())


def test_members_are_sorted_stored_and_dated_alike(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path))
    with zipfile.ZipFile(io.BytesIO(egg.content)) as archive:
        members = archive.infolist()
    assert [member.filename for member in members] == sorted(member.filename for member in members)
    assert {member.compress_type for member in members} == {zipfile.ZIP_STORED}
    assert {member.date_time for member in members} == {(1980, 1, 1, 0, 0, 0)}
    assert {member.external_attr >> 16 for member in members} == {0o100644}


def test_the_settings_module_becomes_the_entry_point(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path))
    assert text_in(egg, "EGG-INFO/entry_points.txt") == "[scrapy]\nsettings = shop.settings\n"
    assert text_in(egg, "EGG-INFO/top_level.txt") == "shop\n"


def test_package_data_and_further_packages_are_packed(tmp_path: Path) -> None:
    project = write_project(
        tmp_path,
        {"shop/data/cities.json": "[]", "shop/spiders/sub/deep.txt": "x", "tools/__init__.py": "", "tools/x.py": ""},
    )
    assert {"shop/data/cities.json", "shop/spiders/sub/deep.txt", "tools/x.py"} <= set(names_in(build_egg(project)))


def test_what_lies_beside_the_packages_is_not_packed(tmp_path: Path) -> None:
    files = {"README.md": "", "run.py": "", "docs/conf.py": "", "build/shop/__init__.py": "", "dist/__init__.py": ""}
    names = names_in(build_egg(write_project(tmp_path, files)))
    assert {name.partition("/")[0] for name in names} == {"shop", "EGG-INFO"}


def test_a_settings_module_of_one_file_is_packed(tmp_path: Path) -> None:
    files = {"scrapy.cfg": "[settings]\ndefault = settings\n", "settings.py": "SPIDER_MODULES = ['shop.spiders']\n"}
    egg = build_egg(write_project(tmp_path, files))
    assert "settings.py" in names_in(egg)
    assert text_in(egg, "EGG-INFO/top_level.txt") == "settings\nshop\n"


def test_a_folder_of_modules_without_init_gets_an_entry_so_that_python_finds_it(tmp_path: Path) -> None:
    assert "shop/plain/" in names_in(build_egg(write_project(tmp_path, {"shop/plain/deep/module.py": ""})))


def test_a_missing_settings_module_is_named(tmp_path: Path) -> None:
    project = write_project(tmp_path, {"scrapy.cfg": "[settings]\ndefault = shop.options\n"})
    with pytest.raises(EggError, match=r"shop\.options, but there is no shop/options\.py"):
        build_egg(project)


def test_building_leaves_the_tree_as_it_was(tmp_path: Path) -> None:
    project = write_project(tmp_path)

    def state() -> dict[Path, tuple[int, int, int]]:
        return {
            path: (stat.st_mtime_ns, stat.st_mode, stat.st_size)
            for path in [tmp_path, *tmp_path.rglob("*")]
            for stat in [path.stat()]
        }

    before = state()
    build_egg(project)
    assert state() == before


def test_an_egg_reads_back_as_it_was_written(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path / "project"))
    write_egg(egg, tmp_path / "shop.egg")
    read = read_egg(tmp_path / "shop.egg")
    assert (read.content, read.digest, read.settings_module) == (egg.content, egg.digest, egg.settings_module)
    assert (read.builder, read.files) == ("file", egg.files)


def test_writing_takes_the_place_of_a_former_egg_and_leaves_nothing_else(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path / "project"))
    out = tmp_path / "out"
    out.mkdir()
    (out / "shop.egg").write_bytes(b"former")
    write_egg(egg, out / "shop.egg")
    assert (out / "shop.egg").read_bytes() == egg.content
    assert os.listdir(out) == ["shop.egg"]  # noqa: PTH208 - the names are what is looked at


def test_a_folder_that_is_not_there_is_named_when_writing(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path))
    with pytest.raises(EggError, match=r"cannot be written to .*nowhere.*No such file"):
        write_egg(egg, tmp_path / "nowhere" / "shop.egg")


def test_a_file_that_is_no_zip_is_no_egg(tmp_path: Path) -> None:
    (tmp_path / "shop.egg").write_text("<html>not found</html>")
    with pytest.raises(EggError, match=r"shop\.egg is not an egg: file is not a zip file"):
        read_egg(tmp_path / "shop.egg")


def test_an_egg_cut_off_in_transfer_is_refused(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path / "project"))
    (tmp_path / "half.egg").write_bytes(egg.content[: len(egg.content) // 2])
    with pytest.raises(EggError, match="is not an egg"):
        read_egg(tmp_path / "half.egg")


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path / "project"))
    (tmp_path / "bad.egg").write_bytes(egg.content.replace(b"SPIDER_MODULES", b"SPIDER_MODULE5", 1))
    with pytest.raises(EggError, match=r"bad\.egg is not whole: shop/settings\.py"):
        read_egg(tmp_path / "bad.egg")


def test_a_zip_without_egg_info_is_no_egg(tmp_path: Path) -> None:
    with pytest.raises(EggError, match=r"no EGG-INFO/PKG-INFO") as raised:
        read_egg(zip_at(tmp_path / "shop.zip", {"shop/__init__.py": ""}))
    assert raised.value.hint


def test_an_egg_without_scrapy_settings_is_refused(tmp_path: Path) -> None:
    files = {"EGG-INFO/PKG-INFO": "Name: x\n", "EGG-INFO/entry_points.txt": "[console_scripts]\nx = x:main\n"}
    with pytest.raises(EggError, match=r"no \[scrapy\] settings entry point"):
        read_egg(zip_at(tmp_path / "shop.egg", files))


def test_entry_points_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    files = {"EGG-INFO/PKG-INFO": "Name: x\n", "EGG-INFO/entry_points.txt": "no section\n"}
    with pytest.raises(EggError, match=r"the entry points of .* cannot be read"):
        read_egg(zip_at(tmp_path / "shop.egg", files))


def test_an_egg_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EggError, match=r"none\.egg cannot be read: No such file"):
        read_egg(tmp_path / "none.egg")


def test_secrets_are_left_out_and_named(tmp_path: Path) -> None:
    files = {"shop/.env": "TOKEN=x", "shop/tls/site.KEY": "x", "shop/credentials.py": "USER = None\n", ".env": "x"}
    egg = build_egg(write_project(tmp_path, files))
    assert egg.left_out == ("shop/.env", "shop/tls/site.KEY")
    assert "shop/credentials.py" in names_in(egg)


def test_what_scrapyd_deploy_left_behind_does_not_change_the_egg(tmp_path: Path) -> None:
    plain = build_egg(write_project(tmp_path))
    setup_py = (
        "from setuptools import setup, find_packages\n"
        "setup(name='project', version='1.0', packages=find_packages(),\n"
        "      entry_points={'scrapy': ['settings = shop.settings']})\n"
    )
    write_files(tmp_path, {"setup.py": setup_py, "project.egg-info/PKG-INFO": "x", "build/lib/shop/__init__.py": ""})
    assert build_egg(write_project(tmp_path)) == plain


def test_a_package_of_the_plug_ins_name_is_refused_in_a_project_and_in_an_egg(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", {"toolkit/__init__.py": ""})
    with pytest.raises(EggError, match="brings a top-level package 'toolkit'"):
        build_egg(project)
    info = {"EGG-INFO/PKG-INFO": "", "EGG-INFO/entry_points.txt": "[scrapy]\nsettings = toolkit.settings\n"}
    with pytest.raises(EggError, match="brings a top-level package 'toolkit'") as caught:
        read_egg(zip_at(tmp_path / "shop.egg", {**info, "toolkit.py": ""}))
    assert caught.value.hint is not None
    assert "rename" in caught.value.hint
