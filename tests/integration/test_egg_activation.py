"""An egg of any making is activated as by Scrapyd's own runner: same path, same settings, or the same refusal."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.eggs import egg_of
from support.processes import quiet_environment

ENTRY_POINTS = "EGG-INFO/entry_points.txt"
OURS = "from pathlib import Path\nfrom toolkit.node.activation import activate\nplain = activate(Path(egg))\n"
THEIRS = "from scrapyd.runner import activate_egg\nactivate_egg(egg)\n"
BOTH = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
egg, at_first = sys.argv[1], list(sys.path)
plain = None
{act}
module = os.environ.get("SCRAPY_SETTINGS_MODULE")
added = [path for path in sys.path if path not in at_first]
sys.path_importer_cache.clear()
found = __import__(module, fromlist=["x"]) if plain is not False and module else None
added = [path for path in added if not path.endswith("setuptools/_vendor")]  # of pkg_resources' own
is_last = bool(added) and sys.path[-1] == added[-1]
said = [plain, added, is_last, module, getattr(found, "__file__", None)]
sys.stdout.write(json.dumps(said))
"""
PLAIN = {"__init__.py": "", "settings.py": "BOT_NAME = 'small'\n"}
ODD_ENTRY_POINTS = {
    "an attribute": "[scrapy]\nsettings = small.settings:BOT_NAME\n",
    "an extra": "[scrapy]\nsettings = small.settings [more]\n",
    "a comment behind": "[scrapy]\nsettings = small.settings # ours\n",
    "spaces in the section": "[ scrapy ]\nsettings = small.settings\n",
    "more of them": "# ours\n\n[console_scripts]\na = b:c\n[scrapy]\nother = x\nsettings=small.settings\n",
    "a capital": "[scrapy]\nSettings = small.settings\n",
    "none": "[scrapy]\n",
    "no section": "settings = small.settings\n",
    "twice": "[scrapy]\nsettings = small.settings\nsettings = other.settings\n",
}
SETUP = """
from setuptools import setup, find_packages
setup(name="small project", version="1.0", packages=find_packages(), {more}
      entry_points={{"scrapy": ["settings = small.settings"]}})
"""


@pytest.mark.parametrize("text", ODD_ENTRY_POINTS.values(), ids=ODD_ENTRY_POINTS)
def test_entry_points_are_read_as_pkg_resources_reads_them_or_left_to_it(tmp_path: Path, text: str) -> None:
    egg = write(tmp_path, {ENTRY_POINTS: text})
    ours, theirs = activated(OURS, egg), activated(THEIRS, egg)
    assert ours is not None
    assert ours[0] is False or ours[1:] == (theirs or [])[1:]


def test_an_egg_as_we_build_it_is_activated_the_same_and_plainly(tmp_path: Path) -> None:
    assert_same_and_plain(write(tmp_path, {}))


def test_an_egg_behind_a_link_is_activated_where_it_really_lies(tmp_path: Path) -> None:
    egg = write(tmp_path, {})
    (tmp_path / "elsewhere").symlink_to(egg.parent)
    assert_same_and_plain(tmp_path / "elsewhere" / egg.name)


@pytest.mark.parametrize("more", ["", 'install_requires=["not-there-at-all"],', "zip_safe=False,"])
def test_an_egg_that_setuptools_built_is_activated_the_same_and_plainly(tmp_path: Path, more: str) -> None:
    assert_same_and_plain(built(tmp_path, more))


@pytest.mark.parametrize(
    "files",
    [{"EGG-INFO/namespace_packages.txt": "small\n"}, {"EGG-INFO/PKG-INFO": None}, {ENTRY_POINTS: None}],
    ids=["namespaces", "no PKG-INFO", "no entry points"],
)
def test_an_egg_that_is_not_plain_is_left_to_scrapyd(tmp_path: Path, files: Mapping[str, str | None]) -> None:
    ours = activated(OURS, write(tmp_path, files))
    assert ours is not None
    assert ours[:2] == [False, []]


def test_a_file_that_is_no_egg_is_left_to_scrapyd(tmp_path: Path) -> None:
    egg = tmp_path / "1.egg"
    egg.write_bytes(b"no zip")
    assert activated(OURS, egg) == [False, [], False, None, None]
    assert activated(THEIRS, egg) is None


def test_an_egg_beside_what_runs_is_left_to_scrapyd(tmp_path: Path) -> None:
    egg = write(tmp_path, {})
    ours = activated(OURS, egg, PYTHONPATH=str(egg.parent))
    assert ours is not None
    assert ours[0] is False


@pytest.mark.parametrize("act", [OURS, THEIRS])
def test_settings_that_the_environment_names_stay(tmp_path: Path, act: str) -> None:
    said = activated(act, write(tmp_path, {}), SCRAPY_SETTINGS_MODULE="json")
    assert said is not None
    assert said[3] == "json"


def assert_same_and_plain(egg: Path) -> None:
    ours, theirs = activated(OURS, egg), activated(THEIRS, egg)
    assert ours is not None
    assert theirs is not None
    assert ours == [True, *theirs[1:]]
    assert ours[3] == "small.settings"


def activated(act: str, egg: Path, **env: str) -> list[object] | None:
    """Activate the egg in a fresh Python; return what came of it, or `None` when that failed."""
    home = egg.parent.parent
    command = [sys.executable, "-P", "-c", BOTH.format(act=act), str(egg)]
    ended = subprocess.run(
        command, cwd=home, env=quiet_environment(home, **env), capture_output=True, text=True, timeout=60, check=False
    )
    said: list[object] | None = json.loads(ended.stdout) if ended.returncode == 0 else None
    return said


def write(folder: Path, files: Mapping[str, str | None]) -> Path:
    """Write an egg with these files in place of the usual ones; `None` leaves one out."""
    with zipfile.ZipFile(io.BytesIO(egg_of(PLAIN, package="small"))) as usual:
        all_files = {name: usual.read(name).decode() for name in usual.namelist()} | dict(files)
    path = folder / "eggs" / "1.egg"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as egg:
        for name, text in all_files.items():
            if text is not None:
                egg.writestr(name, text)
    return path


def built(folder: Path, more: str) -> Path:
    """Build the same project with setuptools, as `scrapyd-deploy` does."""
    source = folder / "source"
    (source / "small").mkdir(parents=True)
    for name, text in PLAIN.items():
        (source / "small" / name).write_text(text)
    (source / "setup.py").write_text(SETUP.format(more=more))
    command = [sys.executable, "-W", "ignore", "setup.py", "-q", "bdist_egg", "-d", str(folder / "eggs")]
    subprocess.run(command, cwd=source, env=quiet_environment(folder), capture_output=True, timeout=100, check=True)
    (egg,) = (folder / "eggs").iterdir()
    return egg
