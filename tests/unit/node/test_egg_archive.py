"""An upload is looked at before anything of it is read."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from support.eggs import small_egg

from toolkit.model.errors import EggError
from toolkit.node import archive
from toolkit.node.archive import NOT_A_ZIP, check_archive

ROOM = 10_000_000


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()


def _check(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.egg"
    path.write_bytes(content)
    check_archive(path, max_unpacked_bytes=ROOM)


def test_an_egg_is_let_through(tmp_path: Path) -> None:
    _check(tmp_path, small_egg())


@pytest.mark.parametrize(
    "content", [b"", b"text", small_egg()[:-10], small_egg()[:200], b"PK\x05\x06", b"x" * 100_000, small_egg()[-40:]]
)
def test_what_is_no_zip_file_is_refused_in_scrapyds_words(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EggError) as caught:
        _check(tmp_path, content)
    assert caught.value.message == NOT_A_ZIP


def test_a_bomb_is_refused_by_what_it_says_of_itself(tmp_path: Path) -> None:
    with pytest.raises(EggError, match="takes 50 MB unpacked; 10 MB can be"):
        _check(tmp_path, _zip({"a.txt": bytes(25_000_000), "b.txt": bytes(25_000_000)}))


def test_too_many_files_are_refused_without_reading_their_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_ENTRIES", 5)
    with pytest.raises(EggError, match="more than 5 files"):
        _check(tmp_path, _zip({str(i): b"" for i in range(6)}))


@pytest.mark.parametrize("name", ["../x.py", "/etc/x", "a/../../x", "a\\..\\x"])
def test_a_file_that_would_be_put_outside_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(EggError, match="outside of it"):
        _check(tmp_path, _zip({name: b""}))
