"""Makes a project's egg importable in a spider process, as Scrapyd's runner does, without the cost of pkg_resources.

Only the plain case is done here: an egg in a file with its settings named in `EGG-INFO`. Any other is Scrapyd's own.
What a project misses: importing pkg_resources also opens the libraries that setuptools carries for itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path

from scrapyd.config import Config
from scrapyd.utils import initialize_component

_SETTINGS_VARIABLE = "SCRAPY_SETTINGS_MODULE"
_VERSION_VARIABLE = "SCRAPYD_EGG_VERSION"
_EGG_STORAGE = "scrapyd.eggstorage.FilesystemEggStorage"
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@contextlib.contextmanager
def project_environment(project: str) -> Iterator[None]:
    """Enter the environment in which Scrapy finds a project, from the egg storage that Scrapyd is configured with.

    The version is the one that the environment names, or Scrapyd's idea of the latest. A project without an egg is left
    to Scrapy's own configuration files.
    """
    storage = initialize_component(Config(), "eggstorage", _EGG_STORAGE)
    _, egg = storage.get(project, os.environ.get(_VERSION_VARIABLE))
    with contextlib.closing(egg) if egg else contextlib.nullcontext():
        is_done = egg is None or (hasattr(egg, "name") and activate(Path(egg.name)))
    if is_done:
        yield
        return
    with warnings.catch_warnings():
        # It warns that pkg_resources will go: nothing that the reader of a spider's output could do about.
        warnings.simplefilter("ignore")
        from scrapyd.runner import project_environment as scrapyds_own  # noqa: PLC0415 - slow to load
    with scrapyds_own(project):
        yield


def activate(egg: Path) -> bool:
    """Let Python find the egg's modules, and Scrapy its settings; `False` when only Scrapyd's way is good for this one.

    What happens is what `pkg_resources.Distribution.activate` does for such an egg: it comes last on the path.
    """
    settings = _settings_module(egg)
    # An egg whose folder is on the path goes before that folder: a case that Scrapyd's own way knows all about.
    if settings is None or any(_is_same_folder(entry, egg.parent) for entry in sys.path):
        return False
    path = str(egg.resolve())
    if path not in sys.path:
        sys.path.append(path)
    os.environ.setdefault(_SETTINGS_VARIABLE, settings)
    return True


def _settings_module(egg: Path) -> str | None:
    """Return the settings module that an ordinary egg names; `None` for every egg that is anything else."""
    try:
        with zipfile.ZipFile(egg) as archive:
            names = set(archive.namelist())
            if "EGG-INFO/PKG-INFO" not in names or "EGG-INFO/namespace_packages.txt" in names:
                return None
            text = archive.read("EGG-INFO/entry_points.txt").decode()
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    # As setuptools and importlib.metadata read it: `=` alone divides, and names are case-sensitive.
    entries = ConfigParser(delimiters="=", interpolation=None, strict=True)
    entries.optionxform = str  # type: ignore[assignment,method-assign]  # the way that configparser documents
    try:
        entries.read_string(text)
        value = entries.get("scrapy", "settings").strip()
    except ConfigParserError:
        return None
    return value if _MODULE.fullmatch(value) else None


def _is_same_folder(entry: str, folder: Path) -> bool:
    return Path(entry or ".").resolve() == folder.resolve()
