"""Reads what a project says it needs: `requirements.txt` beside its `scrapy.cfg`, else the `pyproject.toml` there.

Only what every machine could follow is taken. What is of this machine alone, or says where packages come from, is left
out with a remark: a node takes packages from where its own configuration says.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from toolkit.config.requirements import normalised
from toolkit.model.errors import EggError
from toolkit.rollout.builders import read_pyproject
from toolkit.rollout.tree import read_file

FILE = "requirements.txt"
NO_CHECK_HINT = "mend the line, or leave the requirements out with --no-check-deps"
_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash[=\s]\S+")
_FURTHER = re.compile(r"(?P<option>-r|--requirement|-c|--constraint)[=\s]*(?P<file>\S.*)")
_EDITABLE = re.compile(r"(-e|--editable)[=\s]*")
_LOCAL = re.compile(r"\.{0,2}[/\\]|\.{1,2}$|[A-Za-z]:[/\\]|file:|~|\S+\.(whl|tar\.gz|zip)\s*(;|$)")
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ProjectNeeds:
    """The requirements, normalised and sorted; `remarks` say what was left out of them."""

    lines: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(slots=True)
class _Read:
    """What is gathered from one file and those that it names."""

    root: Path
    needs: set[str] = field(default_factory=set)
    limits: set[str] = field(default_factory=set)
    remarks: dict[str, None] = field(default_factory=dict)
    seen: set[tuple[Path, bool]] = field(default_factory=set)


def project_needs(root: Path) -> ProjectNeeds:
    """Return what the project needs.

    `-r` files inside the project are followed; what `-c` files say narrows the requirements of the same names. Left out
    with a remark: hashes, editable installs, paths, options about indexes.

    Raises:
        EggError: a line is no requirement (with file and line), or holds a password; or a file cannot be read.

    """
    root = root.resolve()
    read = _Read(root)
    if (root / FILE).is_file():
        _follow(read, root / FILE, is_limit=False)
    else:
        for text in _of_pyproject(root):
            _add(read, str(text), "pyproject.toml", is_limit=False)
    return ProjectNeeds(tuple(sorted(_narrowed(read))), tuple(read.remarks))


def _of_pyproject(root: Path) -> list[object]:
    project = read_pyproject(root).get("project", {})
    found = project.get("dependencies", []) if isinstance(project, dict) else []
    return found if isinstance(found, list) else []


def _follow(read: _Read, path: Path, *, is_limit: bool) -> None:
    if (path, is_limit) in read.seen:
        return
    read.seen.add((path, is_limit))
    name = path.relative_to(read.root).as_posix()
    for number, line in _lines(_text(path, name)):
        where = f"{name}, line {number}"
        if further := _FURTHER.match(line):
            is_further_limit = is_limit or further["option"] in {"-c", "--constraint"}
            _follow(read, _inside(read.root, path, further["file"], where), is_limit=is_further_limit)
        else:
            _add(read, line, where, is_limit=is_limit)


def _text(path: Path, name: str) -> str:
    content = read_file(path, name=name)
    encoding = next((encoding for mark, encoding in _MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise EggError(f"{name} cannot be read: it is not UTF-8 text") from error


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each whole line without comments, with the number of its first; a backslash joins it with the next."""
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            begun += line[:-1]
            continue
        whole = _COMMENT.sub("", begun + line).strip()
        if whole:
            yield first, whole
        begun, first = "", 0
    if whole := _COMMENT.sub("", begun).strip():
        yield first, whole


def _inside(root: Path, path: Path, named: str, where: str) -> Path:
    further = (path.parent / named.strip("\"'")).resolve()
    if not further.is_relative_to(root) or not further.is_file():
        raise EggError(f"{where} names {named:.200}, which is no file in the project", hint=NO_CHECK_HINT)
    return further


def _add(read: _Read, line: str, where: str, *, is_limit: bool) -> None:
    text = _HASH.sub("", f" {line}").strip()
    if text != line:
        read.remarks[f"{where.partition(',')[0]}: hashes are not checked on the nodes"] = None
    if _EDITABLE.sub("", text) in {".", "./"}:
        return  # The project itself, which is in the egg.
    if _EDITABLE.match(text) or _LOCAL.match(text):
        read.remarks[f"{where}: left out, since it is of this machine alone: {_shown(text)}"] = None
    elif text.startswith("-"):
        # Its value may hold a password.
        option = re.split(r"[=\s]", text, maxsplit=1)[0]
        read.remarks[f"{where}: {option} is left out; nodes take packages from where their configuration says"] = None
    elif "@" in text and re.search(r"@\s*file:", text):
        read.remarks[f"{where}: left out, since it is of this machine alone: {_shown(text.partition('@')[0])}"] = None
    else:
        try:
            (read.limits if is_limit else read.needs).add(normalised(text))
        except ValueError as error:
            raise EggError(f"{where}: {error}", hint=NO_CHECK_HINT) from error


def _shown(text: str) -> str:
    return text.strip()[:_MAX_SHOWN]


def _narrowed(read: _Read) -> Iterator[str]:
    limits = [Requirement(line) for line in read.limits]
    for line in read.needs:
        need = Requirement(line)
        for limit in limits:
            if _is_same(need, limit):
                need.specifier &= limit.specifier
        yield normalised(str(need))


def _is_same(need: Requirement, limit: Requirement) -> bool:
    """Tell whether a limit is one of this requirement; one under a marker of its own holds only elsewhere, perhaps."""
    has_same_name = canonicalize_name(need.name) == canonicalize_name(limit.name)
    return has_same_name and not need.url and not limit.url and limit.marker in (None, need.marker)


def only_of(lines: tuple[str, ...], names: frozenset[str]) -> tuple[str, ...]:
    """Return the requirements that ask for one of these packages (normalised names)."""
    return tuple(line for line in lines if canonicalize_name(Requirement(line).name) in names)
