"""Writes a node's `scrapyd.conf` out of the annotated sample."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolkit.config.paths import sample_file
from toolkit.model.errors import ConfigurationError

_SECTION = re.compile(r"\[(?P<name>[^\]]+)\]")
_OPTION = re.compile(r"(?P<start>(?P<name>[a-z_]+)[ ]*=)")
_OPTION_NAME = re.compile(r"[a-z_]+")
_COLUMN = 18


def render(values: Mapping[str, str]) -> str:
    """Return the sample with these values in its `[scrapyd]` section, and all of its comments.

    An option that the sample does not have is added at the section's end. What Scrapyd reads back is exactly what was
    given: `%` is doubled, since Scrapyd reads the file with Python's interpolation.

    Raises:
        ConfigurationError: a value holds a line break or begins or ends with a space, or an option is none of
            Scrapyd's form; the file could not hold it. The value is not repeated.

    """
    lines = {name: _line(name, value) for name, value in values.items()}
    sample = sample_file("scrapyd.conf").read_text(encoding="utf-8").splitlines()
    written: list[str] = []
    end = len(sample)
    section = None
    for line in sample:
        heading = _SECTION.match(line)
        option = _OPTION.match(line)
        if heading:
            section = heading["name"]
        is_ours = section == "scrapyd" and option is not None
        written.append(lines.pop(option["name"], line) if is_ours and option else line)
        if is_ours:
            end = len(written)
    return "\n".join([*written[:end], *lines.values(), *written[end:]]) + "\n"


def _line(name: str, value: str) -> str:
    if not _OPTION_NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no option of scrapyd.conf")
    if value != value.strip() or not value.isprintable():
        raise ConfigurationError(f"scrapyd.conf cannot hold this {name}: a line break, or a space at its begin or end")
    return f"{name:<{_COLUMN - 1}} = {value.replace('%', '%%')}".rstrip()
