"""Makes one environment for a set of requirements: a virtual one of the node's own Python, filled by uv.

The node's own packages come after it on the path: the release's are found first, whatever the node has, and what runs
every spider (`toolkit.node.runner`, the reporter, Scrapy where the release names none) is there all the same. Versions
with which that would not work are ruled out when the requirements are resolved. Nothing here decides when to make one.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from toolkit.config.requirements import needs_of_package
from toolkit.model.errors import EggError
from toolkit.node.children import Children, Ended
from toolkit.node.environment import without_secrets

PATHS_FILE = "_crawlctl_node.pth"
CACHE = "cache"
SHOWN_CHARS = 600
_FORMAT = 1
_DOING = "making its environment"
_RUNS_EVERY_SPIDER = ("scrapyd", "scrapy", "scrapy-redis", "redis", "msgpack")
_TRIAL = "import toolkit.node.runner, toolkit.node.activation, toolkit.spider.extensions"
_TRIAL_TIMEOUT_S = 60.0
_NO_NEWS = ("Using Python", "Resolved ", "Prepared ", "warning: ")


@dataclass(frozen=True, slots=True)
class Sources:
    """Where packages come from: a folder of wheels alone, an index by its URL (in a file), or as uv is configured."""

    wheelhouse: Path | None = None
    index_file: Path | None = None
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that an environment depends on: its requirements, the Python, the node's own folders, what limits them."""

    lines: tuple[str, ...]
    python: str
    paths: tuple[str, ...]
    limits: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the environment's folder: the same recipe, and no other, gives it."""
        parts = [_FORMAT, self.lines, self.python, self.paths, self.limits]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def recipe_for(lines: Sequence[str]) -> Recipe:
    """Return how an environment with these requirements is made on this node as it is now."""
    python = f"{platform.python_implementation()} {platform.python_version()} {platform.machine()} {sys.prefix}"
    named = {name_of(line) for line in lines}
    return Recipe(tuple(lines), python, node_paths(), tuple(sorted(limits(named))))


def name_of(line: str) -> str:
    """Return the one name of the package that a requirement asks for."""
    return canonicalize_name(Requirement(line).name)


def node_paths() -> tuple[str, ...]:
    """Return the folders from which this process imports what is not Python's own, nor beside what was started."""
    standard = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "scripts")}
    standard |= {folder / "lib-dynload" for folder in standard}
    passed_over = {*standard, Path.cwd()}
    found = (Path(entry) for entry in sys.path if entry)
    return tuple(dict.fromkeys(str(each) for each in found if each.is_dir() and each not in passed_over))


def limits(named: Collection[str]) -> Iterator[str]:
    """Yield what the packages that run every spider ask of others; of those that the release names, nothing."""
    waiting, seen = list(_RUNS_EVERY_SPIDER), set(named)
    yield from (line for name, line in _asked_for_by("crawlctl") if name in {*_RUNS_EVERY_SPIDER, "setuptools"})
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for below, line in _asked_for_by(name):
            waiting.append(below)
            yield line


def _asked_for_by(name: str) -> Iterator[tuple[str, str]]:
    for need in needs_of_package(name):
        below = canonicalize_name(need.name)
        yield below, f"{below}{need.specifier}"


def make(recipe: Recipe, target: Path, sources: Sources, children: Children) -> tuple[str, ...]:
    """Make the environment in a folder that is not there yet; return what was installed, as `name==version`.

    It may be moved afterwards, within its file system. Takes seconds to minutes; waits for the network.

    Raises:
        EggError: it could not be made, with the resolver's last words in one line; the folder may be there.

    """
    try:
        _run(children, [sys.executable, "-m", "venv", "--without-pip", str(target)], target.parent, sources.timeout_s)
        packages = _site_packages(target)
        (packages / PATHS_FILE).write_text("".join(f"{path}\n" for path in recipe.paths), encoding="utf-8")
        with (target / "pyvenv.cfg").open("a", encoding="utf-8") as config:
            # uv heeds it: scripts then find their Python wherever the folder lies.
            config.write("relocatable = true\n")
        for stale in target.glob("bin/[Aa]ctivate*"):
            stale.unlink()  # Each holds the folder's first name.
        _install(recipe, target, sources, children)
        _try(target, children)
        found = metadata.distributions(path=[str(packages)])
        return tuple(sorted(f"{canonicalize_name(each.name)}=={each.version}" for each in found))
    except OSError as error:
        raise EggError(f"its environment could not be made: {error.strerror or error}") from error


def _site_packages(target: Path) -> Path:
    return target / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def _install(recipe: Recipe, target: Path, sources: Sources, children: Children) -> None:
    wanted, limiting = target / "requirements.txt", target / "limits.txt"
    wanted.write_text("\n".join(recipe.lines), encoding="utf-8")
    limiting.write_text("\n".join(recipe.limits), encoding="utf-8")
    command = [_uv(), "pip", "install", "--python", str(target / "bin" / "python"), "--quiet", "--no-progress"]
    command += ["--color", "never", "--requirements", str(wanted), "--constraints", str(limiting)]
    environment = {"UV_CACHE_DIR": str(target.parent / CACHE), **without_secrets(os.environ), "UV_NO_PROGRESS": "1"}
    environment |= {"UV_PYTHON_DOWNLOADS": "never"}
    if sources.wheelhouse is not None:
        command += ["--find-links", str(sources.wheelhouse)]
    secrets: tuple[str, ...] = ()
    if sources.index_file is not None:
        # By the environment: every user of the machine can read a command line.
        environment["UV_DEFAULT_INDEX"] = url = _one_line(sources.index_file)
        parts = urlsplit(url)
        secrets = tuple(part for part in (parts.password, parts.username) if part)
    elif sources.wheelhouse is not None:
        command += ["--no-index"]
    _run(children, command, target.parent, sources.timeout_s, environment=environment, secrets=secrets)


def _try(target: Path, children: Children) -> None:
    """Make sure that what runs every spider can be loaded beside these packages."""
    command = [str(target / "bin" / "python"), "-c", _TRIAL]
    _run(children, command, target.parent, _TRIAL_TIMEOUT_S, what="the node's own part cannot be loaded beside them")


def _run(
    children: Children,
    command: Sequence[str],
    cwd: Path,
    timeout_s: float,
    *,
    environment: dict[str, str] | None = None,
    secrets: Collection[str] = (),
    what: str = "",
) -> None:
    clean = without_secrets(os.environ) if environment is None else environment
    ended = children.run(command, clean, timeout_s=timeout_s, doing=_DOING, cwd=cwd)
    if ended.code != 0:
        words = last_words(ended, secrets=secrets)
        raise EggError(f"its environment could not be made: {what and f'{what}: '}{words}")


def last_words(ended: Ended, *, secrets: Collection[str] = ()) -> str:
    """Return in one line why a program failed, as it told itself, without these secrets. Pure."""
    text = (ended.errors.strip() or ended.output).decode(errors="replace")
    for secret in secrets:
        text = text.replace(secret, "***")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(_NO_NEWS)]
    if lines and lines[0].startswith("Traceback"):
        lines = lines[-1:]
    said = "; ".join(line.removeprefix("error: ").removeprefix("cause: ") for line in lines)
    return said[:SHOWN_CHARS] or f"it ended with {ended.how} and said nothing"


def _one_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise EggError(f"its environment could not be made: index_file {path} cannot be read: {error}") from error


def _uv() -> str:
    from uv import find_uv_bin  # noqa: PLC0415 - a spider's process, which loads much of this room, never needs it

    try:
        return str(find_uv_bin())
    except FileNotFoundError as error:
        raise EggError("its environment could not be made: uv, which installs packages, is not here") from error
