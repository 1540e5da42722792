"""A folder of shipped logs may hold what others keep there: the sweep takes nothing away but logs."""

from __future__ import annotations

import os
from pathlib import Path

from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName
from toolkit.model.shipped import LogName, LogPart
from toolkit.node.log_places import FolderPlace

LOG = LogName(ProjectName("shop"), SpiderName("books"), JobId("j1"), NodeName("node-1"))
DAY_S = 86_400.0


def test_a_sweep_removes_old_logs_and_nothing_else(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path)
    place.put(LOG, LogPart(0, 5), b"12345")
    log = tmp_path / "shop" / "books" / "j1" / "node-1"
    (log / f".{LogPart(5, 5).name}.4711").write_bytes(b"left by a process that died")
    others = tmp_path / "home" / "ann" / "papers" / "2019"
    others.mkdir(parents=True)
    (others / "thesis.log.gz").write_bytes(b"mine")
    beside = tmp_path / "shop" / "books" / "j2" / "node-1"
    beside.mkdir(parents=True)
    (beside / LogPart(0, 5).name).write_bytes(b"12345")
    (beside / "notes.txt").write_text("mine too")
    empty = tmp_path / "a" / "b" / "c" / "d"
    empty.mkdir(parents=True)
    for folder in (log, others, beside, empty):
        os.utime(folder, (0, 0))
    place.drop_old(keep_s=DAY_S)
    assert not log.parent.exists()
    assert (others / "thesis.log.gz").exists()
    assert [path.name for path in beside.iterdir()] == ["notes.txt"]
    assert empty.exists()
