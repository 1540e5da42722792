"""Reads what a foreign builder made, an egg or a wheel, and keeps of it what every machine makes alike."""

from __future__ import annotations

import re
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path

from toolkit.model.errors import EggError
from toolkit.rollout.tree import Contents

_COMPILED = re.compile(r"\.(so|pyd|dylib|dll)$")
_WHEEL_FOLDERS = re.compile(r"(?P<folder>[^/]+)\.data/(?P<kind>[^/]+)/(?P<name>.+)")


def contents_of_egg(path: Path, *, builder: str, left_out: tuple[str, ...]) -> Contents:
    """Return what the egg at `path` holds, without byte code and without setuptools' own notes.

    Raises:
        EggError: it is no egg, or holds compiled extensions.

    """
    files = _read(path, builder)
    metadata = files.get("EGG-INFO/PKG-INFO", b"").decode(errors="replace")
    entry_points = files.get("EGG-INFO/entry_points.txt", b"").decode(errors="replace")
    kept = {name: content for name, content in files.items() if not name.startswith("EGG-INFO/")}
    return _contents(kept, builder, left_out, entry_points, metadata)


def contents_of_wheel(path: Path, *, builder: str, left_out: tuple[str, ...]) -> Contents:
    """Return what the wheel at `path` would install as modules; scripts, headers and the like are no part of an egg.

    Raises:
        EggError: it is no wheel, or holds compiled extensions.

    """
    files = _read(path, builder)
    kept: dict[str, bytes] = {}
    metadata = entry_points = ""
    for name, content in files.items():
        inside = _WHEEL_FOLDERS.fullmatch(name)
        if fnmatchcase(name, "*.dist-info/METADATA"):
            metadata = content.decode(errors="replace")
        elif fnmatchcase(name, "*.dist-info/entry_points.txt"):
            entry_points = content.decode(errors="replace")
        elif inside and inside["kind"] in ("purelib", "platlib"):
            kept[inside["name"]] = content
        elif not inside and not name.partition("/")[0].endswith(".dist-info"):
            kept[name] = content
    return _contents(kept, builder, left_out, entry_points, metadata)


def _contents(
    files: dict[str, bytes], builder: str, left_out: tuple[str, ...], entry_points: str, metadata: str
) -> Contents:
    compiled = sorted(name for name in files if _COMPILED.search(name))
    if compiled:
        why = f"{compiled[0]} is compiled, and Python cannot import that from inside an egg"
        hint = "put the compiled part into a package of its own, and install that on the nodes"
        raise EggError(f"the project cannot be built: {why}", hint=hint)
    return Contents(
        files,
        builder=builder,
        left_out=left_out,
        entry_points=entry_points,
        name=_header(metadata, "Name") or "project",
        version=_header(metadata, "Version") or "1.0",
    )


def _read(path: Path, builder: str) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name: archive.read(name)
                for name in archive.namelist()
                if not name.endswith(("/", ".pyc", ".pyo")) and "__pycache__/" not in name
            }
    except (OSError, zipfile.BadZipFile) as error:
        raise EggError(f"{builder} made a file that cannot be read: {error}") from error


def _header(metadata: str, name: str) -> str | None:
    head = metadata.partition("\n\n")[0]
    found = re.search(rf"^{name}: *(.+?)\s*$", head, re.MULTILINE)
    return found[1] if found else None
