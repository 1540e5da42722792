"""Reads the sections `hosts` and `groups` into drafts: what is written, before anything is inherited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from toolkit.config.inventory.document import Document, Entry, Place, is_null, place_of, text_of
from toolkit.config.inventory.ranges import NAME, NAME_WORDS, expand, has_range
from toolkit.config.inventory.variables import ValueReader, Variables
from toolkit.config.nearest import did_you_mean
from toolkit.config.options import Scope, keys
from toolkit.model.errors import ConfigurationError
from toolkit.model.names import NodeName

ALL = "all"


@dataclass(frozen=True, slots=True)
class HostDraft:
    """A host as written: its name, where that stands (one place for a whole range), and its own variables."""

    name: NodeName
    place: Place
    variables: Variables


@dataclass(frozen=True, slots=True)
class GroupDraft:
    """A group as written: the hosts and children that it names, each with its place, and its own variables."""

    name: str
    place: Place
    hosts: tuple[NodeName, ...] = ()
    children: Mapping[str, Place] = field(default_factory=dict)
    variables: Variables = field(default_factory=dict)


def read_hosts(reader: ValueReader, node: yaml.Node) -> tuple[HostDraft, ...]:
    """Return the hosts in file order, each range as the hosts that it stands for."""
    drafts: dict[str, HostDraft] = {}
    for entry in reader.document.entries(node, what="hosts"):
        variables = reader.variables(entry.value, what=f"host {entry.key}")
        for name in _expanded(reader.document, entry.key, entry.place):
            if name in drafts:
                first = drafts[name].place.line
                reader.document.blame(entry.place, f"host {name!r} is named twice, first in line {first}")
                break
            drafts[name] = HostDraft(NodeName(name), entry.place, variables)
    return tuple(drafts.values())


def read_groups(reader: ValueReader, node: yaml.Node, *, hosts: tuple[HostDraft, ...]) -> tuple[GroupDraft, ...]:
    """Return the groups in file order; what they name and is not there is noted and left out."""
    entries = reader.document.entries(node, what="groups")
    known_hosts = {draft.name: draft for draft in hosts}
    known_groups = {entry.key: entry.place for entry in entries}
    drafts = []
    for entry in entries:
        problem = _name_problem(entry.key, known_hosts)
        if problem:
            reader.document.blame(entry.place, problem)
        else:
            drafts.append(_read_group(reader, entry, known_hosts=known_hosts, known_groups=known_groups))
    return tuple(drafts)


def _name_problem(name: str, hosts: Mapping[NodeName, HostDraft]) -> str | None:
    if name == ALL:
        return "the group 'all' exists already: it is every host, and its variables are defaults"
    if not NAME.fullmatch(name):
        return f"{name!r} is no name of a group: {NAME_WORDS}"
    if NodeName(name) in hosts:
        return f"group {name!r} has the name of a host, so a pattern could not tell them apart"
    return None


def _read_group(
    reader: ValueReader,
    entry: Entry,
    *,
    known_hosts: Mapping[NodeName, HostDraft],
    known_groups: Mapping[str, Place],
) -> GroupDraft:
    parts = {e.key: e for e in reader.known_entries(entry.value, keys(Scope.GROUP), what=f"group {entry.key}")}
    if "hosts" not in parts and "children" not in parts:
        reader.document.blame(entry.place, f"group {entry.key!r} is empty: it names neither hosts nor children")
    hosts: dict[NodeName, None] = {}
    for text, place in _names(reader.document, parts.get("hosts"), what=f"hosts of group {entry.key!r}"):
        hosts.update(dict.fromkeys(_members(reader.document, text, place, known_hosts)))
    children: dict[str, Place] = {}
    for text, place in _names(reader.document, parts.get("children"), what=f"children of group {entry.key!r}"):
        if text in known_groups:
            children[text] = place
        elif NodeName(text) in known_hosts:
            reader.document.blame(place, f"{text!r} is a host: name it under hosts of group {entry.key!r}")
        else:
            reader.document.blame(place, f"no group {text!r}{did_you_mean(text, known_groups)}")
    variables = reader.variables(parts["vars"].value, what="vars") if "vars" in parts else {}
    return GroupDraft(entry.key, entry.place, tuple(hosts), children, variables)


def _names(document: Document, entry: Entry | None, *, what: str) -> Iterator[tuple[str, Place]]:
    if entry is None:
        return
    if is_null(entry.value) or entry.value.value == []:
        document.blame(entry.place, f"the list of {what} is empty")
        return
    if not isinstance(entry.value, yaml.SequenceNode):
        document.blame(entry.value, f"{what} are a list of names")
        return
    for each in entry.value.value:
        text = text_of(each)
        if text is None:
            document.blame(each, f"{what} are a list of names")
        else:
            yield text, place_of(each)


def _members(document: Document, text: str, place: Place, known: Mapping[NodeName, HostDraft]) -> tuple[NodeName, ...]:
    names = tuple(NodeName(name) for name in _expanded(document, text, place))
    missing = [name for name in names if name not in known]
    if missing:
        more = f" (and {len(missing) - 1} more of {text})" if len(missing) > 1 else ""
        document.blame(place, f"no host {missing[0]!r} under hosts{more}{did_you_mean(missing[0], known)}")
    return tuple(name for name in names if name in known)


def _expanded(document: Document, text: str, place: Place) -> tuple[str, ...]:
    try:
        names = expand(text)
    except ConfigurationError as error:
        document.blame(place, str(error))
        return ()
    if ALL in names and not has_range(text):
        document.blame(place, "a host cannot be named 'all': the pattern all means every host")
    return names
