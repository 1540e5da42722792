"""Dependencies in the egg: resolved by uv or pip, without what every node has, the same bytes each time."""

from __future__ import annotations

import io
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from support.require import require
from support.scrapy_projects import write_files, write_project

from toolkit.config.project import ScrapyProject
from toolkit.model.errors import EggError
from toolkit.rollout.dependencies import brought_by_every_node
from toolkit.rollout.egg import Egg, build_egg
from toolkit.rollout.preflight import list_spiders

# A back end of a few lines, in the requirement's own folder: so nothing has to be fetched.
BACK_END = """
import os, zipfile
def _wheel(folder, name):
    path = f"{{name}}-0.3-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, path), "w") as wheel:
        members = {members!r}
        info = f"{{name}}-0.3.dist-info"
        members[f"{{info}}/METADATA"] = f"Metadata-Version: 2.1\\nName: {{name}}\\nVersion: 0.3\\n"
        members[f"{{info}}/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        members[f"{{info}}/licenses/LICENSE"] = "MIT"
        for member, text in members.items():
            wheel.writestr(member, text)
        wheel.writestr(f"{{info}}/RECORD", "".join(f"{{m}},,\\n" for m in [*members, f"{{info}}/RECORD"]))
    open("built-here.txt", "w").close()
    return path
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return _wheel(folder, {name!r})
build_editable = build_wheel
"""


# Whoever resolves it: pip and uv note different things beside a package, none of which may travel.
DIGEST = "6c35936fe406916646ebc2d70aed543069c72a05f59feef53302718abc72cf92"


def write_requirement(folder: Path, name: str, members: dict[str, str]) -> None:
    pyproject = '[build-system]\nrequires = []\nbuild-backend = "back_end"\nbackend-path = ["."]\n'
    pyproject += f'[project]\nname = "{name}"\nversion = "0.3"\n'
    write_files(folder, {"pyproject.toml": pyproject, "back_end.py": BACK_END.format(name=name, members=members)})


def project_with(tmp_path: Path, requirements: str, members: dict[str, str] | None = None) -> ScrapyProject:
    write_requirement(tmp_path / "libs/tiny", "tiny_price", members or {"tiny_price/__init__.py": "VAT = 19\n"})
    files = {
        "requirements.txt": requirements,
        "shop/spiders/prices.py": "import scrapy, tiny_price\n\n\nclass Prices(scrapy.Spider):\n"
        "    name = f'prices{tiny_price.VAT}'\n",
    }
    return write_project(tmp_path, files)


def names_in(egg: Egg) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(egg.content)) as archive:
        return set(archive.namelist())


@pytest.fixture(params=["pip", "uv"])
def installer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """See to it that this installer, and no other, is found."""
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    folder = tmp_path_factory.mktemp("path")
    if request.param == "uv":
        repository = Path(__file__).parents[2]
        uv = shutil.which("uv", path=os.pathsep.join([os.environ.get("PATH", ""), str(repository / ".tools/bin")]))
        require(uv, "uv")
        assert uv is not None
        (folder / "uv").symlink_to(uv)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), "/usr/bin", "/bin"]))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    return str(request.param)


def test_a_requirement_travels_in_the_egg_with_its_licence(tmp_path: Path, installer: str) -> None:
    assert installer
    project = project_with(tmp_path, "./libs/tiny\n")
    egg = build_egg(project, include_dependencies=True)
    names = names_in(egg)
    assert {"tiny_price/__init__.py", "tiny_price-0.3.dist-info/METADATA"} <= names
    assert "tiny_price-0.3.dist-info/licenses/LICENSE" in names
    assert not {name for name in names if name.endswith(("RECORD", "direct_url.json", "INSTALLER", ".pyc"))}
    assert list_spiders(egg) == ("books", "prices19")
    assert str(tmp_path).encode() not in egg.content


def test_the_bytes_do_not_tell_who_resolved_them_or_where(tmp_path: Path, installer: str) -> None:
    eggs = [
        build_egg(project_with(tmp_path / name, "./libs/tiny\n"), include_dependencies=True) for name in ("one", "two")
    ]
    assert eggs[0].digest == eggs[1].digest
    assert eggs[0].digest == DIGEST, installer


def test_a_requirement_in_the_projects_folder_is_not_built_there(tmp_path: Path, installer: str) -> None:
    assert installer
    project = project_with(tmp_path, "./libs/tiny\n")
    before = sorted(tmp_path.rglob("*"))
    build_egg(project, include_dependencies=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_projects_own_files_win_over_a_requirements(tmp_path: Path, installer: str) -> None:
    assert installer
    members = {"tiny_price/__init__.py": "VAT = 19\n", "shop/settings.py": "raise RuntimeError\n"}
    egg = build_egg(project_with(tmp_path, "./libs/tiny\n", members), include_dependencies=True)
    assert list_spiders(egg) == ("books", "prices19")


def test_a_compiled_requirement_is_named_with_what_to_do_instead(tmp_path: Path, installer: str) -> None:
    assert installer
    project = project_with(tmp_path, "./libs/tiny\n", {"tiny_price/fast.cpython-311-x86_64-linux-gnu.so": "ELF"})
    with pytest.raises(EggError, match=r"compiled modules, .* are in tiny-price") as raised:
        build_egg(project, include_dependencies=True)
    assert raised.value.hint is not None
    assert "install tiny-price on the nodes" in raised.value.hint


def test_an_editable_requirement_is_refused(tmp_path: Path, installer: str) -> None:
    assert installer
    with pytest.raises(EggError, match="tiny-price is asked for as an editable install"):
        build_egg(project_with(tmp_path, "-e ./libs/tiny\n"), include_dependencies=True)


def test_what_cannot_be_resolved_is_reported_in_the_installers_words(tmp_path: Path, installer: str) -> None:
    assert installer
    with pytest.raises(EggError, match=r"requirements\.txt cannot be resolved:\n(.*\n)*.*no-such-package-anywhere"):
        build_egg(project_with(tmp_path, "no-such-package-anywhere==1\n"), include_dependencies=True)


def test_a_project_without_requirements_is_told_how_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(EggError, match=r"has no requirements\.txt") as raised:
        build_egg(write_project(tmp_path), include_dependencies=True)
    assert raised.value.hint


def test_without_uv_and_pip_both_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    project = project_with(tmp_path / "project", "./libs/tiny\n")
    with pytest.raises(EggError, match="neither uv nor pip"):
        build_egg(project, include_dependencies=True, python=bare)


def test_what_every_node_has_stays_at_home() -> None:
    names = brought_by_every_node()
    assert {"scrapy", "scrapyd", "twisted", "lxml", "cryptography", "parsel", "setuptools", "zope-interface"} <= names
    assert names.isdisjoint({"pytest", "hypothesis", "typer"})
