"""What is named as a long file of tests is there."""

from __future__ import annotations

from support.documents import ROOT
from support.long_files import LONG_FILES


def test_files_that_are_begun_first_are_there_and_named_once() -> None:
    assert [name for name in LONG_FILES if not (ROOT / "tests" / name).is_file()] == []
    assert len(set(LONG_FILES)) == len(LONG_FILES)
