"""A request comes back from either format as it was; what has no form is named, and what is no request is refused."""

from __future__ import annotations

import contextlib
import pickle
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.model.errors import StoreUnreadableError, UnwritableError
from toolkit.store.wire_requests import Wire, read_request, write_request

URL = "https://books.example.com/catalogue/a-light-in-the-attic_1000/index.html?page=12345"
BOTH = pytest.mark.parametrize("wire", list(Wire))

_KEYS = st.text() | st.integers() | st.binary() | st.tuples(st.integers(), st.text())
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.just(UTC) | st.none())
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.sets(st.integers())
    | st.frozensets(st.text())
)
VALUES = st.recursive(
    _LEAVES,
    lambda parts: st.lists(parts) | st.lists(parts).map(tuple) | st.dictionaries(_KEYS, parts),
    max_leaves=12,
)


class Colour(StrEnum):
    RED = "red"


Point = namedtuple("Point", "x y")  # noqa: PYI024 - what spiders in the wild have


@BOTH
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(meta=st.dictionaries(_KEYS, VALUES), kwargs=st.dictionaries(st.text(), VALUES))
def test_every_value_comes_back_as_it_was(wire: Wire, meta: dict[Any, Any], kwargs: dict[str, Any]) -> None:
    fields = {"url": URL, "meta": meta, "cb_kwargs": kwargs}
    assert read_request(write_request(fields, wire)) == fields


@BOTH
def test_all_fields_of_a_request_come_back(wire: Wire) -> None:
    fields = {
        "url": URL,
        "callback": "parse_book",
        "errback": "failed",
        "method": "POST",
        "headers": {b"Referer": [b"https://books.example.com/"]},
        "body": b"\x00\xff",
        "cookies": [{"name": "a", "value": "b"}],
        "meta": {"depth": 3, "tried": {1, 2}, "at": datetime(2026, 11, 21, 12, tzinfo=UTC), "price": Decimal("1.10")},
        "encoding": "latin-1",
        "priority": -7,
        "dont_filter": True,
        "flags": ["cached"],
        "cb_kwargs": {"on": date(2026, 1, 1), "from": time(8), "for": timedelta(1), "id": UUID(int=7)},
        "class": "scrapy.http.FormRequest",
    }
    assert read_request(write_request(fields, wire)) == fields


@BOTH
def test_the_url_comes_first(wire: Wire) -> None:
    body = write_request({"url": URL, "meta": {"depth": 1}}, wire)
    assert 0 < body.index(URL.encode()) < 8


def test_a_usual_request_takes_under_150_bytes() -> None:
    fields = {
        "url": URL[:81],
        "headers": {b"Referer": [b"https://books.example.com/catalogue/"]},
        "meta": {"depth": 3},
    }
    assert len(write_request(fields)) < 150


@BOTH
def test_what_is_of_a_subclass_comes_back_as_its_built_in_type(wire: Wire) -> None:
    meta = {"colour": Colour.RED, "order": OrderedDict(a=1), Colour.RED: True}
    back = read_request(write_request({"url": URL, "meta": meta}, wire))["meta"]
    assert back == {"colour": "red", "order": {"a": 1}, "red": True}
    assert type(back["colour"]) is str
    assert type(back["order"]) is dict


@BOTH
@pytest.mark.parametrize(
    ("value", "place", "kind"),
    [
        ({"deep": [1, {"x": object()}]}, "meta['deep'][1]['x']", "object"),
        ({"point": Point(1, 2)}, "meta['point']", "Point"),
        ({"f": len}, "meta['f']", "builtin_function_or_method"),
    ],
)
def test_what_has_no_form_is_refused_by_its_place_and_type(wire: Wire, value: object, place: str, kind: str) -> None:
    with pytest.raises(UnwritableError) as caught:
        write_request({"url": URL, "meta": value}, wire)
    assert place in caught.value.message
    assert kind in caught.value.message
    assert (caught.value.field, caught.value.kind) == ("meta", kind)


@BOTH
def test_what_contains_itself_is_refused(wire: Wire) -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(UnwritableError, match="meta"):
        write_request({"url": URL, "meta": {"loop": loop}}, wire)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(UnwritableError, match="no field 'colour'"):
        write_request({"url": URL, "colour": "red"})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"u": 7}',
        b'{"u": {"~": "?", "=": 1}}',
        b'{"u": "https://a.example/", "t": {"~": "d", "=": "yesterday"}}',
        b'{"u": "https://a.example/", "t": {"~": "n", "=": "one"}}',
        b"\x91\x01",
        b"\x81\xa1u",
        b"\x81\xa1u\xd4\x63\x00",
        b"\x92" * 5000,
        b"GET / HTTP/1.1",
        msgpack.packb({"u": 1}),
    ],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(StoreUnreadableError):
        read_request(body)


@given(st.binary())
def test_no_bytes_do_anything_but_be_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(StoreUnreadableError):
        assert isinstance(read_request(body)["url"], str)


def test_a_pickle_is_named_and_never_read() -> None:
    with pytest.raises(StoreUnreadableError) as caught:
        read_request(pickle.dumps({"url": URL}))
    assert "pickle of scrapy-redis" in str(caught.value.hint)


@pytest.mark.parametrize("write", [msgpack.packb, lambda content: str(content).replace("'", '"').encode()])
def test_a_newer_format_is_refused_and_unknown_fields_are_not(write: Any) -> None:
    assert read_request(write({"u": URL, "zz": 1})) == {"url": URL}
    with pytest.raises(StoreUnreadableError, match="newer crawlctl"):
        read_request(write({"u": URL, "v": 2}))
