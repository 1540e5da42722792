"""The egg: one file per release, the same bytes for the same tree on every machine, so that its digest is its identity.

Members are stored, not deflated: zlib and zlib-ng, which Pythons are built with, compress to different bytes, and the
digest that a node computes of the file must be the one that another machine computes of the same source. A project's
source is small, and Python imports a stored member faster.
"""

from __future__ import annotations

import configparser
import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.config.project import ScrapyProject
from toolkit.model.errors import EggError
from toolkit.rollout.builders import BuildStyle, build_direct, packaging_of
from toolkit.rollout.tree import Contents

if TYPE_CHECKING:
    from toolkit.config.requirements import Needs

_OUR_PACKAGE = "toolkit"
_NAMING_NEEDS = ("requirements.txt", "pyproject.toml")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_UNIX = 3
_FILE_MODE = 0o100644 << 16
_FOLDER_MODE = 0o040755 << 16 | 0x10


class Treatment(StrEnum):
    """What becomes of a project's requirements: nodes check them, install them, or hear nothing of them."""

    CHECK = "check"
    INSTALL = "install"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Egg:
    """An egg in memory: its bytes, their SHA-256 in hex, and what is known of how it was made.

    `builder` is `direct`, `scrapyd-client`, the name of a build back end, or `file`; `files` counts the project's
    members; `left_out` names files of the project that were not packed because they look like secrets. `needs` are the
    requirements that travel in it, `has_environment` says that nodes run it with an environment that has them, and
    `remarks` say which of the project's requirements do not travel.
    """

    content: bytes
    digest: str
    settings_module: str
    builder: str
    left_out: tuple[str, ...]
    files: int
    needs: tuple[str, ...] = ()
    has_environment: bool = False
    remarks: tuple[str, ...] = ()


def build_egg(
    project: ScrapyProject,
    *,
    include_dependencies: bool = False,
    python: Path | None = None,
    treatment: Treatment = Treatment.CHECK,
) -> Egg:
    """Build the project's egg without writing to its folder.

    The same tree gives the same bytes, whatever its place, times, modes and order on disk. `include_dependencies`
    packs what `requirements.txt` asks for, resolved for `python` (by default the one that runs this). The requirements
    that are not packed travel in the egg, to be treated as said.

    Raises:
        EggError: the project cannot be built; the message names the file or holds the builder's last lines.

    """
    root = project.root.resolve()
    contents = _build(root, project.settings_module)
    files = contents.files
    if include_dependencies:
        from toolkit.rollout.dependencies import read_dependencies  # noqa: PLC0415 - needs packaging, which is slow

        files = {**read_dependencies(root, python=python), **files}
    settings_module, entry_points = _entry_points(contents.entry_points, project.settings_module)
    _refuse_missing_settings(root, contents, settings_module)
    _refuse_our_name(files, root.name)
    needs, remarks = _needs(root, treatment, is_packed=include_dependencies)
    content = _pack({**files, **_egg_info(contents, entry_points, files), **(needs.files() if needs else {})})
    return Egg(
        content=content,
        digest=hashlib.sha256(content).hexdigest(),
        settings_module=settings_module,
        builder=contents.builder,
        left_out=contents.left_out,
        files=len(files),
        needs=needs.lines if needs else (),
        has_environment=bool(needs and needs.has_environment),
        remarks=remarks,
    )


def with_needs(egg: Egg, treatment: Treatment) -> Egg:
    """Return an egg that was built before with its requirements treated so; other bytes are another release.

    One whose requirements are to be installed stays as it is where they are only to be checked.
    """
    is_to_install = treatment is Treatment.INSTALL
    if not egg.needs or (treatment is not Treatment.IGNORE and is_to_install <= egg.has_environment):
        return egg
    from toolkit.config.requirements import ENVIRONMENT_FILE, NEEDS_FILE, Needs  # noqa: PLC0415 - as above

    needs = Needs(() if treatment is Treatment.IGNORE else egg.needs, has_environment=is_to_install)
    with zipfile.ZipFile(io.BytesIO(egg.content)) as archive:
        others = {*archive.namelist()} - {ENVIRONMENT_FILE, NEEDS_FILE}
        files = {name: archive.read(name) for name in others if not name.endswith("/")}
    content = _pack({**files, **needs.files()})
    digest = hashlib.sha256(content).hexdigest()
    return replace(egg, content=content, digest=digest, needs=needs.lines, has_environment=needs.has_environment)


def _needs(root: Path, treatment: Treatment, *, is_packed: bool) -> tuple[Needs | None, tuple[str, ...]]:
    if treatment is Treatment.IGNORE or not any((root / name).is_file() for name in _NAMING_NEEDS):
        return None, ()
    # Both need packaging, which is slow to load.
    from toolkit.config.requirements import Needs  # noqa: PLC0415
    from toolkit.rollout.requirements import only_of, project_needs  # noqa: PLC0415

    found = project_needs(root)
    lines = found.lines
    if is_packed:
        from toolkit.rollout.dependencies import brought_by_every_node  # noqa: PLC0415

        lines = only_of(lines, brought_by_every_node())
    return Needs(lines, has_environment=treatment is Treatment.INSTALL and bool(lines)), found.remarks


def read_egg(path: Path) -> Egg:
    """Return the egg in a file that something else built, as it is.

    Raises:
        EggError: the file cannot be read, is no whole zip file, or lacks what Scrapyd needs to run it.

    """
    hint = "build it with `crawlctl build`, or with `scrapyd-deploy --build-egg`"
    try:
        content = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            damaged = archive.testzip()
            text = archive.read("EGG-INFO/entry_points.txt").decode() if "EGG-INFO/entry_points.txt" in names else ""
            needs = _needs_in(archive, names)
    except OSError as error:
        raise EggError(f"{path} cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise EggError(f"{path} is not an egg: {str(error).lower()}", hint=hint) from error
    if damaged is not None:
        raise EggError(f"{path} is not whole: {damaged} in it is damaged", hint=hint)
    if "EGG-INFO/PKG-INFO" not in names:
        raise EggError(f"{path} is not an egg: it has no EGG-INFO/PKG-INFO", hint=hint)
    settings_module, _ = _entry_points(text, "", name=str(path))
    if not settings_module:
        raise EggError(f"{path} has no [scrapy] settings entry point, so Scrapyd cannot run it", hint=hint)
    _refuse_our_name(names, str(path))
    files = sum(not name.startswith("EGG-INFO/") for name in names)
    egg = Egg(content, hashlib.sha256(content).hexdigest(), settings_module, "file", (), files)
    return replace(egg, needs=needs.lines, has_environment=needs.has_environment) if needs else egg


def _needs_in(archive: zipfile.ZipFile, names: Iterable[str]) -> Needs | None:
    if not any(name.startswith("EGG-INFO/crawlctl-") for name in names):
        return None
    from toolkit.config.requirements import read_needs  # noqa: PLC0415 - needs packaging, which is slow

    return read_needs(archive)


def _refuse_our_name(names: Iterable[str], what: str) -> None:
    """Refuse a project that brings a package of the name that the node's plug-in has: the node would load its own."""
    if any(name.partition("/")[0] in {_OUR_PACKAGE, f"{_OUR_PACKAGE}.py"} for name in names):
        raise EggError(
            f"{what} brings a top-level package {_OUR_PACKAGE!r}, which is the name of the nodes' own plug-in",
            hint=f"rename the package: a node would import its own {_OUR_PACKAGE!r} instead",
        )


def write_egg(egg: Egg, path: Path) -> None:
    """Write the egg to a file: whoever reads `path` meanwhile sees the former file or this one, never a part.

    Raises:
        EggError: the folder is not there, or cannot be written to.

    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            part.write_bytes(egg.content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise EggError(f"the egg cannot be written to {path}: {error.strerror or error}") from error


def _build(root: Path, settings_module: str) -> Contents:
    packaging = packaging_of(root, settings_module=settings_module)
    if packaging.style is BuildStyle.DIRECT:
        return build_direct(root, settings_module=settings_module)
    if packaging.style is BuildStyle.SCRAPYD_CLIENT:
        from toolkit.rollout.builders_setuptools import build_with_scrapyd_client  # noqa: PLC0415 - seldom needed

        return build_with_scrapyd_client(root, settings_module=settings_module)
    from toolkit.rollout.builders_wheel import build_with_back_end  # noqa: PLC0415 - seldom needed

    return build_with_back_end(root, back_end=packaging.back_end)


def _refuse_missing_settings(root: Path, contents: Contents, settings_module: str) -> None:
    path = settings_module.replace(".", "/")
    if f"{path}.py" in contents.files or f"{path}/__init__.py" in contents.files:
        return
    why = f"{contents.builder} packed {len(contents.files)} files, but not {path}.py"
    raise EggError(
        f"{root.name} cannot be built: {why}",
        hint="name the package of the spiders in pyproject.toml, setup.cfg or setup.py, wherever the others are named",
    )


def _egg_info(contents: Contents, entry_points: str, files: Iterable[str]) -> dict[str, bytes]:
    tops = {name.partition("/")[0] for name in files}
    modules = sorted(top.removesuffix(".py") for top in tops if not top.endswith(".dist-info"))
    texts = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {contents.name}\nVersion: {contents.version}\n",
        "entry_points.txt": entry_points,
        "top_level.txt": "".join(f"{module}\n" for module in modules),
        "zip-safe": "\n",
    }
    return {f"EGG-INFO/{name}": text.encode() for name, text in texts.items()}


def _entry_points(text: str, settings_module: str, *, name: str = "the built egg") -> tuple[str, str]:
    """Return the settings module and the text with every entry point in order; the project's own choice wins."""
    parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        parser.read_string(text, source="entry_points.txt")
    except configparser.Error as error:
        raise EggError(f"the entry points of {name} cannot be read: {' '.join(str(error).split())}") from error
    found = parser.get("scrapy", "settings", fallback=settings_module).partition(":")[0].partition("[")[0].strip()
    groups = {group: dict(parser.items(group)) for group in parser.sections()}
    groups["scrapy"] = {**groups.get("scrapy", {}), "settings": found}
    blocks = []
    for group in sorted(groups):
        lines = "".join(f"{key} = {value}\n" for key, value in sorted(groups[group].items()))
        blocks.append(f"[{group}]\n{lines}")
    return found, "\n".join(blocks)


def _pack(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    try:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
            for name in sorted({*files, *_plain_folders(files)}):
                member = zipfile.ZipInfo(name, _EPOCH)
                member.create_system = _UNIX
                member.external_attr = _FOLDER_MODE if name.endswith("/") else _FILE_MODE
                archive.writestr(member, files.get(name, b""))
    except zipfile.LargeZipFile as error:
        why = "Python imports from zip files of at most 65535 members and 4 GiB"
        raise EggError(f"the egg would be too large: {why}", hint="move data out of the package") from error
    return buffer.getvalue()


def _plain_folders(files: Mapping[str, bytes]) -> set[str]:
    """Name the folders with modules but without `__init__.py`: Python finds those in a zip file only by an entry."""
    folders = set()
    for name in files:
        parts = name.split("/")[:-1] if name.endswith(".py") else []
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[:depth])
            if f"{folder}/__init__.py" not in files:
                folders.add(f"{folder}/")
    return folders
