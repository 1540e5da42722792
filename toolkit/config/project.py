"""Finds a Scrapy project by its `scrapy.cfg` and reads what scrapyd-client's users wrote there, without Scrapy."""

from __future__ import annotations

import os
from configparser import ConfigParser, Error, InterpolationError
from dataclasses import dataclass
from pathlib import Path

from toolkit.config.paths import closest_file
from toolkit.model.errors import ProjectError, UsageError
from toolkit.model.hosts import Secret
from toolkit.model.names import ProjectName, check_project

CFG_NAME = "scrapy.cfg"
_DEPLOY = "deploy"
_HINT = "run it in a Scrapy project's folder, or name that folder; `scrapy startproject NAME` makes one"


@dataclass(frozen=True, slots=True)
class DeployTarget:
    """One `[deploy]` or `[deploy:NAME]` section."""

    name: str
    url: str | None
    project: str | None = None
    username: str | None = None
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class ScrapyProject:
    """A project's folder and what its `scrapy.cfg` says; `declares_build` if it brings its own way to be built."""

    root: Path
    name: ProjectName
    settings_module: str
    targets: tuple[DeployTarget, ...] = ()
    declares_build: bool = False


def find_project(start: Path) -> ScrapyProject:
    """Return the project whose `scrapy.cfg` is closest: in `start` or in a folder above it.

    Its name is `[deploy] project`, else the first part of the settings module.

    Raises:
        ProjectError: there is none, it cannot be read, it names no settings module, or its name is unusable.

    """
    config_path = _closest(start)
    config = _read(config_path)
    settings_module = _get(config, "settings", "default")
    if not settings_module:
        raise ProjectError(
            f"{config_path} names no settings module",
            hint="it needs the lines `[settings]` and `default = PACKAGE.settings`",
        )
    name = _get(config, _DEPLOY, "project") or settings_module.partition(".")[0]
    try:
        project = check_project(name)
    except UsageError as error:
        raise ProjectError(f"{config_path}: {error}", hint="name it by `project = NAME` under [deploy]") from error
    root = config_path.parent
    return ScrapyProject(root, project, settings_module, _targets(config), _declares_build(root))


def read_targets(config_path: Path) -> tuple[DeployTarget, ...]:
    """Return the deploy targets of one `scrapy.cfg`, whether it describes a whole project or not.

    Raises:
        ProjectError: the file cannot be read.

    """
    return _targets(_read(config_path))


def _closest(start: Path) -> Path:
    folder = start.absolute()
    if not folder.exists():
        raise ProjectError(f"the project's folder {start} does not exist", hint=_HINT)
    if folder.name == CFG_NAME and folder.is_file():
        return folder
    found = closest_file(CFG_NAME, start=folder)
    if found is None:
        raise ProjectError(f"there is no Scrapy project ({CFG_NAME}) in {start} or above", hint=_HINT)
    return found


def _read(path: Path) -> ConfigParser:
    config = ConfigParser()
    try:
        config.read_string(path.read_text(encoding="utf-8-sig"), source=str(path))
    except OSError as error:
        raise ProjectError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProjectError(f"{path} cannot be read: it is not UTF-8 text") from error
    except Error as error:
        raise ProjectError(f"{path} cannot be read: {_first_line(error)}") from None
    return config


def _first_line(error: Error) -> str:
    """Leave out the offending line itself, which may hold a password, but keep its number."""
    line = getattr(error, "lineno", None) or next((number for number, _ in getattr(error, "errors", ())), None)
    kind = type(error).__name__.removesuffix("Error")
    return f"line {line} is wrong ({kind})" if line else kind


def _get(config: ConfigParser, section: str, option: str) -> str | None:
    """Return an option's text, or `None`; one that Python cannot interpolate counts as it stands in the file."""
    try:
        text = config.get(section, option, fallback="")
    except InterpolationError:
        text = config.get(section, option, raw=True, fallback="")
    return os.path.expandvars(text).strip() or None


def _targets(config: ConfigParser) -> tuple[DeployTarget, ...]:
    """Read the targets as scrapyd-client does: `[deploy]` is itself one if it has a URL, and the base of the others."""
    names = {section: section.removeprefix(f"{_DEPLOY}:") for section in config.sections() if _is_target(section)}
    if _get(config, _DEPLOY, "url"):
        names = {_DEPLOY: "default", **names}
    return tuple(_target(config, section, name) for section, name in names.items())


def _is_target(section: str) -> bool:
    return section.startswith(f"{_DEPLOY}:")


def _target(config: ConfigParser, section: str, name: str) -> DeployTarget:
    def value(option: str) -> str | None:
        return _get(config, section, option) or _get(config, _DEPLOY, option)

    def secret(text: str | None) -> Secret | None:
        return None if text is None else Secret(text)

    return DeployTarget(name, value("url"), value("project"), value("username"), secret(value("password")))


def _declares_build(root: Path) -> bool:
    """Tell whether there is a `setup.py`, or a `pyproject.toml` that describes a package and not just tools."""
    if (root / "setup.py").is_file():
        return True
    path = root / "pyproject.toml"
    if not path.is_file():
        return False
    import tomllib  # noqa: PLC0415 - most projects have no such file

    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProjectError(f"{path} cannot be read: {error}") from error
    return "build-system" in tables or "project" in tables
