"""Writes a node's `scrapyd.conf` out of the annotated sample: a node of the shared queue, or a stock one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolkit.config.paths import sample_file
from toolkit.model.errors import ConfigurationError

SCRAPYD = "scrapyd"
CRAWLCTL = "crawlctl"
PLUGIN_BEGINS = "# All from here to the end makes the node one of the shared queue"
_SECTION = re.compile(r"\[(?P<name>[^\]]+)\]")
_OPTION = re.compile(r"(?P<start>(?P<name>[a-z_]+)[ ]*=)")
_OPTION_NAME = re.compile(r"[a-z_]+")
_COLUMN = 18


def render(values: Mapping[str, str], *, crawlctl: Mapping[str, str]) -> str:
    """Return the sample with these values in its `[scrapyd]` and `[crawlctl]` sections, and all of its comments.

    An option that the sample does not have is added at its section's end. What Scrapyd reads back is exactly what was
    given: `%` is doubled, since Scrapyd reads the file with Python's interpolation.

    Raises:
        ConfigurationError: a value holds a line break or begins or ends with a space, or an option is none of
            Scrapyd's form; the file could not hold it. The value is not repeated.

    """
    return _filled(_sample(), {SCRAPYD: values, CRAWLCTL: crawlctl})


def render_stock(values: Mapping[str, str]) -> str:
    """Return the sample up to where the plug-in begins, with these values in its `[scrapyd]` section.

    Raises:
        ConfigurationError: as in `render`.

    """
    sample = _sample()
    begins = next(number for number, line in enumerate(sample) if line.startswith(PLUGIN_BEGINS))
    return _filled(sample[:begins], {SCRAPYD: values})


def _sample() -> list[str]:
    return sample_file("scrapyd.conf").read_text(encoding="utf-8").splitlines()


def _filled(sample: list[str], values: Mapping[str, Mapping[str, str]]) -> str:
    wanted = {name: {key: _line(key, value) for key, value in each.items()} for name, each in values.items()}
    ends: dict[str, int] = {}
    written: list[str] = []
    section = ""
    for line in sample:
        if heading := _SECTION.match(line):
            section = heading["name"]
        option = _OPTION.match(line) if section in wanted else None
        written.append(wanted[section].pop(option["name"], line) if option else line)
        if option:
            ends[section] = len(written)
    for name in sorted(ends, key=ends.__getitem__, reverse=True):
        written[ends[name] : ends[name]] = wanted[name].values()
    return "\n".join(written).rstrip("\n") + "\n"


def _line(name: str, value: str) -> str:
    if not _OPTION_NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no option of scrapyd.conf")
    if value != value.strip() or not value.isprintable():
        raise ConfigurationError(f"scrapyd.conf cannot hold this {name}: a line break, or a space at its begin or end")
    return f"{name:<{_COLUMN - 1}} = {value.replace('%', '%%')}".rstrip()
