"""Chooses how a project is built, and builds the ordinary one: packages beside `scrapy.cfg`, no own packaging.

Nothing of the project is run here, and nothing is written.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from toolkit.model.errors import EggError
from toolkit.rollout.tree import Contents, read_file, read_packages, top_level_packages

# What scrapyd-client writes into a project that has no setup.py. It leaves the file there, so most projects that were
# ever deployed with it have one, and are ordinary projects all the same.
_LEFT_BY_SCRAPYD_DEPLOY = """
from setuptools import setup, find_packages
setup(
    name='project', version='1.0', packages=find_packages(), entry_points={{'scrapy': ['settings = {settings}']}}
)
"""

_SETUPTOOLS_BACKENDS = ("setuptools.build_meta", "setuptools.build_meta:__legacy__")
_ENOUGH_FOR_SETUPTOOLS = frozenset({"setuptools", "wheel"})


class BuildStyle(StrEnum):
    """Who makes the project's egg."""

    DIRECT = "direct"
    SCRAPYD_CLIENT = "scrapyd-client"
    BACK_END = "back end"


@dataclass(frozen=True, slots=True)
class Packaging:
    """How a project is packaged: the style, and the build back end that it names, if any (`hatchling`, `poetry`)."""

    style: BuildStyle
    back_end: str = ""


def packaging_of(root: Path, *, settings_module: str) -> Packaging:
    """Tell how the project wants to be built, by its `setup.py`, `pyproject.toml` and `setup.cfg`.

    A `pyproject.toml` that only lists dependencies, as `uv init` writes it, leaves a project ordinary, and so does the
    `setup.py` that scrapyd-deploy leaves behind.

    Raises:
        EggError: one of these files cannot be read.

    """
    pyproject = read_pyproject(root)
    has_setup_py = (root / "setup.py").is_file() and not _was_left_by_scrapyd_deploy(root, settings_module)
    if has_setup_py or not pyproject.get("build-system"):
        asks_for_setuptools = has_setup_py or "setuptools" in pyproject.get("tool", {}) or _has_own_setup_cfg(root)
        return Packaging(BuildStyle.SCRAPYD_CLIENT if asks_for_setuptools else BuildStyle.DIRECT)
    if not _wants_to_be_packaged(root, pyproject):
        return Packaging(BuildStyle.DIRECT)
    system = pyproject["build-system"]
    back_end = str(system.get("build-backend", _SETUPTOOLS_BACKENDS[0]))
    requires = {_name_of(str(requirement)) for requirement in system.get("requires", ())}
    if back_end in _SETUPTOOLS_BACKENDS and "backend-path" not in system and requires <= _ENOUGH_FOR_SETUPTOOLS:
        return Packaging(BuildStyle.SCRAPYD_CLIENT)
    return Packaging(BuildStyle.BACK_END, back_end.partition(".")[0].partition(":")[0])


def build_direct(root: Path, *, settings_module: str) -> Contents:
    """Pack every package beside `scrapy.cfg` (or in `src/`) with all that lies in it, and the settings module.

    Nothing is run, so this takes milliseconds. scrapyd-client's egg holds the same modules, but no package data.

    Raises:
        EggError: the settings module is not there, or a file cannot be packed.

    """
    top, _, below = settings_module.partition(".")
    base = next(
        (base for base in (root, root / "src") if (base / top).is_dir() or (base / f"{top}.py").is_file()), root
    )
    packages = top_level_packages(base)
    if below and top not in packages and (base / top).is_dir():
        packages = (*packages, top)  # a package without __init__.py
    files, left_out = read_packages(base, packages)
    if top not in packages and (base / f"{top}.py").is_file():
        files[f"{top}.py"] = read_file(base / f"{top}.py", name=f"{top}.py")
    path = settings_module.replace(".", "/")
    if f"{path}.py" not in files and f"{path}/__init__.py" not in files:
        why = f"scrapy.cfg names the settings module {settings_module}, but there is no {path}.py beside it"
        raise EggError(f"{root.name} cannot be built: {why}", hint="mend the [settings] section of scrapy.cfg")
    return Contents(files, builder=BuildStyle.DIRECT, left_out=left_out)


def read_pyproject(root: Path) -> Mapping[str, Any]:
    """Return what `pyproject.toml` says, or nothing if there is none.

    Raises:
        EggError: it is not TOML.

    """
    path = root / "pyproject.toml"
    if not path.is_file():
        return {}
    import tomllib  # noqa: PLC0415 - most projects have no such file

    try:
        return tomllib.loads(read_file(path, name="pyproject.toml").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EggError(f"{path} cannot be read: {error}") from error


def _wants_to_be_packaged(root: Path, pyproject: Mapping[str, Any]) -> bool:
    tool = pyproject.get("tool", {})
    if tool.get("poetry", {}).get("package-mode") is False or tool.get("uv", {}).get("package") is False:
        return False
    if tool.get("pdm", {}).get("distribution") is False:
        return False
    if "setuptools" in tool or _has_own_setup_cfg(root):
        return True
    return ("project" in pyproject or "poetry" in tool) and _has_something_to_package(root, pyproject)


def _has_something_to_package(root: Path, pyproject: Mapping[str, Any]) -> bool:
    """Tell whether a build back end would find a package: one that is declared, or one named like the project.

    Many Scrapy projects have a build system only because Poetry writes one; nothing in them could be packaged.
    """
    tool = pyproject.get("tool", {})
    declarations = (
        tool.get("poetry", {}).get("packages"),
        tool.get("hatch", {}).get("build"),
        tool.get("flit", {}).get("module"),
        tool.get("pdm", {}).get("build"),
        tool.get("uv", {}).get("build-backend"),
    )
    if any(declarations) or "backend-path" in pyproject["build-system"]:
        return True
    name = pyproject.get("project", {}).get("name") or tool.get("poetry", {}).get("name") or ""
    module = "".join(char if char.isalnum() else "_" for char in str(name)).casefold()
    beside = [path for base in (root, root / "src") if base.is_dir() for path in base.iterdir()]
    return any(path.stem.casefold() == module and (path.is_dir() or path.suffix == ".py") for path in beside)


def _has_own_setup_cfg(root: Path) -> bool:
    path = root / "setup.cfg"
    if not path.is_file():
        return False
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(read_file(path, name="setup.cfg").decode(), source="setup.cfg")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise EggError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return parser.has_section("options") or parser.has_section("metadata")


def _was_left_by_scrapyd_deploy(root: Path, settings_module: str) -> bool:
    import ast  # noqa: PLC0415 - most projects get by without it

    left = ast.parse(_LEFT_BY_SCRAPYD_DEPLOY.format(settings=settings_module))
    try:
        found = ast.parse(read_file(root / "setup.py", name="setup.py"))
    except (SyntaxError, ValueError):
        return False  # The builder shows what is wrong with it.
    return ast.dump(found) == ast.dump(left)


def _name_of(requirement: str) -> str:
    name = requirement.strip()
    for end, char in enumerate(name):
        if not (char.isalnum() or char in "-_."):
            return name[:end].lower()
    return name.lower()
