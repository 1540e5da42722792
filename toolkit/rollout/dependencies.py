"""Packs what a project's `requirements.txt` asks for into its egg, but for what every Scrapyd brings along.

The requirements are resolved by uv, or by pip where uv is not there, into a folder that is thrown away. Left out is
what Scrapy and Scrapyd need themselves (Twisted, lxml, …): a node has it, much of it is compiled, and a second copy in
front of the first would break the node's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from toolkit.config.requirements import needs_of_package
from toolkit.model.errors import EggError
from toolkit.rollout.child import clean_environ, run_child
from toolkit.rollout.tree import copy_tree, read_file

_INSTALL_TIMEOUT_S = 900.0
_OF_EVERY_NODE = ("scrapyd", "scrapy", "twisted")
_ALWAYS_LEFT_OUT = frozenset({*_OF_EVERY_NODE, "setuptools", "pip", "wheel"})
_COMPILED = re.compile(r"\.(so|pyd|dylib|dll)$")
# What an installer notes about this machine; the rest of a .dist-info folder is the package's own, its licence too.
_INSTALLERS_NOTES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"})


def read_dependencies(root: Path, *, python: Path | None = None) -> dict[str, bytes]:
    """Return the files of every package that the project needs and a node lacks, by their names in the egg.

    Paths in `requirements.txt` are taken from the project's folder, of which a copy is used.

    Raises:
        EggError: there is no `requirements.txt`, it cannot be resolved, or a package in it cannot run from an egg.

    """
    if not (root / "requirements.txt").is_file():
        hint = "list them there; `uv export --no-hashes -o requirements.txt` or `pip freeze` can write it"
        raise EggError(f"{root.name} has no requirements.txt to take its dependencies from", hint=hint)
    with tempfile.TemporaryDirectory(prefix="crawlctl-requirements-") as folder:
        work = Path(folder).resolve()
        source, target = work / "source", work / "installed"
        source.mkdir()
        copy_tree(root, source)
        _install(source, target, python or Path(sys.executable))
        return _files_of(target)


def brought_by_every_node() -> frozenset[str]:
    """Return the names (normalised) of Scrapy, Scrapyd and all that they need, as far as it is installed here."""
    found: set[str] = set(_ALWAYS_LEFT_OUT)
    waiting = [(name, frozenset[str]()) for name in _OF_EVERY_NODE]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.add(name)
        below = needs_of_package(name, extras=extras)
        waiting.extend((canonicalize_name(need.name), frozenset(need.extras)) for need in below)
    return frozenset(found)


def _install(source: Path, target: Path, python: Path) -> None:
    uv = shutil.which("uv")
    if uv:
        command: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", python, "--target", target]
    else:
        command = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--no-input", "--target", target]
        command += ["--disable-pip-version-check", "--no-warn-script-location"]
    env = {**clean_environ(os.environ), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_child([*command, "-r", "requirements.txt"], cwd=source, env=env, timeout_s=_INSTALL_TIMEOUT_S)
    if done.code == 0:
        return
    if "No module named pip" in done.stderr:
        why = (
            f"neither uv nor pip is there to resolve requirements.txt (looked for uv on PATH, and for pip in {python})"
        )
        raise EggError(why, hint="pip install uv")
    what = "requirements.txt cannot be resolved"
    if done.code is None:
        raise EggError(f"{what} within {_INSTALL_TIMEOUT_S:.0f} s:\n{done.last_lines}")
    raise EggError(f"{what}:\n{done.last_lines}")


def _files_of(target: Path) -> dict[str, bytes]:
    left_out = brought_by_every_node()
    files: dict[str, bytes] = {}
    compiled: set[str] = set()
    for installed in sorted(metadata.distributions(path=[str(target)]), key=_name_of):
        name = _name_of(installed)
        if name in left_out:
            continue
        _refuse_editable(installed, name)
        for path in _own_files(installed):
            if _COMPILED.search(path):
                compiled.add(name)
            files[path] = read_file(target / path, name=f"{path} of {name}")
    if compiled:
        names = ", ".join(sorted(compiled))
        why = f"compiled modules, which Python cannot import from an egg, are in {names}"
        hint = f"install {names} on the nodes, and take it out of requirements.txt (or build without its requirements)"
        raise EggError(f"the dependencies cannot be packed: {why}", hint=hint)
    return files


def _own_files(installed: metadata.Distribution) -> Iterable[str]:
    for path in installed.files or ():
        name = path.as_posix()
        top = path.parts[0]
        is_note = top.endswith(".dist-info") and path.name in _INSTALLERS_NOTES
        is_script = top in ("bin", "..") or path.is_absolute()
        if not (is_note or is_script or name.endswith((".pyc", ".pth")) or "__pycache__" in path.parts):
            yield name


def _refuse_editable(installed: metadata.Distribution, name: str) -> None:
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        why = f"{name} is asked for as an editable install (-e), whose files stay outside the egg"
        raise EggError(f"the dependencies cannot be packed: {why}", hint="name it in requirements.txt without -e")


def _name_of(installed: metadata.Distribution) -> str:
    return canonicalize_name(installed.name)
