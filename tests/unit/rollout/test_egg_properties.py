"""The same tree gives the same bytes, wherever, whenever and in whatever order it was written."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.scrapy_projects import write_files, write_project

from toolkit.rollout.egg import Egg, build_egg

_STEMS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
_PLAIN = st.from_regex(r"[a-zäöü][a-z0-9_]{0,8}\.(py|txt|json|html)", fullmatch=True)
_FOLDERS = st.sampled_from(["shop/", "shop/spiders/", "shop/data/", "shop/data/deep/", "other/", "beside/"])
_CONTENT = st.one_of(st.binary(max_size=200), st.sampled_from([b"", b"\r\n", b"PK\x03\x04", b"x" * 5000]))


def trees(names: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, bytes]]:
    return st.dictionaries(st.builds(str.__add__, _FOLDERS, names), _CONTENT, max_size=12)


def build_in_a_new_place(files: Mapping[str, bytes], order: Sequence[str], *, umask: int, mtime: int) -> Egg:
    with tempfile.TemporaryDirectory() as folder:
        before = os.umask(umask)
        try:
            root = Path(folder) / f"checkout-{mtime}"
            write_files(root, {name: files[name] for name in order})
            project = write_project(root, {"other/__init__.py": ""})
        finally:
            os.umask(before)
        for path in root.rglob("*"):
            os.utime(path, (mtime, mtime))
        return build_egg(project)


@settings(deadline=None, max_examples=60)
@given(trees(_STEMS), st.randoms(use_true_random=False), st.integers(0, 2**31))
def test_order_times_modes_and_place_leave_no_trace(files: dict[str, bytes], random: st.DataObject, mtime: int) -> None:
    shuffled = list(files)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first = build_in_a_new_place(files, list(files), umask=0o022, mtime=1_700_000_000)
    second = build_in_a_new_place(files, shuffled, umask=0o077, mtime=mtime)
    assert first == second


@settings(deadline=None, max_examples=60)
@given(trees(_PLAIN))
def test_every_file_of_a_package_reads_back_equal_and_nothing_else_is_there(files: dict[str, bytes]) -> None:
    egg = build_in_a_new_place(files, list(files), umask=0o022, mtime=0)
    with zipfile.ZipFile(io.BytesIO(egg.content)) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    own = {
        *("shop/__init__.py", "shop/settings.py", "shop/spiders/__init__.py", "shop/spiders/books.py"),
        "other/__init__.py",
    }
    expected = {name: content for name, content in files.items() if not name.startswith("beside/")}
    assert {name for name in packed if not name.startswith("EGG-INFO/")} == expected.keys() | own
    assert all(packed[name] == content for name, content in expected.items() if name not in own)


@settings(deadline=None, max_examples=30)
@given(trees(_PLAIN), st.data())
def test_another_byte_in_a_package_is_another_digest(files: dict[str, bytes], data: st.DataObject) -> None:
    name = data.draw(_PLAIN)
    first = build_in_a_new_place({**files, f"shop/{name}x": b"1"}, [*files, f"shop/{name}x"], umask=0o022, mtime=0)
    second = build_in_a_new_place({**files, f"shop/{name}x": b"2"}, [*files, f"shop/{name}x"], umask=0o022, mtime=0)
    assert first.digest != second.digest
