"""Reads the section `alerts` of an inventory, or the file that it names: on demand, and not with the rest.

So no command but those about alerts needs the secrets of sinks, and a password that is missing stops nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from toolkit.config.inventory.alert_rules import read_rule
from toolkit.config.inventory.alert_texts import seconds, texts
from toolkit.config.inventory.document import Document, Entry, Place, is_null, text_of
from toolkit.config.inventory.references import References
from toolkit.config.inventory.variables import ValueReader
from toolkit.config.options import ALERT_NAME, ALERT_NAME_SHAPE, Scope, keys, option
from toolkit.model.alerts import Alerts, MailTls, Rule, Sink, SinkKind
from toolkit.model.errors import InventoryError
from toolkit.model.hosts import Secret

ALERTS = "alerts"
_HINT = "`crawlctl docs alerts` describes every key; `crawlctl alerts apply --dry-run` looks again"
_NEEDS: Mapping[SinkKind, tuple[str, ...]] = {
    SinkKind.WEBHOOK: ("url",),
    SinkKind.SLACK: ("url",),
    SinkKind.EMAIL: ("server", "sender", "recipients"),
    SinkKind.COMMAND: ("program",),
}
_MAY_HAVE: Mapping[SinkKind, tuple[str, ...]] = {
    SinkKind.WEBHOOK: ("secret", "ca"),
    SinkKind.SLACK: ("ca",),
    SinkKind.EMAIL: ("port", "tls", "username", "password", "ca"),
    SinkKind.COMMAND: (),
}
_PLAIN_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.\[\]:-]+"
_ADDRESS = re.compile(rf"{_PLAIN_ADDRESS}|[^<>@,;:\\\"()\[\]]+ <{_PLAIN_ADDRESS}>")
_ALL_HAVE = ("kind", "timeout_s", "give_up")


def load_alerts(path: Path, *, resolve: bool = True, environ: Mapping[str, str] | None = None) -> Alerts | None:
    """Return the sinks and rules of the inventory at a path; `None`: it says nothing of alerts.

    With `resolve` false no value from elsewhere is looked up, and what it would set counts as given.

    Raises:
        ConfigurationError: a file cannot be read.
        InventoryError: something in it is wrong; it carries every mistake, in the order of the file.

    """
    document = Document.read(path)
    references = References(folder=path.parent, environ=os.environ if environ is None else environ)
    section = _section(document)
    if section is None:
        return None if not document.mistakes else _refuse(document)
    named = text_of(section)
    if named is not None:
        path = path.parent / named
        document = Document.read(path)
        root = document.root
        if root is None:
            if not document.mistakes:
                document.blame(Place(1, 1), "there is nothing in it")
            return _refuse(document)
        section = root
    alerts = _read(ValueReader(document, references if resolve else None), section)
    return _refuse(document) if document.mistakes else alerts


def _section(document: Document) -> yaml.Node | None:
    if document.root is None:
        return None
    entries = document.entries(document.root, what="the inventory")
    found = next((entry.value for entry in entries if entry.key == ALERTS), None)
    return None if found is None or is_null(found) else found


def _refuse(document: Document) -> Alerts:
    raise InventoryError(document.mistakes, hint=_HINT)


def _read(reader: ValueReader, node: yaml.Node) -> Alerts:
    parts = {each.key: each for each in reader.known_entries(node, ("sinks", "rules"), what=ALERTS)}
    sinks: dict[str, Sink] = {}
    rules: dict[str, Rule] = {}
    for entry in _named(reader.document, parts.get("sinks"), what="sinks"):
        sink = _SinkReader(reader, entry).read()
        # One that is wrong is known all the same, so that no rule is blamed for it.
        sinks[entry.key] = sink or Sink(entry.key, SinkKind.COMMAND)
    for entry in _named(reader.document, parts.get("rules"), what="rules"):
        rule = read_rule(reader, entry, sinks=sinks)
        if rule is not None:
            rules[rule.name] = rule
    return Alerts(sinks, rules)


def _is_url(url: Secret) -> bool:
    try:
        parts = urlsplit(url.reveal())
        return bool(parts.hostname) and parts.port != 0 and url.reveal().isascii()
    except ValueError:
        return False


def _named(document: Document, section: Entry | None, *, what: str) -> tuple[Entry, ...]:
    entries = () if section is None else document.entries(section.value, what=what)
    for entry in entries:
        if not re.search(ALERT_NAME, entry.key):
            document.blame(entry.place, f"{entry.key!r} cannot be a name: {ALERT_NAME_SHAPE}")
    return entries


@dataclass(frozen=True, slots=True)
class _SinkReader:
    """One sink being read; every mistake is noted where it stands."""

    reader: ValueReader
    entry: Entry

    def read(self) -> Sink | None:
        what = f"sink {self.entry.key}"
        parts = {each.key: each for each in self.reader.known_entries(self.entry.value, keys(Scope.SINK), what=what)}
        if "kind" not in parts:
            words = option(Scope.SINK, "kind").type_words
            self.reader.document.blame(self.entry.place, f"{what} has no kind: it is {words}")
            return None
        values = self._values(parts)
        if "kind" not in values:
            return None
        kind = SinkKind(values.pop("kind"))
        return Sink(self.entry.key, kind, **values) if self._is_whole(kind, parts, values) else None

    def _values(self, parts: Mapping[str, Entry]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, entry in parts.items():
            wanted = option(Scope.SINK, name)
            if name == "recipients":
                values[name] = tuple(text for text, _ in texts(self.reader.document, entry, what=name))
            else:
                values |= self.reader.value(wanted, entry)
        if "url" in values and not _is_url(values["url"]):
            self.reader.document.blame(parts["url"].value, "url cannot be read: its host or its port is none")
            del values["url"]
        if "give_up" in values:
            values["give_up_s"] = seconds(values.pop("give_up"))
        if "tls" in values:
            values["tls"] = MailTls(values["tls"])
        return values

    def _is_whole(self, kind: SinkKind, parts: Mapping[str, Entry], values: Mapping[str, Any]) -> bool:
        document, name = self.reader.document, self.entry.key
        for wanted in _NEEDS[kind]:
            if wanted not in parts:
                document.blame(self.entry.place, f"sink {name} has no {wanted}: a sink of kind {kind} needs one")
        known = (*_ALL_HAVE, *_NEEDS[kind], *_MAY_HAVE[kind])
        for key, entry in parts.items():
            if key not in known:
                document.blame(entry.place, f"a sink of kind {kind} has no {key}: it has {', '.join(known)}")
        for address in (*([values["sender"]] if "sender" in values else []), *values.get("recipients", ())):
            if not _ADDRESS.fullmatch(address):
                document.blame(self.entry.place, f"sink {name}: {address!r} is no mail address")
        if ("username" in parts) != ("password" in parts):
            document.blame(self.entry.place, f"sink {name} has one of username and password: a login needs both")
        is_plain = values.get("tls") is MailTls.NONE
        if is_plain and "password" in parts:
            document.blame(parts["password"].place, f"sink {name} would send its password in the clear: tls is none")
        return not document.mistakes
