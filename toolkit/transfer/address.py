"""Where items go to and seeds come from: a file, standard output, or a database, whose password is never shown."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote

from toolkit.config.options import SINK_VARIABLE
from toolkit.model.errors import ConfigurationError, UsageError
from toolkit.model.hosts import Secret

DEFAULT_TABLE = "items"
_MONGO = ("mongodb", "mongodb+srv")


class PlaceKind(StrEnum):
    """What is at a place."""

    FILE = "file"
    STDOUT = "stdout"
    SQL = "sql"
    MONGO = "mongo"


@dataclass(frozen=True, slots=True)
class Place:
    """One place. `shown` is safe to print; `url` is the whole URL, or the file's path."""

    kind: PlaceKind
    url: Secret
    shown: str

    @property
    def path(self) -> Path:
        """The file; only where the kind is one."""
        return Path(self.url.reveal())

    @property
    def identity(self) -> str:
        """The place by a name that no other has, also on another machine where it is a file of this one."""
        if self.kind is PlaceKind.STDOUT or (self.kind is not PlaceKind.FILE and not self.is_local_database):
            return self.shown
        if self.kind is PlaceKind.FILE:
            return f"file://{platform.node()}{self.path.absolute()}"
        _, _, path = self.shown.partition(":///")
        return f"sqlite://{platform.node()}{Path(path).absolute()}"

    @property
    def is_local_database(self) -> bool:
        """It is a database in a file of this machine."""
        return self.shown.startswith("sqlite")

    def without_password(self, text: str) -> str:
        """Return somebody else's text about this place without the password, if it holds it."""
        authority = self.url.reveal().partition("://")[2].rpartition("@")[0]
        password = authority.partition(":")[2]
        for secret in {password, unquote(password)} - {""}:
            text = text.replace(secret, "***")
        return text


def parse_place(text: str) -> Place:
    """Return the place that a text names: `-`, a path, or a URL of SQLAlchemy's or MongoDB's.

    Raises:
        UsageError: there is no text, or it names something of another kind, such as a web address.

    """
    if not text.strip():
        raise UsageError("an empty text names no place", hint="give a file, - or a database's URL")
    if text == "-":
        return Place(PlaceKind.STDOUT, Secret("-"), "stdout")
    scheme, colon, rest = text.partition("://")
    if not colon:
        return Place(PlaceKind.FILE, Secret(text), text)
    shown = f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"
    if scheme in _MONGO:
        return Place(PlaceKind.MONGO, Secret(text), shown)
    if scheme in {"http", "https", "ftp", "file", "s3", "redis", "rediss"}:
        raise UsageError(
            f"{scheme}:// is no place that items go to", hint="a file, -, sqlite:///, postgresql:// or mongodb://"
        )
    return Place(PlaceKind.SQL, Secret(text), shown)


def find_place(text: str | None, *, file: Path | None, environ: Mapping[str, str]) -> Place:
    """Return the place that is named by a text, by the one line of a file, or by `$CRAWLCTL_SINK`.

    A file or the variable keeps a password out of the list of processes.

    Raises:
        UsageError: none of them names a place, or two do.
        ConfigurationError: the file cannot be read, or is empty.

    """
    if text is not None and file is not None:
        raise UsageError("the place is named twice", hint="give --to or --to-file, not both")
    if file is not None:
        return parse_place(read_secret(file))
    named = text if text is not None else environ.get(SINK_VARIABLE, "")
    if not named:
        raise UsageError(
            "nothing says where the items go to", hint=f"--to FILE.jsonl, --to-file PATH or {SINK_VARIABLE}"
        )
    return parse_place(named)


def read_secret(file: Path) -> str:
    """Return the text of a file that holds a URL, without the newline at its end.

    Raises:
        ConfigurationError: it cannot be read, or is empty.

    """
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigurationError(f"{file} cannot be read: {why}", hint="it should hold one URL") from error
    if not text:
        raise ConfigurationError(f"{file} is empty", hint="it should hold one URL")
    return text
