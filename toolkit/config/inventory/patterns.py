"""Picks hosts by a pattern, as Ansible writes them: `eu:&big:!node-3`. Pure.

Terms are separated by `:` or `,`. Plain terms are united first, then each `&term` keeps what it shares, then each
`!term` takes away; without a plain term, all hosts are the start. A term is the name of a host or group, a range of
names, a glob over both, `all` or `*`, `label=value` (the value may be a glob), or `~` and a regular expression that a
host's or group's name begins with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate

from toolkit.config.inventory.ranges import NAME, expand
from toolkit.config.nearest import did_you_mean
from toolkit.model.errors import ConfigurationError, NotFoundError, UsageError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName

Groups = Mapping[str, Collection[NodeName]]

_EVERY = ("all", "*")
# A separator inside [ ] belongs to a range or to a glob.
_SEPARATOR = re.compile(r"[:,](?![^\[\]]*\])")
_RANGE = re.compile(r"\[[^\[\]]*:[^\[\]]*\]")
_GLOB = re.compile(r"[*?\[]")
_HINT = "`crawlctl inventory list` shows the names; a pattern reads like eu:&big:!node-3 or region=eu"


@dataclass(frozen=True, slots=True)
class _Field:
    """What terms are looked up in."""

    hosts: Sequence[Host]
    groups: Groups
    names: frozenset[NodeName]


def pick(pattern: str | None, hosts: Sequence[Host], groups: Groups) -> tuple[Host, ...]:
    """Return the hosts that a pattern means, each once and in the inventory's order; all of them for `None`.

    Raises:
        UsageError: the pattern is empty, or a term of it is malformed.
        NotFoundError: a term names no host, group or label, or the pattern as a whole leaves no host.

    """
    if pattern is None:
        return tuple(hosts)
    plain, shared, excluded = _sorted_terms(pattern)
    field = _Field(hosts, groups, frozenset(host.name for host in hosts))
    chosen = set(field.names) if not plain else {name for term in plain for name in _meant(term, field)}
    for term in shared:
        chosen &= _meant(term, field)
    for term in excluded:
        chosen -= _meant(term, field)
    if not chosen:
        raise NotFoundError(f"the pattern {pattern!r} leaves no host", hint=_HINT)
    return tuple(host for host in hosts if host.name in chosen)


def _sorted_terms(pattern: str) -> tuple[list[str], list[str], list[str]]:
    sorted_terms: dict[str, list[str]] = {"": [], "&": [], "!": []}
    for written in _SEPARATOR.split(pattern):
        stripped = written.strip()
        sign = stripped[:1] if stripped.startswith(("&", "!")) else ""
        term = stripped.removeprefix(sign)
        if not term:
            raise UsageError(f"the pattern {pattern!r} holds an empty term", hint=_HINT)
        sorted_terms[sign].append(term)
    return sorted_terms[""], sorted_terms["&"], sorted_terms["!"]


def _meant(term: str, field: _Field) -> set[NodeName]:
    if term in _EVERY:
        return set(field.names)
    if term.startswith("~"):
        return _matching(_regex(term[1:]), field)
    if "=" in term:
        return _labelled(term, field)
    if _RANGE.search(term):
        return {name for each in _range(term) for name in _named(each, field)}
    if _GLOB.search(term):
        return _matching(re.compile(translate(term)), field)
    return _named(term, field)


def _named(name: str, field: _Field) -> set[NodeName]:
    if NodeName(name) in field.names:
        return {NodeName(name)}
    if name in field.groups:
        return set(field.groups[name])
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no term of a pattern", hint=_HINT)
    near = did_you_mean(name, [*field.names, *field.groups])
    raise NotFoundError(f"no host or group is named {name!r}{near}", hint=_HINT)


def _matching(regex: re.Pattern[str], field: _Field) -> set[NodeName]:
    found = {name for name in field.names if regex.match(name)}
    return found.union(*(names for group, names in field.groups.items() if regex.match(group)))


def _labelled(term: str, field: _Field) -> set[NodeName]:
    label, _, value = term.partition("=")
    known: Iterable[str] = dict.fromkeys(each for host in field.hosts for each in host.labels)
    if label not in known:
        raise NotFoundError(f"no host has the label {label!r}{did_you_mean(label, known)}", hint=_HINT)
    regex = re.compile(translate(value))
    return {host.name for host in field.hosts if label in host.labels and regex.match(host.labels[label])}


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"~{text} is no regular expression: {error}", hint=_HINT) from error


def _range(term: str) -> tuple[str, ...]:
    try:
        return expand(term)
    except ConfigurationError as error:
        raise UsageError(str(error), hint=_HINT) from error
