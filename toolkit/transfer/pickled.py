"""Reads the requests that scrapy-redis pickled. The only module that unpickles, and by itself only plain data.

A pickle is a program that may call any function it names. `read_plain` lets it name none but lxml's class of texts, for
which a stand-in makes plain ones: every request of a `CrawlSpider` has such a text, its `link_text`. So it can make
nothing but numbers, texts, bytes, lists, tuples, sets and dictionaries. `read_trusted` lets it name all, for an
operator who has said that whoever could write to that Redis may run code on this machine.
"""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

MAX_PARTS = 1_000_000
"""A pickle can name one list many times in another, and so be far larger than its bytes."""

MAX_DEPTH = 200


class UnreadableBodyError(Exception):
    """A body is no request that may be read; says why. It stays where it is, so this is no failure of crawlctl's."""


class _Unchangeable(type):
    """A pickle can set attributes, also of the classes that it names: not of this one."""

    def __setattr__(cls, name: str, value: object) -> None:
        raise UnreadableBodyError("it would change a class")


class _Text(metaclass=_Unchangeable):
    """Stands for a class of texts: making one of it gives the text itself."""

    __slots__ = ()

    def __new__(cls, text: object = "") -> Any:
        """Return the text; anything else is refused."""
        if type(text) is not str:
            raise UnreadableBodyError(f"it has a text made of a {type(text).__name__}")
        return text


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuse every name but that of the texts which lxml finds in a page."""
        if (module, name) == ("lxml.etree", "_ElementUnicodeResult"):
            return _Text
        raise UnreadableBodyError(f"it needs {module}.{name}, which is more than plain data")

    def persistent_load(self, pid: Any) -> Any:
        """Refuse what is kept elsewhere."""
        raise UnreadableBodyError(f"it names something outside itself ({pid!r:.40})")


def read_plain(body: bytes) -> dict[str, Any]:
    """Return the fields of a request that is a pickle, or JSON, of plain data; no code of it is run.

    Raises:
        UnreadableBodyError: it is neither, or it is a pickle that names a class or a function.

    """
    try:
        content = json.loads(body) if body[:1] == b"{" else _Plain(io.BytesIO(body)).load()
    except UnreadableBodyError:
        raise
    except Exception as error:
        # A pickle that was cut or made up may raise anything from here.
        raise UnreadableBodyError(f"it is neither a pickle nor JSON ({type(error).__name__})") from error
    return _fields(content)


def read_trusted(body: bytes) -> dict[str, Any]:
    """Return the fields of a request that is any pickle; whatever code it names is run.

    Raises:
        UnreadableBodyError: it is no pickle, or names what is not installed here.

    """
    try:
        content = pickle.loads(body)  # noqa: S301 - the operator trusts whoever wrote it
    except Exception as error:
        raise UnreadableBodyError(f"it cannot be unpickled here: {type(error).__name__}: {error}") from error
    return _fields(content)


def _fields(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise UnreadableBodyError("it is not a request's fields")
    _refuse_if_large(content)
    return content


def _refuse_if_large(content: object) -> None:
    """Count parts as often as they would be written, before anything walks through them all."""
    left, level = MAX_PARTS, [content]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for part in level:
            if isinstance(part, dict):
                below += [*part.keys(), *part.values()]
            elif isinstance(part, list | tuple | set | frozenset):
                below += part
            if len(below) > left:
                raise UnreadableBodyError(f"it has more than {MAX_PARTS:,} parts")
        if not below:
            return
        left -= len(below)
        level = below
    raise UnreadableBodyError(f"it is nested more than {MAX_DEPTH} deep")
