"""A place says what it is without its password."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.errors import ConfigurationError, UsageError
from toolkit.transfer.address import PlaceKind, find_place, parse_place
from toolkit.transfer.sinks import open_sink


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("-", PlaceKind.STDOUT, "stdout"),
        ("out/items.jsonl", PlaceKind.FILE, "out/items.jsonl"),
        ("sqlite:////srv/items.db", PlaceKind.SQL, "sqlite:////srv/items.db"),
        ("postgresql://ann:secret@db:5432/shop?sslmode=require", PlaceKind.SQL, "postgresql://db:5432/shop"),
        ("mongodb://ann:secret@db/shop", PlaceKind.MONGO, "mongodb://db/shop"),
        ("mongodb+srv://ann:s@c/r@db/shop", PlaceKind.MONGO, "mongodb+srv://db/shop"),
    ],
)
def test_a_text_names_a_place(text: str, kind: PlaceKind, shown: str) -> None:
    place = parse_place(text)
    assert (place.kind, place.shown) == (kind, shown)


@given(st.text(st.characters(categories=["L", "N", "P"], exclude_characters="?"), min_size=6))
def test_no_password_shows(password: str) -> None:
    # Nothing else that is shown has a seven.
    password = f"7{password}"
    place = parse_place(f"postgresql://ann:{password}@db/shop")
    assert "ann" not in place.shown
    assert place.shown == "postgresql://db/shop"
    assert password not in repr(place)
    assert password not in place.without_password(f"cannot log in with {password}")


@pytest.mark.parametrize("text", ["", "https://db/items", "redis://db"])
def test_what_items_cannot_go_to_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_place(text)


def test_a_file_of_two_machines_is_two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for machine in ("desk", "server"):
        monkeypatch.setattr("platform.node", lambda machine=machine: machine)
        names |= {parse_place(text).identity for text in ("items.jsonl", "sqlite:///items.db", "mongodb://db/shop")}
    assert len(names) == 5


def test_the_place_comes_from_the_option_the_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "sink"
    file.write_text("postgresql://ann:secret@one/shop\n")
    environ = {"CRAWLCTL_SINK": "two.jsonl"}
    assert find_place(None, file=file, environ=environ).shown == "postgresql://one/shop"
    assert find_place("three.jsonl", file=None, environ=environ).shown == "three.jsonl"
    assert find_place(None, file=None, environ=environ).shown == "two.jsonl"


def test_no_place_or_two_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing says"):
        find_place(None, file=None, environ={})
    with pytest.raises(UsageError, match="twice"):
        find_place("-", file=tmp_path / "sink", environ={})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find_place(None, file=tmp_path / "sink", environ={})


@pytest.mark.parametrize("table", ["", " ", "archive."])
def test_a_table_without_a_name_is_refused(table: str) -> None:
    with pytest.raises(UsageError, match="names no table"):
        open_sink(parse_place("sqlite:///items.db"), table=table)
