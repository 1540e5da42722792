"""Knows the Pythons that matter to an egg: the one that lists its spiders here, and what Scrapyd 1.6 can stand."""

from __future__ import annotations

import configparser
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit.model.errors import EggError
from toolkit.rollout.builders import read_pyproject
from toolkit.rollout.child import clean_environ, run_child

_OLDEST = (3, 10)
_NEWEST = (3, 13)
_RANGE = "Scrapyd 1.6 runs on Python 3.10 to 3.13"
_WITHOUT_PKG_RESOURCES = 82  # the first setuptools whose wheel no longer has pkg_resources
_ASK_TIMEOUT_S = 30.0

_HAS_SCRAPY = "import importlib.util, sys; sys.exit(importlib.util.find_spec('scrapy') is None)"
_DESCRIBE = """
import importlib.metadata, json, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
print(json.dumps({"python": sys.version_info[:3], "setuptools": version("setuptools")}))
"""


Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PythonDescription:
    """What is known of a Python; `setuptools` is its release's version, `None` if there is none or nobody asked."""

    path: Path
    version: Version
    setuptools: str | None = None

    def __str__(self) -> str:
        return f"Python {'.'.join(map(str, self.version))} ({self.path})"


def choose_python(root: Path, environ: Mapping[str, str]) -> Path:
    """Return the Python that the project is developed with: the active virtual environment's, else `.venv`'s.

    One that has no Scrapy is passed over; the last resort is the Python that runs this.
    """
    own = Path(sys.executable)
    active = environ.get("VIRTUAL_ENV")
    for folder in (Path(active) if active else None, root / ".venv"):
        python = folder / "bin" / "python" if folder else None
        if python and python.is_file() and (python == own or _has_scrapy(python)):
            return python
    return own


def check_python(root: Path, python: Path, *, version: Version | None = None) -> None:
    """Refuse a Python that the project's `requires-python` excludes, or that Scrapyd does not run on.

    It is asked for its version unless that is known already.

    Raises:
        EggError: as said, or the Python cannot be run.

    """
    described = describe_python(python) if version is None else PythonDescription(python, version)
    _check_range(described)
    wanted, file = _requires_python(root)
    if not wanted:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - seldom needed

    try:
        fits = SpecifierSet(wanted).contains(".".join(map(str, described.version)), prereleases=True)
    except InvalidSpecifier as error:
        raise EggError(f"{file} asks for the Python {wanted!r}, which is no version specifier") from error
    if not fits:
        hint = "activate a virtual environment with such a Python; the nodes need one, too"
        raise EggError(f"{file} asks for Python {wanted}, but the project would be tried with {described}", hint=hint)


def check_node_environment(python: Path) -> str | None:
    """Say why Scrapyd 1.6 cannot run under this Python, or `None` if nothing speaks against it."""
    try:
        described = describe_python(python)
        _check_range(described)
    except EggError as error:
        return error.message
    if described.setuptools is None:
        return f"{described} has no setuptools, which Scrapyd 1.6 imports: pip install 'setuptools<81'"
    major = described.setuptools.partition(".")[0]
    if major.isdigit() and int(major) >= _WITHOUT_PKG_RESOURCES:
        why = f"{described} has setuptools {described.setuptools}, without the pkg_resources that Scrapyd 1.6 imports"
        return f"{why}: pip install 'setuptools<81'"
    return None


def describe_python(python: Path) -> PythonDescription:
    """Ask a Python for its version and setuptools release.

    Raises:
        EggError: it cannot be run, or does not answer.

    """
    try:
        done = run_child(
            [python, "-c", _DESCRIBE], cwd=Path("/"), env=clean_environ(os.environ), timeout_s=_ASK_TIMEOUT_S
        )
    except OSError as error:
        raise EggError(f"{python} cannot be run: {error.strerror or error}") from error
    if done.code != 0:
        raise EggError(f"{python} does not work as a Python:\n{done.last_lines}")
    answer = json.loads(done.stdout)
    major, minor, patch = answer["python"]
    return PythonDescription(python, (major, minor, patch), answer["setuptools"])


def _check_range(described: PythonDescription) -> None:
    if not _OLDEST <= described.version[:2] <= _NEWEST:
        raise EggError(f"{_RANGE}, not on {described}", hint="use a virtual environment with one of these")


def _has_scrapy(python: Path) -> bool:
    try:
        done = run_child(
            [python, "-c", _HAS_SCRAPY], cwd=Path("/"), env=clean_environ(os.environ), timeout_s=_ASK_TIMEOUT_S
        )
    except OSError:
        return False
    return done.code == 0


def _requires_python(root: Path) -> tuple[str, str]:
    project = read_pyproject(root).get("project", {})
    if "requires-python" in project:
        return str(project["requires-python"]), "pyproject.toml"
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(root / "setup.cfg", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return "", ""  # Building it says what is wrong there.
    return parser.get("options", "python_requires", fallback=""), "setup.cfg"
