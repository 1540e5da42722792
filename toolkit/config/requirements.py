"""What a release needs installed beside it: lines as pip writes them, carried in the egg, judged where it is to run.

Pure but for reading an egg. The operator writes these files into the egg, so they belong to its digest; a node, or
whoever else has the egg, reads them from there. Needs nothing but Python and `packaging`.
"""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from toolkit.model.errors import EggError

NEEDS_FILE = "EGG-INFO/crawlctl-requirements.txt"
"""One requirement a line, sorted; pip could read it."""

ENVIRONMENT_FILE = "EGG-INFO/crawlctl-own-environment"
"""That it is there, empty but for a line's end, says: run this with an environment of its own that has them."""

MAX_NEEDS_BYTES = 200_000
_MAX_DEPTH = 8
_SHOWN_CHARS = 200
_USER_IN_URL = re.compile(r"://[^@\s]*@")
_REMOTE_SCHEMES = ("https", "http", "git+https", "git+ssh", "git+http")

Find = Callable[[str], metadata.Distribution | None]


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements of one egg, normalised and sorted, and whether it is to have an environment of its own."""

    lines: tuple[str, ...] = ()
    has_environment: bool = False

    def files(self) -> dict[str, bytes]:
        """Return what says so inside an egg; nothing where nothing is needed."""
        if not self.lines:
            return {}
        files = {NEEDS_FILE: "".join(f"{line}\n" for line in self.lines).encode()}
        return {**files, ENVIRONMENT_FILE: b"\n"} if self.has_environment else files


@dataclass(frozen=True, slots=True)
class Lack:
    """A requirement that an environment does not meet; `found` is the version that it has instead, if any."""

    need: str
    found: str | None

    def __str__(self) -> str:
        return f"{self.need} (has {self.found or 'none'})"


def normalised(text: str) -> str:
    """Return a requirement in the one form that all its spellings share.

    Raises:
        ValueError: it is none, or it is a file of one machine, or its address holds a password; the message does not
            repeat the latter.

    """
    try:
        need = Requirement(text)
    except InvalidRequirement as error:
        shown = _USER_IN_URL.sub("://***@", text)[:_SHOWN_CHARS]
        # Without its cause, which shows all of the text.
        raise ValueError(f"{shown} is no requirement: {str(error).splitlines()[0]}") from None
    name = canonicalize_name(need.name)
    if need.url is not None:
        _check_url(name, need.url)
    extras = f"[{','.join(sorted(map(canonicalize_name, need.extras)))}]" if need.extras else ""
    versions = f" @ {need.url}" if need.url else ",".join(sorted(map(str, need.specifier)))
    marker = f"{' ' if need.url else ''}; {need.marker}" if need.marker else ""
    return f"{name}{extras}{versions}{marker}"


def _check_url(name: str, url: str) -> None:
    # "$" as in ${TOKEN}: pip would put a secret there.
    parts = urlsplit(url)
    has_secret = parts.password is not None or "$" in url or (parts.username or "git") != "git"
    if has_secret:
        raise ValueError(f"the address of {name} holds a user name or password, which would travel to every node")
    if parts.scheme not in _REMOTE_SCHEMES:
        raise ValueError(f"{name} is asked for from {parts.scheme or 'a path'}, which is this machine's own")


def needs_of(egg: Path) -> Needs:
    """Return what an egg says that it needs; nothing where it says nothing, or is no ZIP file at all.

    Raises:
        EggError: what it says is not readable as requirements.

    """
    try:
        with zipfile.ZipFile(egg) as archive:
            return read_needs(archive)
    except (OSError, zipfile.BadZipFile):
        return Needs()


def read_needs(archive: zipfile.ZipFile) -> Needs:
    """Do as `needs_of` with an egg that is open already."""
    names = set(archive.namelist())
    if NEEDS_FILE not in names:
        return Needs()
    if archive.getinfo(NEEDS_FILE).file_size > MAX_NEEDS_BYTES:
        raise EggError(f"{NEEDS_FILE} in the egg is larger than {MAX_NEEDS_BYTES // 1000} kB")
    try:
        text = archive.read(NEEDS_FILE).decode()
        lines = sorted({normalised(line) for line in text.splitlines() if line.strip()})
    except (ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise EggError(f"{NEEDS_FILE} in the egg cannot be used: {error}") from error
    return Needs(tuple(lines), has_environment=bool(lines) and ENVIRONMENT_FILE in names)


def lacking(lines: Sequence[str], *, find: Find | None = None) -> tuple[Lack, ...]:
    """Return which requirements are not met, in their order; `find` looks packages up, by default in this process.

    Requirements whose marker does not fit this Python and platform are met. One with an address is met by any version
    of its name. Extras are met when what the installed package asks for under them is.
    """
    look = find or installed
    found: dict[str, Lack] = {}
    for line in lines:
        for lack in _lacks(Requirement(line), line, look, "", _MAX_DEPTH):
            found.setdefault(str(lack), lack)
    return tuple(found.values())


def installed(name: str) -> metadata.Distribution | None:
    """Return a package of this process' environment as it is on disk now."""
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def lacking_by_version(lines: Sequence[str], versions: Mapping[str, str]) -> tuple[Lack, ...]:
    """Do as `lacking` for another machine of whose packages only names and versions are known; extras count as met."""
    known = {canonicalize_name(name): version for name, version in versions.items()}
    lacks = []
    for line in lines:
        need = Requirement(line)
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            version = known.get(canonicalize_name(need.name))
            if not _is_met(need, version):
                lacks.append(Lack(line, version))
    return tuple(lacks)


def needs_of_package(name: str, *, extras: Iterable[str] = ()) -> Iterator[Requirement]:
    """Yield what an installed package asks for here, with these extras; nothing for one that is not installed."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return
    wanted = (*extras, "")
    for need in _asked_for_by(package):
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in wanted):
            yield need


def in_words(lacks: Sequence[Lack]) -> str:
    """Say in one line what is lacking, and what mends it."""
    return f"lacks {', '.join(map(str, lacks))}: crawlctl deploy --sync-deps installs what a release needs"


def _lacks(need: Requirement, line: str, find: Find, extra: str, depth: int) -> Iterator[Lack]:
    if need.marker is not None and not need.marker.evaluate({"extra": extra}):
        return
    package = find(canonicalize_name(need.name))
    version = package.version if package is not None else None
    if package is None or not _is_met(need, version):
        yield Lack(line, version)
        return
    if not depth:
        return
    for wanted in need.extras:
        for below in _asked_for_by(package):
            # What it needs without the extra, it has had to need when it was installed.
            if below.marker is not None and not below.marker.evaluate({"extra": ""}):
                yield from _lacks(below, _plain(below), find, wanted, depth - 1)


def _asked_for_by(package: metadata.Distribution) -> Iterator[Requirement]:
    for text in package.requires or ():
        with contextlib.suppress(InvalidRequirement):  # A package of long ago; pip would not follow it either.
            yield Requirement(text)


def _plain(need: Requirement) -> str:
    """Return a requirement without its marker, which only says under which extra it stands."""
    return str(need).partition(";")[0].strip()


def _is_met(need: Requirement, version: str | None) -> bool:
    if version is None:
        return False
    try:
        return need.url is not None or need.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return not need.specifier
