"""What a node measures, and when it has too little to take a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.node import load
from toolkit.node.load import Load, measure, shortage


def test_a_machine_is_measured_also_below_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    now = measure(tmp_path / "not" / "yet")

    assert now.disk_free_mb is not None
    assert now.disk_free_mb > 0
    assert now.load is None or now.load >= 0


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Load(memory_free_mb=199), "199 MB of memory"),
        (Load(memory_free_mb=200, disk_free_mb=499), "499 MB of disk"),
        (Load(memory_free_mb=200, disk_free_mb=500), None),
        (Load(), None),
    ],
)
def test_too_little_is_told_and_the_unknown_is_no_shortage(now: Load, words: str | None) -> None:
    said = shortage(now, min_memory_mb=200, min_disk_mb=500)

    assert said is None if words is None else words in (said or "")


def test_a_containers_limit_counts_where_it_leaves_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("1000000000\n")
    (tmp_path / "memory.current").write_text("900000000\n")
    (tmp_path / "memory.stat").write_text("anon 700000000\ninactive_file 50000000\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable:    8000000 kB\n")
    monkeypatch.setattr(load, "_CGROUP", tmp_path)
    monkeypatch.setattr(load, "_MEMINFO", tmp_path / "meminfo")

    assert measure(tmp_path).memory_free_mb == 150

    (tmp_path / "memory.max").write_text("max\n")
    assert measure(tmp_path).memory_free_mb == 8192


def test_where_the_system_tells_nothing_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_CGROUP", tmp_path)
    monkeypatch.setattr(load, "_MEMINFO", tmp_path / "meminfo")

    assert measure(tmp_path).memory_free_mb is None
