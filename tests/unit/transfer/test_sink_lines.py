"""A file of JSON lines holds each item once, whenever the drain that wrote it was ended."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.item_stream import SHOP, EndedError, ItemStream, bodies

from toolkit.model.errors import ConfigurationError, RefusedError
from toolkit.model.transfers import Item
from toolkit.transfer.address import parse_place
from toolkit.transfer.drain import drain
from toolkit.transfer.sink_lines import LinesFile


def numbers_in(file: Path) -> list[int]:
    text = file.read_text()
    assert text.endswith("\n") or not text
    return [json.loads(line)["number"] for line in text.splitlines()]


def drained(stream: ItemStream, file: Path, *, batch: int = 3, keeps: bool = False, again: bool = False) -> None:
    sink = LinesFile(parse_place(str(file)))
    try:
        for _ in drain(stream.source(keeps=keeps, again=again), sink, batch=batch):
            pass
    finally:
        sink.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "items.jsonl"


@pytest.fixture
def sink(file: Path) -> Iterator[LinesFile]:
    sink = LinesFile(parse_place(str(file)))
    yield sink
    sink.close()


@pytest.mark.parametrize("keeps", [False, True])
def test_every_item_is_there_once_wherever_a_drain_is_ended(tmp_path: Path, *, keeps: bool) -> None:
    for calls in range(12):
        file = tmp_path / f"{calls}.jsonl"
        stream = ItemStream(bodies(10))
        stream.ends_after = calls
        with suppress(EndedError):
            drained(stream, file, keeps=keeps)
        stream.ends_after = None
        drained(stream, file, keeps=keeps)
        assert numbers_in(file) == list(range(10))
        assert len(stream.items_there) == (10 if keeps else 0)


def test_what_is_told_counts_every_item_that_is_in_the_file_whenever_redis_lets_go_of_it(file: Path) -> None:
    for calls in range(12):
        stream, told, place = ItemStream(bodies(10)), 0, file.with_name(f"{calls}.jsonl")
        stream.ends_after = calls
        sink = LinesFile(parse_place(str(place)))
        with suppress(EndedError):
            for each in drain(stream.source(), sink, batch=3):
                told = each.new
        sink.close()
        assert told == len(numbers_in(place)) >= 10 - len(stream.items_there)


def test_a_torn_tail_is_cut_off(file: Path) -> None:
    stream = ItemStream(bodies(4))
    drained(stream, file, batch=2, keeps=True)
    with file.open("ab") as opened:
        opened.write(b'{"number": 4, "na')
    sink = LinesFile(parse_place(str(file)))
    sink.begin("redis://desk shop")
    assert sink.cut_bytes == 17
    sink.close()
    assert numbers_in(file) == [0, 1, 2, 3]


@settings(max_examples=60, deadline=None)
@given(written=st.integers(0, 400), batch=st.integers(1, 7), is_noted=st.booleans())
def test_power_lost_while_writing_loses_and_repeats_nothing(
    tmp_path_factory: pytest.TempPathFactory, written: int, batch: int, *, is_noted: bool
) -> None:
    file = tmp_path_factory.mktemp("lines") / "items.jsonl"
    stream = ItemStream(bodies(20))
    stream.ends_after = 6
    with suppress(EndedError):
        drained(stream, file, batch=batch)
    stream.ends_after = None
    if not is_noted:
        # The disk took some of the next lines, and no position.
        rest = b"".join(body + b"\n" for _, _, body in stream.items_there)
        with file.open("ab") as opened:
            opened.write(rest[:written])
    drained(stream, file, batch=batch)
    assert numbers_in(file) == list(range(20))


def test_a_second_drain_goes_on_in_the_same_file(file: Path) -> None:
    drained(ItemStream(bodies(3)), file)
    later = ItemStream(bodies(5))
    later.items_there = later.items_there[3:]
    drained(later, file)
    assert numbers_in(file) == [0, 1, 2, 3, 4]


def test_a_file_that_was_moved_away_is_followed_by_a_new_one(file: Path) -> None:
    stream = ItemStream(bodies(5))
    first = stream.items_there[:3]
    whole, stream.items_there = stream.items_there, first
    drained(stream, file, keeps=True)
    file.rename(file.with_name("first.jsonl"))
    stream.items_there = whole
    drained(stream, file, keeps=True)
    assert numbers_in(file) == [3, 4]


def test_a_drain_of_all_again_begins_with_the_first_that_is_there(file: Path) -> None:
    stream = ItemStream(bodies(3))
    drained(stream, file, keeps=True)
    file.unlink()
    file.with_name("items.jsonl.position").unlink()
    drained(stream, file, keeps=True)
    assert numbers_in(file) == []
    drained(stream, file, keeps=True, again=True)
    assert numbers_in(file) == [0, 1, 2]


def test_a_file_that_no_drain_wrote_is_left_alone(file: Path, sink: LinesFile) -> None:
    file.write_text("mine\n")
    with pytest.raises(RefusedError, match="is not empty"):
        sink.begin("redis://desk shop")
    assert file.read_text() == "mine\n"


def test_a_file_that_was_shortened_is_told(file: Path, sink: LinesFile) -> None:
    drained(ItemStream(bodies(3)), file)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(RefusedError, match="was changed since"):
        sink.begin("redis://desk shop")


def test_a_position_that_cannot_be_read_is_told(file: Path, sink: LinesFile) -> None:
    for text in ("{", "[]", '{"v": 2, "size": 0, "last": {}}', '{"v": 1}'):
        file.with_name("items.jsonl.position").write_text(text)
        with pytest.raises(RefusedError, match="no position"):
            sink.begin("redis://desk shop")
        sink.close()


def test_two_drains_at_once_do_not_write_to_one_file(file: Path, sink: LinesFile) -> None:
    sink.begin("redis://desk shop")
    other = LinesFile(parse_place(str(file)))
    with pytest.raises(RefusedError, match="another drain"):
        other.begin("redis://desk shop")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    sink = LinesFile(parse_place(str(tmp_path / "no" / "items.jsonl")))
    with pytest.raises(ConfigurationError, match="cannot be opened: No such file"):
        sink.begin("redis://desk shop")


def test_a_full_disk_is_told_and_leaves_whole_lines(file: Path) -> None:
    stream = ItemStream(bodies(200))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ConfigurationError, match="cannot be written: File too large") as told:
            drained(stream, file, batch=10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "goes on where it stopped" in (told.value.hint or "")
    some = numbers_in(file)
    assert some == list(range(len(some)))
    assert 0 < len(some) < 200
    drained(stream, file, batch=10)
    assert numbers_in(file) == list(range(200))


def test_a_write_after_a_failed_note_repeats_nothing(
    file: Path, sink: LinesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [Item(f"{at}-0", f"{at}", body) for at, body in enumerate(bodies(4), 1)]
    sink.begin("s")
    sink.write("s", SHOP, items[:1])
    with monkeypatch.context() as patched:
        patched.setattr("toolkit.transfer.sink_lines.write_atomically", _full_disk)
        with pytest.raises(ConfigurationError, match="No space left"):
            sink.write("s", SHOP, items[1:])
    sink.write("s", SHOP, items[1:2])
    assert numbers_in(file) == [0, 1]


def _full_disk(path: Path, content: bytes) -> None:  # noqa: ARG001 - the other's
    raise OSError(28, "No space left on device")
