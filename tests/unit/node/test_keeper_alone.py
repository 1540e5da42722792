"""What a keeper does when the disk is full, its log grows, or somebody stops it just when cron looks after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.node import keeper
from toolkit.node.keeper import LOG, STATE, STOPPED, Keeper


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scrapyd.conf").write_text("[scrapyd]\n")
    return tmp_path


def test_a_watch_never_takes_back_a_stop_that_came_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter = keeper._enter

    def stopped_meanwhile(place: Path) -> int | None:
        (place / STOPPED).touch()
        return enter(place)

    def forked() -> int:
        pytest.fail("a keeper was begun")

    monkeypatch.setattr(keeper, "_enter", stopped_meanwhile)
    monkeypatch.setattr(os, "fork", forked)
    assert keeper.main(["watch", str(folder)]) == 0
    assert (folder / STOPPED).exists()


def test_a_full_disk_ends_no_keeper_and_what_runs_is_noted_later(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Keeper(folder, lock=-1)
    write = Path.write_text

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    kept._note(4711, "boot:1")
    assert not (folder / STATE).exists()

    monkeypatch.setattr(Path, "write_text", write)
    kept._look_after()
    assert keeper.state(folder)["pid"] == 4711


def test_a_log_that_has_grown_is_begun_anew_while_it_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "MAX_LOG_BYTES", 10)
    kept = Keeper(folder, lock=-1)
    with (folder / LOG).open("ab", buffering=0) as written:
        written.write(b"0123456789ab")
        kept._look_after()
        written.write(b"new")
    assert (folder / LOG).read_bytes() == b"new"
    assert (folder / "scrapyd.log.1").read_bytes() == b"0123456789ab"
