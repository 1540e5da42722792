"""Eggs of every build style, run by the real Scrapyd's own runner, and never built inside the user's tree."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.require import require
from support.scrapy_projects import spider, write_files, write_project

from toolkit.config.project import ScrapyProject
from toolkit.model.errors import EggError
from toolkit.rollout.egg import Egg, build_egg, write_egg

SETUP_PY = """
from setuptools import find_packages, setup
setup(
    name="shop", version="2.3", packages=find_packages("{where}"), package_dir={{"": "{where}"}},
    package_data={{"shop": ["data/*.json"]}},
    entry_points={{"scrapy": ["settings = shop.settings"], "console_scripts": ["Zed = shop:main", "abc = shop:main"]}},
)
"""
PYPROJECT = '[build-system]\nrequires = [{requires!r}]\nbuild-backend = "{back_end}"\n[project]\nname = "shop"\n'
PYPROJECT += 'version = "1.2"\ndescription = "x"\n'
READS_DATA = """
import json
import pkgutil
import scrapy

CITIES = json.loads(pkgutil.get_data("shop", "data/cities.json"))


class Cities(scrapy.Spider):
    name = "cities-" + CITIES[0]
"""
NODE_TIMEOUT_S = 60


def spiders_on_a_node(egg: Egg, folder: Path) -> list[str]:
    """List the egg's spiders as a node does when it gets the egg."""
    store = folder / "eggs" / "shop"
    store.mkdir(parents=True)
    write_egg(egg, store / "r1.egg")
    (folder / "scrapyd.conf").write_text(f"[scrapyd]\neggs_dir = {folder / 'eggs'}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SCRAPY"))}
    done = subprocess.run(
        [sys.executable, "-m", "scrapyd.runner", "list", "-s", "LOG_STDOUT=0"],
        cwd=folder,
        env={**kept, "SCRAPY_PROJECT": "shop", "SCRAPYD_EGG_VERSION": "r1", "PYTHONIOENCODING": "UTF-8"},
        capture_output=True,
        check=False,
        timeout=NODE_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def state_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything that writing to a tree would change."""
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.stat().st_mode, _content(path))
        for path in [root, *root.rglob("*")]
    }


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def members(egg: Egg) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(egg.content)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def build_twice(project: ScrapyProject) -> Egg:
    """Build, and see that the tree stays untouched and that the bytes are the same again."""
    before = state_of(project.root)
    egg = build_egg(project)
    assert build_egg(project).digest == egg.digest
    assert state_of(project.root) == before
    return egg


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


def test_a_node_runs_the_egg_of_an_ordinary_project(tmp_path: Path, node: Path) -> None:
    egg = build_twice(write_project(tmp_path, {"shop/spiders/films.py": spider("films")}))
    assert egg.builder == "direct"
    assert spiders_on_a_node(egg, node) == ["books", "films"]


def test_a_node_reads_package_data_from_the_egg(tmp_path: Path, node: Path) -> None:
    files = {"shop/data/cities.json": '["Köln"]', "shop/spiders/cities.py": READS_DATA}
    assert spiders_on_a_node(build_twice(write_project(tmp_path, files)), node) == ["books", "cities-Köln"]


def test_a_node_runs_a_project_whose_names_are_not_ascii(tmp_path: Path, node: Path) -> None:
    files = {"bücher/spiders/fußball.py": spider("fußball"), "bücher/данные.txt": "€"}
    files["scrapy.cfg"] = "[settings]\ndefault = bücher.settings\n[deploy]\nproject = shop\n"
    egg = build_twice(write_project(tmp_path, files, package="bücher"))
    assert egg.settings_module == "bücher.settings"
    assert spiders_on_a_node(egg, node) == ["books", "fußball"]


def test_a_node_finds_packages_without_init_in_the_egg(tmp_path: Path, node: Path) -> None:
    project = write_project(tmp_path, {"shop/spiders/uses.py": "import shop.plain.deep.prices\n" + spider("uses")})
    (tmp_path / "shop/__init__.py").unlink()
    write_files(tmp_path, {"shop/plain/deep/prices.py": ""})
    assert spiders_on_a_node(build_twice(project), node) == ["books", "uses"]


def test_a_setup_py_decides_what_is_packed(tmp_path: Path, node: Path) -> None:
    files = {
        "setup.py": SETUP_PY.format(where="."),
        "shop/data/cities.json": '["Köln"]',
        "shop/data/notes.txt": "not asked for",
        "shop/spiders/cities.py": READS_DATA,
        "build/lib/shop/spiders/stale.py": spider("stale"),
        "shop/.env": "TOKEN=x",
    }
    egg = build_twice(write_project(tmp_path, files))
    packed = members(egg)
    assert (egg.builder, egg.left_out) == ("scrapyd-client", ("shop/.env",))
    assert "shop/data/cities.json" in packed
    assert "shop/data/notes.txt" not in packed
    assert packed["EGG-INFO/entry_points.txt"] == (
        "[console_scripts]\nZed = shop:main\nabc = shop:main\n\n[scrapy]\nsettings = shop.settings\n"
    )
    assert spiders_on_a_node(egg, node) == ["books", "cities-Köln"]


def test_a_built_egg_holds_no_byte_code_no_local_path_and_no_time(tmp_path: Path) -> None:
    egg = build_egg(write_project(tmp_path, {"setup.py": SETUP_PY.format(where=".")}))
    names = members(egg)
    assert sorted(name for name in names if name.startswith("EGG-INFO/")) == [
        "EGG-INFO/PKG-INFO",
        "EGG-INFO/entry_points.txt",
        "EGG-INFO/top_level.txt",
        "EGG-INFO/zip-safe",
    ]
    assert not [name for name in names if name.endswith(".pyc")]
    assert str(tmp_path).encode() not in egg.content


def test_the_same_project_elsewhere_gives_the_same_egg(tmp_path: Path) -> None:
    files = {"setup.py": SETUP_PY.format(where=".")}
    here, there = (write_project(tmp_path / name, files) for name in ("here", "there"))
    assert build_egg(here).digest == build_egg(there).digest


def test_a_src_layout_is_built(tmp_path: Path, node: Path) -> None:
    egg = build_twice(write_project(tmp_path, {"setup.py": SETUP_PY.format(where="src")}, base="src/"))
    assert egg.builder == "scrapyd-client"
    assert spiders_on_a_node(egg, node) == ["books"]


def test_a_src_layout_without_packaging_of_its_own_is_packed_directly(tmp_path: Path, node: Path) -> None:
    egg = build_twice(write_project(tmp_path, base="src/"))
    assert egg.builder == "direct"
    assert spiders_on_a_node(egg, node) == ["books"]


@pytest.mark.parametrize("extra", [{}, {"shop_tools/__init__.py": ""}], ids=["one package", "two packages"])
def test_a_pyproject_with_setuptools_is_built(tmp_path: Path, node: Path, extra: Mapping[str, str]) -> None:
    pyproject = PYPROJECT.format(requires="setuptools>=61", back_end="setuptools.build_meta")
    egg = build_twice(write_project(tmp_path, {"pyproject.toml": pyproject, **extra}))
    assert egg.builder == "scrapyd-client"
    assert extra.keys() <= members(egg).keys()
    assert spiders_on_a_node(egg, node) == ["books"]


def test_a_setup_cfg_is_built(tmp_path: Path, node: Path) -> None:
    setup_cfg = "[metadata]\nname = shop\nversion = 3\n[options]\npackages = find:\n"
    egg = build_twice(write_project(tmp_path, {"setup.cfg": setup_cfg}))
    assert "Version: 3\n" in members(egg)["EGG-INFO/PKG-INFO"]
    assert spiders_on_a_node(egg, node) == ["books"]


@pytest.mark.parametrize(
    ("requires", "back_end"),
    [("hatchling", "hatchling.build"), ("flit_core>=3.11", "flit_core.buildapi")],
)
def test_another_back_end_is_fetched_and_used(
    tmp_path: Path, node: Path, requires: str, back_end: str, package_index: None
) -> None:
    del package_index
    pyproject = PYPROJECT.format(requires=requires, back_end=back_end)
    egg = build_twice(write_project(tmp_path, {"pyproject.toml": pyproject}))
    assert egg.builder == back_end.partition(".")[0]
    assert spiders_on_a_node(egg, node) == ["books"]


@pytest.fixture(scope="module")
def package_index(tmp_path_factory: pytest.TempPathFactory) -> None:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(target), "flit_core"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        is_there = done.returncode == 0
    except subprocess.TimeoutExpired:
        is_there = False
    require(is_there, "a package index that pip can reach")


def test_a_back_end_that_cannot_be_had_is_reported_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    pyproject = PYPROJECT.format(requires="hatchling", back_end="hatchling.build")
    with pytest.raises(EggError, match=r"cannot be built with hatchling:\n(.*\n)*.*No matching distribution") as raised:
        build_egg(write_project(tmp_path, {"pyproject.toml": pyproject}))
    assert raised.value.hint == (
        "the build needs a package index; without one, install hatchling beside crawlctl and build again"
    )


def test_a_back_end_that_lies_in_the_project_needs_no_index(
    tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    pyproject = '[build-system]\nrequires = []\nbuild-backend = "own_back_end"\nbackend-path = ["tools"]\n[project]\n'
    back_end = (
        "import os, zipfile\n"
        "def build_wheel(folder, config_settings=None, metadata_directory=None):\n"
        "    with zipfile.ZipFile(os.path.join(folder, 'shop-1-py3-none-any.whl'), 'w') as wheel:\n"
        "        for at, _, names in os.walk('shop'):\n"
        "            for name in names:\n"
        "                wheel.write(os.path.join(at, name))\n"
        "        wheel.writestr('shop-1.data/purelib/extra.py', '')\n"
        "        wheel.writestr('shop-1.data/scripts/run', '')\n"
        "        wheel.writestr('shop-1.dist-info/METADATA', 'Name: shop\\nVersion: 1\\n')\n"
        "    return 'shop-1-py3-none-any.whl'\n"
    )
    files = {"pyproject.toml": pyproject + 'name = "shop"\nversion = "1"\n', "tools/own_back_end.py": back_end}
    egg = build_twice(write_project(tmp_path, files))
    assert egg.builder == "own_back_end"
    assert "extra.py" in members(egg)
    assert not [name for name in members(egg) if ".data/" in name or "dist-info" in name]
    assert spiders_on_a_node(egg, node) == ["books"]


def test_a_setup_py_that_fails_is_reported_with_its_own_last_lines(tmp_path: Path) -> None:
    project = write_project(tmp_path, {"setup.py": "raise RuntimeError('no licence key')\n"})
    with pytest.raises(EggError, match=r"its setup\.py failed:\n(.*\n)*  RuntimeError: no licence key$") as raised:
        build_egg(project)
    assert "scrapyd_client" not in raised.value.message


def test_a_build_that_packs_no_settings_module_is_reported(tmp_path: Path) -> None:
    setup_py = "from setuptools import setup\nsetup(name='shop', packages=['shop.spiders'])\n"
    with pytest.raises(EggError, match=r"scrapyd-client packed \d+ files, but not shop/settings\.py"):
        build_egg(write_project(tmp_path, {"setup.py": setup_py}))


def test_a_compiled_module_is_refused_because_python_cannot_import_it_from_an_egg(tmp_path: Path) -> None:
    setup_py = "from setuptools import setup\nsetup(name='shop', packages=['shop'], package_data={'shop': ['*.so']})\n"
    with pytest.raises(EggError, match=r"shop/fast\.cpython-311\.so is compiled"):
        build_egg(write_project(tmp_path, {"setup.py": setup_py, "shop/fast.cpython-311.so": b"\x7fELF"}))


def test_what_scrapyd_deploy_leaves_behind_does_not_change_the_egg(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", {"shop/data/cities.json": "[]"})
    before = build_egg(project)
    subprocess.run(
        [sys.executable, "-m", "scrapyd_client.deploy", "--build-egg", str(tmp_path / "stock.egg")],
        cwd=project.root,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert (project.root / "setup.py").exists()
    assert build_egg(project) == before
    with zipfile.ZipFile(tmp_path / "stock.egg") as stock:
        modules = {name for name in stock.namelist() if name.endswith(".py")}
    assert modules <= members(before).keys()
