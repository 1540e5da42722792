"""Builds a project that names its own build back end (hatchling, poetry, flit, pdm): a wheel first, then an egg."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.errors import EggError
from toolkit.rollout.builders_archive import contents_of_wheel
from toolkit.rollout.builders_setuptools import BUILD_TIMEOUT_S, build_environ
from toolkit.rollout.child import run_child
from toolkit.rollout.tree import Contents, copy_tree

if TYPE_CHECKING:
    from build import ProjectBuilder

_LAST_LINES = 15
_OFFLINE_WORDS = (
    "connection",
    "resolve",
    "network",
    "could not find a version",
    "no matching distribution",
    "timed out",
)


def build_with_back_end(root: Path, *, back_end: str) -> Contents:
    """Return what the project's own back end packs into a wheel.

    Where everything that the back end needs is installed beside crawlctl, it is used as it is; else it is installed
    into an environment of its own for this build, which needs a package index.

    Raises:
        EggError: the back end cannot be had, or it failed; the last lines of its output are in the message.

    """
    from build import BuildBackendException, BuildException, FailedProcessError  # noqa: PLC0415 - only here

    with tempfile.TemporaryDirectory(prefix="crawlctl-build-") as folder:
        work = Path(folder).resolve()
        source, out, scratch = work / root.resolve().name, work / "out", work / "scratch"
        for place in (source, out, scratch):
            place.mkdir()
        left_out = copy_tree(root, source)
        try:
            wheel = _build_wheel(source, out, _Runner(build_environ(scratch)))
        except (BuildBackendException, FailedProcessError, subprocess.CalledProcessError) as error:
            raise _failure(root, back_end, error) from error
        except BuildException as error:
            raise EggError(f"{root.name} cannot be built with {back_end}: {error}") from error
        return contents_of_wheel(wheel, builder=back_end, left_out=left_out)


class _Runner:
    """Runs the back end's hooks as every other child of a build: its own process group, quiet, with a time limit."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __call__(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        env = {**self._environ, **(extra_environ or {})}
        done = run_child(cmd, cwd=Path(cwd or os.curdir), env=env, timeout_s=BUILD_TIMEOUT_S)
        if done.code != 0:
            code = -9 if done.code is None else done.code
            raise subprocess.CalledProcessError(code, list(cmd), done.stdout, done.stderr)


def _build_wheel(source: Path, out: Path, runner: _Runner) -> Path:
    from build import ProjectBuilder  # noqa: PLC0415 - only here
    from build.env import DefaultIsolatedEnv  # noqa: PLC0415 - only here

    builder = ProjectBuilder(source, python_executable=sys.executable, runner=runner)
    if _is_at_hand(builder):
        return Path(builder.build("wheel", out))
    with DefaultIsolatedEnv() as env:
        builder = ProjectBuilder.from_isolated_env(env, source, runner=runner)
        env.install(builder.build_system_requires)
        env.install(builder.get_requires_for_build("wheel"))
        return Path(builder.build("wheel", out))


def _is_at_hand(builder: ProjectBuilder) -> bool:
    from build import BuildBackendException  # noqa: PLC0415 - only here

    try:
        return not builder.check_dependencies("wheel")
    except BuildBackendException:
        return False


def _failure(root: Path, back_end: str, error: Exception) -> EggError:
    cause = getattr(error, "exception", error)
    said = _words(getattr(cause, "stderr", None)) or _words(getattr(cause, "stdout", None)) or str(cause)
    lines = "\n".join(f"  {line}" for line in said.strip().splitlines()[-_LAST_LINES:])
    hint = None
    if any(word in said.lower() for word in _OFFLINE_WORDS):
        hint = f"the build needs a package index; without one, install {back_end} beside crawlctl and build again"
    return EggError(f"{root.name} cannot be built with {back_end}:\n{lines}", hint=hint)


def _words(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
