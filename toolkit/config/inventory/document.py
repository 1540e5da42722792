"""One YAML file being read: its nodes with their places, and every mistake found in it so far.

YAML's own values are never built from it: what a text means is decided by the option table, so `no` stays `no` and
no tag can make an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from toolkit.model.errors import ConfigurationError, Mistake

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_NULL = f"{_TAG}null"
_MERGE = f"{_TAG}merge"
_KINDS = ("null", "bool", "int", "float", "str", "timestamp", "value", "merge", "map", "seq")
_PLAIN_TAGS = {f"{_TAG}{kind}" for kind in _KINDS}
_MAX_DEPTH = 50
_DEEP_LINE = re.compile(rf"(?m)^[ \t?:-]{{{_MAX_DEPTH}}}")
_RANGE_IN_LIST = re.compile(r"\[[^\]\"']*\[[0-9A-Za-z]+:[0-9A-Za-z]+\]")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the file; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping, and where the key stands."""

    key: str
    place: Place
    value: yaml.Node


class Document:
    """The nodes of one file; `root` is `None` when it is empty or no YAML, and then `mistakes` may say why."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._mistakes: dict[Mistake, None] = {}
        self.root = self._composed(text)
        if self.root is not None:
            self._refuse_tags(self.root)

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file, which must be UTF-8.

        Raises:
            ConfigurationError: the file is not there or may not be read.

        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
        try:
            return cls(str(path), content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            document = cls(str(path), "")
            before = content[: error.start]
            column = error.start - before.rfind(b"\n")
            document.blame(Place(before.count(b"\n") + 1, column), "this is not UTF-8 text")
            return document

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Every mistake so far, each once, also where an alias repeats its place."""
        return tuple(self._mistakes)

    def blame(self, where: Place | yaml.Node, text: str) -> None:
        """Note a mistake at a place."""
        place = where if isinstance(where, Place) else place_of(where)
        self._mistakes[Mistake(self.file, place.line, place.column, text)] = None

    def entries(self, node: yaml.Node, *, what: str) -> tuple[Entry, ...]:
        """Return the entries of a mapping in their order, none for `null`; `what` names it in a mistake.

        Merge keys (`<<`) are followed: what stands in the mapping itself wins, then what is merged first. A second
        entry of the same key is a mistake and left out.
        """
        if is_null(node):
            return ()
        if not isinstance(node, yaml.MappingNode):
            self.blame(node, f"{what} is written as `name: value` lines")
            return ()
        return tuple(self._found(node, seen=set()).values())

    def _found(self, node: yaml.MappingNode, *, seen: set[int]) -> dict[str, Entry]:
        seen.add(id(node))
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key_node, value in node.value:
            if key_node.tag == _MERGE:
                for inherited in self._merged(value, seen=seen):
                    merged = {**inherited, **merged}
                continue
            key = text_of(key_node)
            if key is None:
                self.blame(key_node, "a name is a plain text")
            elif key in own:
                self.blame(key_node, f"{key!r} is written twice, first in line {own[key].place.line}")
            else:
                own[key] = Entry(key, place_of(key_node), value)
        return own | {key: entry for key, entry in merged.items() if key not in own}

    def _merged(self, node: yaml.Node, *, seen: set[int]) -> Iterator[dict[str, Entry]]:
        for each in node.value if isinstance(node, yaml.SequenceNode) else (node,):
            if not isinstance(each, yaml.MappingNode):
                self.blame(each, "<< merges a mapping, or a list of mappings")
            elif id(each) not in seen:
                yield self._found(each, seen=seen)

    def _composed(self, text: str) -> yaml.Node | None:
        try:
            if text.count("[") + text.count("{") > _MAX_DEPTH or _DEEP_LINE.search(text):
                self._refuse_depth(text)
            return None if self._mistakes else yaml.compose(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            place = _place(error.problem_mark or error.context_mark)
            self.blame(place, _syntax_words(error, text, place))
        except yaml.reader.ReaderError as error:
            before = text[: error.position]
            self.blame(
                Place(before.count("\n") + 1, len(before) - before.rfind("\n")), "this character cannot stand in YAML"
            )
        return None

    def _refuse_depth(self, text: str) -> None:
        """Count levels without recursion: libyaml's composer overflows the stack on a deep enough file."""
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                self.blame(_place(event.start_mark), f"more than {_MAX_DEPTH} levels deep")
                return

    def _refuse_tags(self, root: yaml.Node) -> None:
        """Note every tag that asks for more than a text, a list or a mapping; each node is visited once."""
        seen: set[int] = set()
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.tag not in _PLAIN_TAGS:
                self.blame(node, f"the tag {node.tag.replace(_TAG, '!!')} has no meaning here")
            if isinstance(node, yaml.SequenceNode):
                waiting.extend(node.value)
            elif isinstance(node, yaml.MappingNode):
                waiting.extend(part for pair in node.value for part in pair)


def is_null(node: yaml.Node) -> bool:
    """Tell whether nothing, `null` or `~` is written there."""
    return bool(node.tag == _NULL)


def text_of(node: yaml.Node) -> str | None:
    """Return a scalar's text as it stands in the file, or `None` for `null`, a list or a mapping."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) and not is_null(node) else None


def is_quoted(node: yaml.Node) -> bool:
    """Tell whether a scalar stands in quotes, or as a block of text."""
    return isinstance(node, yaml.ScalarNode) and bool(node.style)


def place_of(node: yaml.Node) -> Place:
    """Return where a node begins."""
    return _place(node.start_mark)


def _place(mark: Any) -> Place:
    """Translate YAML's mark, which counts from 0 and may be missing."""
    return Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)


def _syntax_words(error: yaml.MarkedYAMLError, text: str, place: Place) -> str:
    """Say it in the parser's words, and add the cure for the one trap that ranges bring along."""
    problem = " ".join(part for part in (error.context, error.problem) if part)
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    cure = " (inside [ ], a name with a range wants quotes)" if _RANGE_IN_LIST.search(line) else ""
    return f"this is not YAML: {problem}{cure}"
