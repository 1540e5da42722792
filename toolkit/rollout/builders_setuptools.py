"""Builds a project that is packaged with setuptools: scrapyd-client's builder, run on a copy elsewhere."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.model.errors import EggError
from toolkit.rollout.builders import BuildStyle, read_pyproject
from toolkit.rollout.builders_archive import contents_of_egg
from toolkit.rollout.child import Finished, clean_environ, run_child
from toolkit.rollout.tree import Contents, copy_tree

BUILD_TIMEOUT_S = 600.0
_PACKAGE_OPTIONS = frozenset({"packages", "py-modules", "package-dir", "py_modules", "package_dir"})


def build_with_scrapyd_client(root: Path, *, settings_module: str) -> Contents:
    """Return what scrapyd-client's builder packs for a project with its own `setup.py`, or with setuptools' tables.

    Raises:
        EggError: the build failed; the builder's last lines are in the message.

    """
    with tempfile.TemporaryDirectory(prefix="crawlctl-build-") as folder:
        work = Path(folder).resolve()
        source, egg, scratch = work / root.resolve().name, work / "project.egg", work / "scratch"
        source.mkdir()
        scratch.mkdir()
        left_out = copy_tree(root, source)
        _complete(source, settings_module)
        # scrapyd-client keeps the builder's words to itself unless --debug, and leaves its folder behind in any case.
        command: list[str | Path] = [sys.executable, "-P", "-m", "scrapyd_client.deploy", "--debug", "--build-egg", egg]
        done = run_child(command, cwd=source, env=build_environ(scratch), timeout_s=BUILD_TIMEOUT_S)
        if done.code != 0 or not egg.is_file():
            raise _failure(root, source, done)
        return contents_of_egg(egg, builder=BuildStyle.SCRAPYD_CLIENT, left_out=left_out)


def build_environ(scratch: Path) -> dict[str, str]:
    """Return an environment in which a builder writes below `scratch` and leaves neither the date nor byte code.

    A version that comes from the repository's state would differ from checkout to checkout, and says nothing to a
    node, so the tools that make one are told a fixed one.
    """
    return {
        **clean_environ(os.environ),
        "TMPDIR": str(scratch),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "SOURCE_DATE_EPOCH": "315532800",
        "SETUPTOOLS_SCM_PRETEND_VERSION": "1.0",
        "PDM_BUILD_SCM_VERSION": "1.0",
        "POETRY_DYNAMIC_VERSIONING_BYPASS": "1.0",
    }


def _failure(root: Path, source: Path, done: Finished) -> EggError:
    if done.code is None:
        return EggError(f"{root.name} cannot be built: its setup.py did not end within {BUILD_TIMEOUT_S:.0f} s")
    # scrapyd-client dies of the failure of the script that it ran, at length; the script's own words come before.
    said, _, traceback = done.stderr.rpartition("Traceback (most recent call last):")
    words = replace(done, stderr=said) if said.strip() and "scrapyd_client" in traceback else done
    lines = words.last_lines.replace(f"{source}{os.sep}", "")
    return EggError(f"{root.name} cannot be built: its setup.py failed:\n{lines}")


def _complete(source: Path, settings_module: str) -> None:
    """Write into the copy what scrapyd-client needs to find there."""
    if not (source / "scrapy.cfg").is_file():
        (source / "scrapy.cfg").write_text(f"[settings]\ndefault = {settings_module}\n", encoding="utf-8")
    if (source / "setup.py").is_file():
        return
    arguments = "" if _names_its_packages(source, read_pyproject(source)) else "packages=find_packages()"
    script = f"from setuptools import find_packages, setup\n\nsetup({arguments})\n"
    (source / "setup.py").write_text(script, encoding="utf-8")


def _names_its_packages(source: Path, pyproject: Mapping[str, Any]) -> bool:
    """Tell whether setuptools knows what to pack; left alone, it refuses two packages side by side."""
    if (source / "src").is_dir() or _PACKAGE_OPTIONS & set(pyproject.get("tool", {}).get("setuptools", {})):
        return True
    setup_cfg = source / "setup.cfg"
    lines = setup_cfg.read_text(encoding="utf-8").splitlines() if setup_cfg.is_file() else []
    return any(line.partition("=")[0].strip() in _PACKAGE_OPTIONS for line in lines)
