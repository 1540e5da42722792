"""Reads ssh_config(5): paramiko's reader, with `Include` added, which it does not know."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paramiko import SSHException
from paramiko.config import SSHConfig

from toolkit.model.errors import ConfigurationError

OWN = Path("~/.ssh/config")
SHARED = Path("/etc/ssh/ssh_config")
MAX_DEPTH = 8
_LINE = re.compile(r"^\s*(host|match|include)(?:\s*=\s*|\s+)(.+?)\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ConfigText:
    """The whole of an ssh_config as one text, what it includes laid in."""

    text: str
    place: str

    def lookup(self, name: str, given: Mapping[str, str]) -> Mapping[str, object]:
        """Return what it says of a name, the given settings going before it.

        Raises:
            ConfigurationError: it is not written as ssh_config(5) says.

        """
        first = "\n".join(f"{key} {value}" for key, value in given.items())
        try:
            return dict(SSHConfig.from_text(f"{first}\n{self.text}").lookup(name))
        except (SSHException, ValueError, KeyError) as error:
            raise ConfigurationError(
                f"{self.place} cannot be read: {error}", hint=f"ssh -G {name} checks it"
            ) from error


def read_config(path: str | None) -> ConfigText:
    """Return the file named, or else the user's own followed by the machine's, as ssh(1) does.

    Raises:
        ConfigurationError: the file named is not there, or one cannot be read.

    """
    if path is not None:
        own = Path(path).expanduser()
        if not own.is_file():
            raise ConfigurationError(f"there is no ssh_config at {own}", hint="correct ssh.config in the inventory")
        return ConfigText(_read(own, 0), str(own))
    texts = [_read(each.expanduser(), 0) for each in (OWN, SHARED) if each.expanduser().is_file()]
    # Each file begins outside of any Host.
    return ConfigText("\nHost *\n".join(texts), str(OWN))


def _read(path: Path, depth: int) -> str:
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from error
    if depth >= MAX_DEPTH:
        raise ConfigurationError(f"{path}: too many files include each other")
    lines: list[str] = []
    block = "Host *"
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            lines.append(line)
        elif found[1].lower() == "include":
            lines += [_read(each, depth + 1) for pattern in found[2].split() for each in _included(pattern, path)]
            lines.append(block)
        else:
            block = line
            lines.append(line)
    return "\n".join(lines)


def _included(pattern: str, path: Path) -> list[Path]:
    """Return the files; a relative name is one beside the user's own file, or beside the machine's."""
    whole = Path(pattern.strip('"')).expanduser()
    if not whole.is_absolute():
        folder = path.parent if path.parent == SHARED.parent else OWN.expanduser().parent
        whole = folder / whole
    return [Path(each) for each in sorted(glob.glob(str(whole))) if Path(each).is_file()]  # noqa: PTH207 - a pattern
