"""Turns a spider's requests into what the frontier keeps, and back, quickly: it is done for every link of every page.

What is as Scrapy leaves it is not written. Nothing that Redis names is imported: callbacks are methods that the spider
has, and classes are those of requests that this process has loaded already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import getmembers, ismethod
from typing import Any

from scrapy import Request, Spider

from toolkit.model.errors import StoreUnreadableError, UnwritableError
from toolkit.spider.frontier_settings import Serializer
from toolkit.store.wire_requests import Wire, read_request, write_request

_USUAL = frozenset(Request.attributes)
_EMPTY_OTHERWISE = ("headers", "body", "cookies", "meta", "priority", "dont_filter", "flags", "cb_kwargs")


class RequestWriter:
    """Writes and reads the requests of one spider."""

    def __init__(self, spider: Spider, serializer: Wire | Serializer = Wire.MSGPACK) -> None:
        self._spider = spider
        self._write: Callable[[dict[str, Any]], bytes]
        self._read: Callable[[bytes], Mapping[str, Any]]
        if isinstance(serializer, Wire):
            self._write, self._read = partial(write_request, wire=serializer), read_request
        else:
            self._write, self._read = partial(_dumped, serializer), partial(_loaded, serializer)
        self._names: dict[object, str] = {}
        self._methods: dict[str, Callable[..., Any]] = {}
        self._classes: dict[str, type[Request]] = {}

    def write(self, request: Request) -> bytes:
        """Return the request's body in the frontier.

        Raises:
            UnwritableError: a field holds what cannot be kept, such as a callback that is no method of the spider.

        """
        fields: dict[str, Any] = {"url": request.url}
        if request.callback is not None:
            fields["callback"] = self._name(request.callback, "callback")
        if request.errback is not None:
            fields["errback"] = self._name(request.errback, "errback")
        if request.method != "GET":
            fields["method"] = request.method
        if request.encoding != "utf-8":
            fields["encoding"] = request.encoding
        for name in _EMPTY_OTHERWISE:
            if value := getattr(request, name):
                fields[name] = value
        if "headers" in fields:
            fields["headers"] = dict(fields["headers"])
        if type(request) is not Request:
            fields |= _of_its_class(request)
        return self._write(fields)

    def fields(self, body: bytes) -> dict[str, Any]:
        """Return the fields of a body; at least its URL is among them.

        Raises:
            StoreUnreadableError: it is no request, or one of a newer crawlctl.
            Exception: whatever a serializer of the project's own raises.

        """
        fields = dict(self._read(body))
        if not isinstance(fields.get("url"), str):
            raise StoreUnreadableError("a request in the frontier has no URL")
        return fields

    def request(self, fields: dict[str, Any]) -> Request:
        """Return the request that has these fields.

        Raises:
            StoreUnreadableError: it names a method that the spider has not, or a class that is not loaded.
            Exception: whatever the class raises for fields that it does not take.

        """
        if (callback := fields.get("callback")) is not None:
            fields["callback"] = self._method(callback)
        if (errback := fields.get("errback")) is not None:
            fields["errback"] = self._method(errback)
        named = fields.pop("class", None)
        if named is None:
            return Request(**fields)
        name, more = named
        return self._class(name)(**fields, **more)

    def read(self, body: bytes) -> Request:
        """Return the request of a body; raises what `fields` and `request` raise."""
        return self.request(self.fields(body))

    def _name(self, method: Any, field: str) -> str:
        function = getattr(method, "__func__", None)
        if function is None or getattr(method, "__self__", None) is not self._spider:
            raise UnwritableError(
                f"{field} cannot be written: {method!r} is no method of the spider", field=field, kind=_kind(method)
            )
        name = self._names.get(function)
        if name is None:
            name = self._names[function] = self._found(function, method, field)
        return name

    def _found(self, function: object, method: Any, field: str) -> str:
        usual = str(getattr(function, "__name__", ""))
        if getattr(getattr(self._spider, usual, None), "__func__", None) is function:
            return usual
        for name, found in getmembers(self._spider, predicate=ismethod):
            if found.__func__ is function:
                return name
        raise UnwritableError(
            f"{field} cannot be written: the spider has no method {method!r}", field=field, kind=_kind(method)
        )

    def _method(self, name: object) -> Callable[..., Any]:
        if isinstance(name, str):
            if name in self._methods:
                return self._methods[name]
            found = getattr(self._spider, name, None)
            if ismethod(found) and found.__self__ is self._spider:
                self._methods[name] = found
                return found
        raise StoreUnreadableError(f"{self._spider.name} has no method {name!r}, which a request names")

    def _class(self, name: str) -> type[Request]:
        if name not in self._classes:
            self._classes |= {_path(each): each for each in _loaded_classes(Request)}
        if name not in self._classes:
            raise StoreUnreadableError(f"a request in the frontier is a {name}, which this spider's code does not load")
        return self._classes[name]


def _of_its_class(request: Request) -> dict[str, Any]:
    """Return what is written of a request of another class, whose own defaults may be others than Scrapy's."""
    more = {name: getattr(request, name) for name in request.attributes if name not in _USUAL}
    return {
        "class": [_path(type(request)), more],
        "method": request.method,
        "encoding": request.encoding,
        "dont_filter": request.dont_filter,
        "body": request.body,
        "priority": request.priority,
    }


def _path(kind: type[Request]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _loaded_classes(kind: type[Request]) -> Iterator[type[Request]]:
    for each in kind.__subclasses__():
        yield each
        yield from _loaded_classes(each)


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _dumped(serializer: Serializer, fields: dict[str, Any]) -> bytes:
    try:
        written = serializer.dumps(fields)
    except Exception as error:
        # The project's own code may raise anything.
        raise UnwritableError(
            f"SCHEDULER_SERIALIZER cannot write it: {error}", field="?", kind=type(error).__name__
        ) from error
    return written.encode() if isinstance(written, str) else bytes(written)


def _loaded(serializer: Serializer, body: bytes) -> Mapping[str, Any]:
    return serializer.loads(body)
