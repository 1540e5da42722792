"""Reads single values and whole mappings of host variables out of a document; every mistake is noted where it stands.

Variables come back flat (`ssh.user`, `labels.region`), so that inheriting them key by key is one merge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import yaml

from toolkit.config.inventory.document import Document, Entry, is_null, is_quoted, text_of
from toolkit.config.inventory.references import References
from toolkit.config.nearest import did_you_mean
from toolkit.config.options import Form, Option, Scope, keys, option
from toolkit.config.values import Value, parse_value
from toolkit.model.errors import ConfigurationError

Variables = Mapping[str, Value]

LABELS = "labels"
LABEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KINDS = ("env", "file", "command")
_REFERENCE_WORDS = "{env: NAME}, {env: NAME, default: VALUE}, {file: PATH} or {command: [PROGRAM, ARGUMENT]}"
SECTIONS = ("ssh", "provision", "node")


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads the values of one document; without `references`, a value from elsewhere counts as not written."""

    document: Document
    references: References | None

    def variables(self, node: yaml.Node, *, what: str) -> Variables:
        """Return the host variables of one mapping, flat; what could not be read is left out and noted."""
        found: dict[str, Value] = {}
        for entry in self.known_entries(node, keys(Scope.HOST), what=what):
            if entry.key == LABELS:
                found.update(self._labels(entry))
            elif entry.key in SECTIONS:
                found.update(self._section(entry))
            else:
                found.update(self.value(option(Scope.HOST, entry.key), entry))
        return found

    def value(self, wanted: Option, entry: Entry) -> Variables:
        """Return the one value under its option's name, or nothing if it is a mistake or comes from elsewhere."""
        try:
            return self._read(wanted, entry.value)
        except ConfigurationError as error:
            self.document.blame(entry.place if is_null(entry.value) else entry.value, str(error))
            return {}

    def known_entries(self, node: yaml.Node, known: tuple[str, ...], *, what: str) -> tuple[Entry, ...]:
        """Return the entries whose key is known; each other key is a mistake, with the nearest known one."""
        entries = self.document.entries(node, what=what)
        for entry in entries:
            if entry.key not in known:
                near = did_you_mean(entry.key, known) or _place_of(entry.key) or f": {what} has {', '.join(known)}"
                self.document.blame(entry.place, f"unknown key {entry.key!r}{near}")
        return tuple(entry for entry in entries if entry.key in known)

    def _section(self, entry: Entry) -> Variables:
        found: dict[str, Value] = {}
        for inner in self.known_entries(entry.value, keys(Scope.HOST, within=entry.key), what=entry.key):
            found.update(self.value(option(Scope.HOST, f"{entry.key}.{inner.key}"), inner))
        return found

    def _labels(self, entry: Entry) -> Variables:
        found: dict[str, Value] = {}
        for label in self.document.entries(entry.value, what=LABELS):
            wanted = Option(f"{LABELS}.{label.key}", Scope.HOST, Form.TEXT, "", default_words="none")
            if LABEL_NAME.fullmatch(label.key):
                found.update(self.value(wanted, label))
            else:
                self.document.blame(
                    label.place, f"{label.key!r} is no label: letters, digits, '_', '-', '.' and '/', a letter first"
                )
        return found

    def _read(self, wanted: Option, node: yaml.Node) -> Variables:
        if isinstance(node, yaml.MappingNode):
            return self._reference(wanted, node)
        if is_null(node):
            if wanted.is_nullable:
                return {wanted.name: None}
            raise ConfigurationError(f"{wanted.name} has no value: it is {wanted.type_words}")
        text = text_of(node)
        if text is None:
            raise ConfigurationError(f"{wanted.name} is one value, not a list")
        if wanted.form in (Form.INTEGER, Form.NUMBER) and is_quoted(node):
            raise ConfigurationError(f"{wanted.name} is {wanted.type_words}, written without quotes")
        return {wanted.name: parse_value(wanted, text)}

    def _reference(self, wanted: Option, node: yaml.MappingNode) -> Variables:
        entries = {entry.key: entry for entry in self.document.entries(node, what=wanted.name)}
        kinds = [kind for kind in KINDS if kind in entries]
        allowed = (*kinds, "default") if kinds == ["env"] else tuple(kinds)
        if len(kinds) != 1:
            wrong = next((key for key in entries if key not in KINDS), "")
            near = did_you_mean(wrong, KINDS) if wrong else ""
            raise ConfigurationError(f"{wanted.name} is one value, or comes from {_REFERENCE_WORDS}{near}")
        for key, entry in entries.items():
            if key not in allowed:
                self.document.blame(entry.place, f"unknown key {key!r} beside {kinds[0]!r}: {_REFERENCE_WORDS}")
        look_up: Mapping[str, Callable[[Option, Mapping[str, Entry]], Variables]] = {
            "env": self._from_environment,
            "file": self._from_file,
            "command": self._from_command,
        }
        return look_up[kinds[0]](wanted, entries)

    def _from_environment(self, wanted: Option, entries: Mapping[str, Entry]) -> Variables:
        name = text_of(entries["env"].value)
        if name is None or not VARIABLE_NAME.fullmatch(name):
            raise ConfigurationError(f"{wanted.name} from env wants the name of an environment variable")
        # Read even if it is not needed now: a wrong default should not wait for the day when it is.
        fallback = self.value(wanted, entries["default"]) if "default" in entries else None
        if self.references is None:
            return {}
        text = self.references.variable(name)
        if text is not None:
            return _parsed(wanted, text, source=f"the environment variable {name}")
        if fallback is None:
            raise self.references.missing_variable(name)
        return fallback

    def _from_file(self, wanted: Option, entries: Mapping[str, Entry]) -> Variables:
        name = text_of(entries["file"].value)
        if not name:
            raise ConfigurationError(f"{wanted.name} from file wants a path")
        if self.references is None:
            return {}
        return _parsed(wanted, self.references.file(name, is_secret=wanted.is_secret), source=f"the file {name}")

    def _from_command(self, wanted: Option, entries: Mapping[str, Entry]) -> Variables:
        node = entries["command"].value
        words = [text_of(each) for each in node.value] if isinstance(node, yaml.SequenceNode) else []
        argv = tuple(word for word in words if word is not None)
        if not argv or not argv[0] or len(argv) != len(words):
            raise ConfigurationError(f"{wanted.name} from command wants a list of texts: [PROGRAM, ARGUMENT]")
        if self.references is None:
            return {}
        return _parsed(wanted, self.references.command(argv), source=f"the command {argv[0]}")


def _parsed(wanted: Option, text: str, *, source: str) -> Variables:
    try:
        return {wanted.name: parse_value(wanted, text, is_shown=False)}
    except ConfigurationError as error:
        raise ConfigurationError(f"what {source} gives is wrong: {error}") from error


def _place_of(key: str) -> str:
    """Say where a key belongs that is right elsewhere."""
    if key in keys(Scope.HOST):
        return ": it is a host variable, so it belongs under defaults, a host or a group's vars"
    if key in keys(Scope.INVENTORY):
        return ": it belongs at the top of the file"
    return ""
