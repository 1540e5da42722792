"""A node without systemd is kept by a keeper: through its own death, the keeper's, and on purpose not at all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.ports import free_port
from support.waiting import wait_until

DEADLINE_S = 60


class KeptNode:
    """A stock Scrapyd in a folder, and the commands on its keeper."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        conf = f"[scrapyd]\nbind_address = 127.0.0.1\nhttp_port = {self.port}\neggs_dir = eggs\nlogs_dir = logs\n"
        (folder / "scrapyd.conf").write_text(f"{conf}dbs_dir = dbs\n", encoding="utf-8")

    def keeper(self, verb: str) -> str:
        command = [sys.executable, "-m", "toolkit.node.keeper", verb, str(self.folder)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.keeper("status"))
        return told

    def keeper_pid(self) -> int:
        return int(json.loads((self.folder / "keeper.json").read_bytes())["keeper_pid"])

    def scrapyd_pid(self, *, other_than: int | None = None) -> int:
        def answering() -> int | None:
            pid = self.status()["pid"]
            if pid is None or pid == other_than:
                return None
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return int(pid)
            return None

        return wait_until(answering, deadline_s=DEADLINE_S, what="Scrapyd to listen", pause_s=0.2)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[KeptNode]:
    node = KeptNode(tmp_path)
    try:
        yield node
    finally:
        node.keeper("stop")


def test_a_kept_scrapyd_outlives_deaths_and_ends_when_it_is_told_to(node: KeptNode) -> None:
    node.keeper("start")
    first = node.scrapyd_pid()
    node.keeper("start")
    assert node.scrapyd_pid() == first, "starting twice changes nothing"

    os.kill(first, signal.SIGKILL)
    second = node.scrapyd_pid(other_than=first)

    os.kill(node.keeper_pid(), signal.SIGKILL)
    wait_until(lambda: not node.status()["is_kept"], deadline_s=DEADLINE_S, what="the keeper to be gone")
    node.keeper("watch")
    wait_until(lambda: node.status()["is_kept"], deadline_s=DEADLINE_S, what="the next keeper")
    assert node.scrapyd_pid() == second, "the next keeper takes over what runs"

    node.keeper("restart")
    third = node.scrapyd_pid(other_than=second)

    node.keeper("stop")
    assert node.status()["pid"] is None
    with pytest.raises(ProcessLookupError):
        os.kill(third, 0)
    node.keeper("watch")
    assert node.status() == {"is_kept": False, "is_stopped": True, "pid": None, "since": None, "starts": 0}


def test_a_folder_that_is_none_of_a_node_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toolkit.node.keeper", "start", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (2, f"{tmp_path} holds no scrapyd.conf\n")
