"""The files of a running job: whole or not there, created once where that is asked, and believed only so far."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolkit.runs.folder import CLAIM, MAX_FILE_BYTES, PROCESS, REPORT, RUN_VARIABLE, RunFolder
from toolkit.runs.registration import Registered, register_this_process, registered, withdraw


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_what_was_written_is_read(folder: RunFolder) -> None:
    folder.write(REPORT, {"state": "running", "note": "Årø"})
    folder.write(REPORT, {"state": "paused"})
    assert folder.read(REPORT) == {"state": "paused"}
    assert names(folder) == [REPORT]


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "null", "[" * 100_000, '{"a": "' + "x" * MAX_FILE_BYTES + '"}', "\xff"]
)
def test_what_is_no_small_json_object_is_not_read(folder: RunFolder, text: str) -> None:
    (folder.path / REPORT).write_text(text, encoding="latin-1")
    assert folder.read(REPORT) is None


def test_a_file_is_created_once_by_one_of_many(folder: RunFolder) -> None:
    folders = [RunFolder(folder.path) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda one: one[1].create(f"{one[0]}.json", {"n": one[0]}), enumerate(folders)))
    assert made == [True] * 8
    assert not folder.create("3.json", {"n": 99})
    assert folder.read("3.json") == {"n": 3}
    assert names(folder) == [f"{n}.json" for n in range(8)]


def test_a_file_is_created_once_also_where_there_are_no_links(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert folder.create(PROCESS, {"pid": 1})
    assert not folder.create(PROCESS, {"pid": 2})
    assert folder.read(PROCESS) == {"pid": 1}
    assert names(folder) == [PROCESS]


def test_a_file_in_a_folder_that_is_gone_raises_what_the_system_says(tmp_path: Path) -> None:
    gone = RunFolder(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        gone.write(REPORT, {})
    with pytest.raises(FileNotFoundError):
        gone.create(PROCESS, {})
    assert gone.read(REPORT) is None
    assert gone.alive_at() is None


def test_a_sign_of_life_is_a_change(folder: RunFolder) -> None:
    assert folder.alive_at() is None
    folder.touch_alive()
    os.utime(folder.path / "alive", (1, 1))
    before = folder.alive_at()
    folder.touch_alive()
    assert folder.alive_at() != before


def test_a_process_finds_its_folder_by_its_environment(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    assert RunFolder.of_this_process() is None
    monkeypatch.setenv(RUN_VARIABLE, str(folder.path))
    found = RunFolder.of_this_process()
    assert found is not None
    assert found.path == folder.path


def test_the_first_process_registers_and_a_second_may_not(folder: RunFolder) -> None:
    folder.write(CLAIM, {})
    assert registered(folder) is None
    assert register_this_process(folder) is None
    found = registered(folder)
    assert found is not None
    assert found.pid == os.getpid()
    assert register_this_process(folder) == "it has a process already, or its node has taken the job back"


def test_a_node_takes_back_what_no_process_has_begun(folder: RunFolder) -> None:
    folder.write(CLAIM, {})
    assert withdraw(folder)
    assert withdraw(folder), "as often as it likes"
    assert register_this_process(folder) is not None
    assert registered(folder) is None


def test_a_node_cannot_take_back_what_a_process_has_begun(folder: RunFolder) -> None:
    folder.write(CLAIM, {})
    assert register_this_process(folder) is None
    assert not withdraw(folder)
    assert isinstance(registered(folder), Registered)


def test_a_process_does_not_register_without_a_claim(folder: RunFolder) -> None:
    assert register_this_process(folder) == "its claim is gone"


def test_a_process_does_not_register_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    assert (
        register_this_process(RunFolder(tmp_path / "gone")) == "its folder cannot be written: No such file or directory"
    )


@pytest.mark.parametrize(
    "content",
    [{}, {"pid": 1}, {"start": "x"}, {"pid": "1", "start": "x"}, {"pid": True, "start": "x"}, {"pid": 0, "start": "x"}],
)
def test_a_registration_that_names_no_process_is_none(folder: RunFolder, content: dict[str, object]) -> None:
    folder.write(PROCESS, content)
    assert registered(folder) is None


def names(folder: RunFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir())


def test_of_what_a_process_prints_the_end_is_kept_and_it_prints_on_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.runs.folder.MAX_OUTPUT_BYTES", 1_000)
    monkeypatch.setattr("toolkit.runs.folder.KEPT_OUTPUT_BYTES", 100)
    folder = RunFolder(tmp_path)
    with folder.output.open("ab", buffering=0) as process:
        process.write(b"x" * 1_000)
        folder.bound_output()
        assert folder.output.stat().st_size == 1_000
        process.write(b"the last words\n")
        folder.bound_output()
        assert folder.output.stat().st_size == 100
        process.write(b"and some more\n")
    assert folder.output.read_bytes().endswith(b"xthe last words\nand some more\n")
