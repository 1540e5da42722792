"""What this node answers when it is asked through Redis: parts of its jobs' files, and what is installed here.

Nothing here runs anything, and no file is opened but a job's own below the folder of logs or of items.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from toolkit.model.calls import Question
from toolkit.model.errors import RefusedError
from toolkit.store.interfaces_calls import MAX_PIECE_BYTES
from toolkit.store.wire_calls import ITEMS, LOG, SOFTWARE, FileHead, write_head

MAX_PART_BYTES = 1024 * 1024
MAX_POSITION = 2**60

Answer = Callable[[Question], Iterator[bytes]]


def answers(*, logs_dir: Path | None, items_dir: str) -> Mapping[str, Answer]:
    """Return what can be asked, by its word; an answer raises `RefusedError` or `OSError` when there is none."""
    return {
        LOG: lambda question: file_part(logs_dir, question, ending="log"),
        ITEMS: lambda question: file_part(folder_of(items_dir), question, ending="jl"),
        SOFTWARE: lambda _: software(),
    }


def folder_of(items_dir: str) -> Path | None:
    """Return the folder that Scrapyd's `items_dir` means; `None` where there is none.

    Raises:
        RefusedError: the items go elsewhere, so they are not here.

    """
    if not items_dir:
        return None
    parsed = urlsplit(items_dir)
    if parsed.scheme.lower() not in {"", "file"}:
        raise RefusedError(f"its items go to {parsed.scheme}://, not into a folder")
    return Path(parsed.path).absolute()


def file_part(folder: Path | None, question: Question, *, ending: str) -> Iterator[bytes]:
    """Yield a head, then at most 1 MiB of a job's file: from `begin` on, or with `end` its last bytes.

    Raises:
        RefusedError: the names are none, or lead out of the folder.

    """
    most = min(_whole(question, "most", MAX_PART_BYTES), MAX_PART_BYTES)
    path = None if folder is None else path_of(folder, question, ending=ending)
    try:
        # What is no file must not keep us waiting: a spider may have laid a pipe there.
        file = None if path is None else os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except (FileNotFoundError, NotADirectoryError):
        file = None
    if file is None:
        yield write_head(FileHead(0, None))
        return
    with file:
        # Of what was opened, so that nothing comes between the look and the reading.
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise RefusedError("it is no file")
        size = status.st_size
        begin = max(0, size - most) if "end" in question.args else _whole(question, "begin", 0)
        yield write_head(FileHead(begin, size, formatdate(status.st_mtime, usegmt=True)))
        file.seek(begin)
        while most > 0 and (piece := file.read(min(most, MAX_PIECE_BYTES))):
            most -= len(piece)
            yield piece


def path_of(folder: Path, question: Question, *, ending: str) -> Path:
    """Return the path of a job's file, as Scrapyd lays it out.

    Raises:
        RefusedError: a name is no plain name, or the file lies elsewhere.

    """
    names = [question.args.get(each, "") for each in ("project", "spider", "job")]
    for name in names:
        if not name or name in {".", ".."} or any(character in name for character in "/\\\0"):
            raise RefusedError(f"{name[:60]!r} is no name of a project, spider or job")
    project, spider, job = names
    path = folder / project / spider / f"{job}.{ending}"
    if not path.resolve().is_relative_to(folder.resolve()):
        raise RefusedError(f"the {ending} file of {job[:60]} lies outside of its folder")
    return path


def software() -> Iterator[bytes]:
    """Yield the versions of all distributions that are installed where Scrapyd runs, as one JSON object by name."""
    found = {each.metadata["Name"]: each.version for each in metadata.distributions() if each.metadata["Name"]}
    text = json.dumps(dict(sorted(found.items()))).encode()
    for begin in range(0, len(text), MAX_PIECE_BYTES):
        yield text[begin : begin + MAX_PIECE_BYTES]


def _whole(question: Question, name: str, default: int) -> int:
    text = question.args.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(MAX_POSITION))):
        raise RefusedError(f"{name} should be a whole number")
    return int(text)
