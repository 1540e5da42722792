"""An item reaches each kind of sink as what it means, and what a sink cannot hold is altered and said to be."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.transfers import Item
from toolkit.transfer.items import document_of, line_of

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


def test_a_line_of_json_passes_as_it_is() -> None:
    body = b'{"name": "L\xc3\xa4ufer",   "price": 1.50}'
    assert line_of(body) == (body, False)


def test_json_on_several_lines_becomes_one() -> None:
    assert line_of(b'{\n  "a": "\xc3\xa4",\r\n  "b": [1,\n2]\n}') == ('{"a": "ä", "b": [1, 2]}'.encode(), False)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"plain\ntext", b'{"raw": "plain\\ntext"}'),
        (b"\xff\x00", b'{"raw_base64": "/wA="}'),
        (b'{"a": NaN, "b": -Infinity}', b'{"a": "nan", "b": "-inf"}'),
    ],
)
def test_what_is_no_json_becomes_json_and_is_counted(body: bytes, line: bytes) -> None:
    assert line_of(body) == (line, True)


@given(json_values)
def test_a_line_is_one_line_and_json(value: object) -> None:
    line, _ = line_of(json.dumps(value, indent=1).encode())
    assert b"\n" not in line
    json.loads(line, parse_constant=pytest.fail)


@given(json_values)
def test_a_document_holds_only_what_every_database_takes(value: object) -> None:
    document, altered = document_of(json.dumps(value).encode())
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    text.encode()
    assert "\\u0000" not in text
    assert altered is (json.dumps(document) != json.dumps(value))


def test_a_document_is_the_item_itself_where_nothing_is_odd() -> None:
    assert document_of(b'{"a": [1, 2.5, null, true, "\\u00e4"]}') == ({"a": [1, 2.5, None, True, "ä"]}, False)


@pytest.mark.parametrize(
    ("body", "document"),
    [
        (b'{"a\\u0000": "b\\u0000c"}', {"a�": "b�c"}),
        (b'["\\ud83d", "\\ud83d\\ude00"]', ["�", "😀"]),
        (b"[18446744073709551616]", ["18446744073709551616"]),
        (b"[1e999]", ["inf"]),
    ],
)
def test_what_databases_refuse_is_altered(body: bytes, document: object) -> None:
    assert document_of(body) == (document, True)


def test_an_item_was_delivered_when_its_stream_id_says() -> None:
    at = datetime(2026, 11, 20, 10, 15, 0, 123000, tzinfo=UTC)
    assert Item(f"{int(at.timestamp() * 1000)}-7", "k", b"{}").at == at
