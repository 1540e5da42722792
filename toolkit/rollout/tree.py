"""Reads the operator's project folder and never writes to it: what is source, what is junk, what looks like a secret.

Every builder gets its files from here, so that a secret or a cache that one of them leaves out, all of them leave out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from toolkit.model.errors import EggError

_JUNK_FOLDERS = frozenset({"__pycache__", "CVS", "node_modules"})
_JUNK_FOLDERS_AT_ROOT = frozenset({"build", "dist"})
_JUNK_FOLDER_ENDINGS = (".egg-info", ".dist-info", ".egg")
_JUNK_FILES = ("*.pyc", "*.pyo", "*~", "#*#", ".#*", "*.swp", "*.swo", "*.bak", "*.orig", "Thumbs.db", ".DS_Store")

# Names only: a file is never opened to find out whether it is a secret. Modules are exempt, for a spider may be called
# `credentials.py`.
_SECRET_FILES = (
    *(".env*", "*.env"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *(".netrc", "_netrc", ".pgpass", ".pypirc", ".htpasswd", ".git-credentials"),
    *("*credentials*.json", "*client_secret*.json", "*service*account*.json"),
    *(f"secrets.{ending}" for ending in ("json", "yaml", "yml", "toml", "ini")),
)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a builder found to pack: bytes by the name that they get inside the egg, always with `/` between folders.

    `left_out` names files that look like secrets. `entry_points` is the text of the project's own entry points, if it
    declares any; `name` and `version` are the ones its metadata give.
    """

    files: Mapping[str, bytes]
    builder: str
    left_out: tuple[str, ...] = ()
    entry_points: str = ""
    name: str = "project"
    version: str = "1.0"


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    path: Path
    is_secret: bool


def top_level_packages(base: Path) -> tuple[str, ...]:
    """Return the packages that setuptools' `find_packages()` finds here, without the ones inside them.

    Raises:
        EggError: one of them is a link that leads out of the project.

    """
    base = base.resolve()
    packages = []
    for entry in _entries(base, ""):
        path = base / entry.name
        if not entry.is_dir() or _is_passed_over(entry, path, at_root=True, with_dot_files=False):
            continue
        if "." not in entry.name and (path / "__init__.py").is_file():
            if entry.is_symlink():
                _target(base, path, _text(entry.name), (base,))
            packages.append(_text(entry.name))
    return tuple(packages)


def read_packages(root: Path, packages: Iterable[str]) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the bytes of every file in these top-level folders, and the names of those that look like secrets.

    Dot-files, caches, virtual environments, folders of version control and editor backups are passed over.

    Raises:
        EggError: a file cannot be read, has a name that is not text, or is a link that leads out of the project.

    """
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    root = root.resolve()
    for package in packages:
        for found in _walk(root, root / package, prefix=f"{package}/", with_dot_files=False):
            if found.is_secret:
                left_out.append(found.name)
            else:
                files[found.name] = read_file(found.path, name=found.name)
    return files, tuple(sorted(left_out))


def copy_tree(root: Path, target: Path) -> tuple[str, ...]:
    """Copy the project's source, dot-files included, into an empty folder; return what looks like a secret and stayed.

    Links are followed, so the copy stands by itself, and its owner may write to all of it.

    Raises:
        EggError: as `read_packages` says.

    """
    left_out: list[str] = []
    root = root.resolve()
    for found in _walk(root, root, prefix="", with_dot_files=True):
        if found.is_secret:
            left_out.append(found.name)
            continue
        place = target / found.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(read_file(found.path, name=found.name))
    return tuple(sorted(left_out))


def read_file(path: Path, *, name: str) -> bytes:
    """Return the file's bytes; `name` is what the error calls it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(name, error) from error


def _walk(
    root: Path, folder: Path, *, prefix: str, with_dot_files: bool, trail: tuple[Path, ...] = ()
) -> Iterator[_Found]:
    """Yield the files below the folder in the order of their names; `trail` holds the real folders around it.

    A link is followed only after its name was found worth packing, so that a `.venv` may lead wherever it likes.
    """
    trail = (*trail, folder.resolve())
    for entry in _entries(folder, prefix):
        path = folder / entry.name
        if _is_passed_over(entry, path, at_root=folder == root, with_dot_files=with_dot_files):
            continue
        name = _text(prefix + entry.name)
        is_secret = not entry.is_dir() and _is_secret(entry.name)
        if entry.is_symlink() and not is_secret:
            target = _target(root, path, name, trail)
            is_secret = not entry.is_dir() and _is_secret(target.name)
        if entry.is_dir():
            yield from _walk(root, path, prefix=f"{name}/", with_dot_files=with_dot_files, trail=trail)
        elif is_secret or entry.is_file():
            yield _Found(name, path, is_secret)


def _entries(folder: Path, prefix: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(prefix or str(folder), error) from error


def _text(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        why = "its name is not UTF-8, so it would have another name on a node"
        raise EggError(f"{name.encode(errors='backslashreplace').decode()} cannot be packed: {why}") from error
    return name


def _target(root: Path, link: Path, name: str, trail: tuple[Path, ...]) -> Path:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
        raise EggError(f"{name} is a link that leads nowhere", hint="remove the link, or mend it") from error
    if not target.is_relative_to(root):
        hint = "copy what it leads to into the project, or remove the link"
        raise EggError(f"{name} is a link that leads out of the project, to {target}", hint=hint)
    if any(folder.is_relative_to(target) for folder in trail):
        raise EggError(f"{name} is a link to a folder around itself", hint="remove the link")
    return target


def _is_passed_over(entry: os.DirEntry[str], path: Path, *, at_root: bool, with_dot_files: bool) -> bool:
    name = entry.name
    if any(fnmatchcase(name, pattern) for pattern in _JUNK_FILES):
        return True
    if not entry.is_dir():
        return name.startswith(".") and not with_dot_files and not _is_secret(name)
    return (
        name.startswith(".")
        or name in _JUNK_FOLDERS
        or (at_root and name in _JUNK_FOLDERS_AT_ROOT)
        or name.endswith(_JUNK_FOLDER_ENDINGS)
        or (path / "pyvenv.cfg").exists()
    )


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return not lowered.endswith(".py") and any(fnmatchcase(lowered, pattern) for pattern in _SECRET_FILES)


def _unreadable(name: str, error: OSError) -> EggError:
    return EggError(f"{name} cannot be read: {error.strerror or error}", hint="make it readable, or move it away")
