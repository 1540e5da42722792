"""What comes from outside does nothing to the terminal that it is shown on."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.views.harmless import harmless_json, visible, visible_parts

ANY_TEXT = st.text(st.characters())


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} and char not in "\n\t" for char in text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zürich 日本 🕷", "Zürich 日本 🕷"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("over\rwritten", r"over\rwritten"),
        ("abc\x08\x08\x08xyz", r"abc\x08\x08\x08xyz"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("half \ud83d of it", r"half \ud83d of it"),
    ],
)
def test_control_characters_are_shown_and_text_is_left_alone(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANY_TEXT)
def test_whatever_is_shown_can_be_printed_and_obeys_nothing(text: str) -> None:
    shown = visible(text)
    assert is_harmless(shown)
    shown.encode()


@given(
    st.recursive(ANY_TEXT | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner))
)
def test_json_means_the_same_and_obeys_nothing(value: object) -> None:
    text = harmless_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value
    assert is_harmless(text)
    text.encode()


@given(st.lists(st.binary(max_size=20)))
def test_a_stream_is_shown_alike_however_it_is_cut(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert "".join(visible_parts(parts)) == "".join(visible_parts([whole]))
    assert is_harmless("".join(visible_parts(parts)))


def test_a_letter_cut_in_two_and_a_line_end_cut_in_two_are_put_together() -> None:
    text = "Zürich\r\n\x1b[31m日本\n"
    parts = [bytes([byte]) for byte in text.encode()]
    assert "".join(visible_parts(parts)) == "Zürich\n\\x1b[31m日本\n"
