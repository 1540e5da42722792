"""A form is read where it lies, as any client writes it."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3.filepost import encode_multipart_formdata

from toolkit.node import forms
from toolkit.node.forms import FormError, Part, read_form


def _in_memory(body: bytes) -> BinaryIO:
    return io.BytesIO(body)


def _on_disk(body: bytes) -> BinaryIO:
    file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is collected
    file.write(body)
    return file


KINDS: list[Callable[[bytes], BinaryIO]] = [_in_memory, _on_disk]
HEADER = "multipart/form-data; boundary=xx"


@pytest.mark.parametrize("kind", KINDS)
def test_fields_and_files_come_as_twisted_gives_them(kind: Callable[[bytes], BinaryIO]) -> None:
    body, header = encode_multipart_formdata(
        [("project", "größe"), ("a", "1"), ("a", ""), ("egg", ("x.egg", b"PK\r\n--\r\n\0"))]
    )
    assert read_form(kind(body), header) == {
        b"project": ["größe".encode()],
        b"a": [b"1", b""],
        b"egg": [b"PK\r\n--\r\n\0"],
    }


def test_a_long_value_stays_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "MAX_FIELD_BYTES", 10)
    long = bytes(range(256)) * 1000
    body, header = encode_multipart_formdata([("before", "1"), ("egg", ("x", long)), ("after", "2")])
    content = _on_disk(body)
    found = read_form(content, header)
    part = found[b"egg"][0]
    assert isinstance(part, Part)
    assert (found[b"before"], found[b"after"]) == ([b"1"], [b"2"])
    opened = part.open()
    content.close()
    with opened:
        assert opened.read() == long


def test_a_line_that_only_begins_like_the_boundary_is_content() -> None:
    body = b'--xx\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--xxy\r\n2\r\n--xx--\r\n'
    assert read_form(io.BytesIO(body), HEADER) == {b"a": [b"1\r\n--xxy\r\n2"]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("body", "header"),
    [
        (b"", HEADER),
        (b"--xx--\r\n", "multipart/form-data"),
        (b"no boundary", HEADER),
        (b"--xx", HEADER),
        (b"--xx\r\n", HEADER),
        (b"--xx\r\nContent-Disposition: form-data\r\n\r\n1\r\n--xx--", HEADER),
        (b'--xx\r\nContent-Disposition: form-data; name="a"\r\n\r\n1', HEADER),
        (b"--xx\r\n\r\n\r\n1\r\n--xx--", HEADER),
        (b"--xx\r\nX: " + b"y" * 50_000 + b"\r\n\r\n1\r\n--xx--", HEADER),
    ],
)
def test_what_is_no_form_is_refused(kind: Callable[[bytes], BinaryIO], body: bytes, header: str) -> None:
    with pytest.raises(FormError):
        read_form(kind(body), header)


def test_too_many_fields_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "MAX_PARTS", 3)
    body, header = encode_multipart_formdata([(str(i), "") for i in range(4)])
    with pytest.raises(FormError, match="more than 3 fields"):
        read_form(io.BytesIO(body), header)


@given(st.lists(st.tuples(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1), st.binary())))
def test_what_is_written_is_what_is_read(fields: list[tuple[str, bytes]]) -> None:
    if not fields:
        return
    body, header = encode_multipart_formdata(fields)
    expected: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        expected.setdefault(name.encode(), []).append(value)
    assert read_form(io.BytesIO(body), header) == expected


@given(st.binary(max_size=300))
def test_whatever_comes_is_a_form_or_refused(body: bytes) -> None:
    try:
        read_form(io.BytesIO(b"--xx\r\n" + body), HEADER)
    except FormError:
        return
