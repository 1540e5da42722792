"""Reads the section `crons` of an inventory, the file that it names, or any such file: on demand, not with the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from toolkit.config.cron_options import CRON_NAME, CRON_NAME_SHAPE
from toolkit.config.cron_words import after_of, moment_of
from toolkit.config.inventory.alert_texts import seconds
from toolkit.config.inventory.document import Document, Entry, Place, is_null, text_of
from toolkit.config.inventory.references import References
from toolkit.config.inventory.variables import ValueReader
from toolkit.config.options import Form, Option, Scope, keys, option
from toolkit.model.crons import Cron, Late, Overlap
from toolkit.model.errors import CrawlctlError, InventoryError, Mistake
from toolkit.model.names import CrawlId, ProjectName, SpiderName

CRONS = "crons"
_HINT = "`crawlctl docs cron` describes every key; `crawlctl cron apply --dry-run` looks again"
_PAIRS = ("args", "settings")


@dataclass(frozen=True, slots=True)
class WrittenCron:
    """A cron as a file has it, where it stands there, and the pattern of hosts that it names.

    `says_paused` tells whether the file has a word on that; where not, it stays as it is.
    """

    cron: Cron
    on: str | None
    says_paused: bool
    file: str
    place: Place

    def mistake(self, text: str) -> Mistake:
        """Return a mistake at the place where the cron stands."""
        return Mistake(self.file, self.place.line, self.place.column, text)


def load_crons(path: Path, *, environ: Mapping[str, str] | None = None) -> tuple[WrittenCron, ...] | None:
    """Return the crons of an inventory, or of a file with nothing but crons; `None`: an inventory without any.

    Raises:
        ConfigurationError: a file cannot be read.
        InventoryError: something in it is wrong; it carries every mistake, in the order of the file.

    """
    document = Document.read(path)
    section = _section(document)
    if section is not None and (named := text_of(section)) is not None:
        path = path.parent / named
        document = Document.read(path)
        section = _section(document)
    references = References(folder=path.parent, environ=os.environ if environ is None else environ)
    found = None if section is None else _read(ValueReader(document, references), section)
    if document.mistakes:
        raise mistaken(document.mistakes)
    return found


def mistaken(mistakes: tuple[Mistake, ...] | list[Mistake]) -> InventoryError:
    """Return the error of a file of crons."""
    return InventoryError(mistakes, hint=_HINT)


def _section(document: Document) -> yaml.Node | None:
    """Return what names the crons: the section of an inventory, or all of a file that is none."""
    root = document.root
    if root is None:
        if not document.mistakes:
            document.blame(Place(1, 1), "there is nothing in it")
        return None
    entries = {entry.key: entry.value for entry in document.entries(root, what="the file")}
    if CRONS in entries:
        return None if is_null(entries[CRONS]) else entries[CRONS]
    return None if "hosts" in entries else root


def _read(reader: ValueReader, section: yaml.Node) -> tuple[WrittenCron, ...]:
    found = []
    for entry in reader.document.entries(section, what=CRONS):
        if not re.search(CRON_NAME, entry.key):
            reader.document.blame(entry.place, f"{entry.key!r} cannot be a name: {CRON_NAME_SHAPE}")
        elif (cron := _Reader(reader, entry).read()) is not None:
            found.append(cron)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Reader:
    """One cron being read; every mistake is noted where it stands."""

    reader: ValueReader
    entry: Entry

    def read(self) -> WrittenCron | None:
        document, name = self.reader.document, self.entry.key
        before = len(document.mistakes)
        entries = self.reader.known_entries(self.entry.value, keys(Scope.CRON), what=f"cron {name}")
        parts = {each.key: each for each in entries}
        values: dict[str, Any] = {}
        for key in parts.keys() - set(_PAIRS):
            values |= self.reader.value(option(Scope.CRON, key), parts[key])
        if not values.get("spider") and "spider" not in parts:
            document.blame(self.entry.place, f"cron {name} names no spider")
        timezone = str(values.get("timezone") or "UTC")
        changes = {
            "after": self._worded(parts, values, "after", after_of),
            "starts_at": self._worded(parts, values, "start", lambda text: moment_of(text, timezone)),
            "ends_at": self._worded(parts, values, "end", lambda text: moment_of(text, timezone, is_end=True)),
            **{key: self._pairs(parts[key]) for key in _PAIRS if key in parts},
        }
        if len(document.mistakes) > before:
            return None
        on = values.get("on")
        cron = Cron(name, SpiderName(values["spider"]), timezone=timezone, **{**_plain(values), **changes})
        return WrittenCron(cron, on, "paused" in values, document.file, self.entry.place)

    def _worded(self, parts: Mapping[str, Entry], values: Mapping[str, Any], key: str, read: Any) -> Any:
        if values.get(key) is None:
            return None
        try:
            return read(values[key])
        except CrawlctlError as error:
            self.reader.document.blame(parts[key].value, f"{key}: {error.message}; {error.hint}")
            return None

    def _pairs(self, section: Entry) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in self.reader.document.entries(section.value, what=section.key):
            wanted = Option(f"{section.key}.{entry.key}", Scope.CRON, Form.TEXT, "", default_words="none")
            for value in self.reader.value(wanted, entry).values():
                found[entry.key] = str(value)
        return found


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that need no more than another name or type."""
    found: dict[str, Any] = {key: values[key] for key in ("at", "comment", "workers", "attempts") if key in values}
    if "priority" in values:
        found["priority"] = float(values["priority"])
    types = {"project": ProjectName, "crawl": CrawlId, "overlap": Overlap, "late": Late}
    found |= {key: read(values[key]) for key, read in types.items() if values.get(key) is not None}
    spans = {"jitter": "jitter_s", "timeout": "timeout_s"}
    found |= {field: seconds(values[key]) for key, field in spans.items() if values.get(key) is not None}
    return found | {"is_paused": values.get("paused") == "true"}
