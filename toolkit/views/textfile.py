"""Writes the cluster's numbers to a file for the textfile collector of node_exporter."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from toolkit.model.errors import ConfigurationError, UsageError

SUFFIX = ".prom"
READABLE = 0o644
"""node_exporter runs as a user of its own."""


def check_name(path: Path) -> None:
    """Refuse a file that node_exporter would not read.

    Raises:
        UsageError: its name does not end in `.prom`.

    """
    if path.suffix != SUFFIX:
        raise UsageError(f"{path} would not be read: node_exporter takes files that end in {SUFFIX}")


def write_textfile(path: Path, content: bytes) -> None:
    """Replace the file at once, so that whoever reads it finds the old numbers or the new ones, never a part.

    Raises:
        ConfigurationError: it cannot be written; what was there before still is.

    """
    draft: str | None = None
    try:
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), READABLE)
        Path(draft).replace(path)
    except OSError as error:
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space there" if is_full else "name a folder that exists and is yours"
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error
    finally:
        if draft is not None:
            with contextlib.suppress(OSError):
                Path(draft).unlink()
