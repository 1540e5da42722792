"""What the node's life depends on has its own threads."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from scrapyd.config import Config

from toolkit.node.machine import THREADS
from toolkit.node.membership import membership


def test_readers_who_wait_long_keep_the_heartbeat_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # Scrapyd reads a scrapyd.conf that lies where it is started.
    config = Config()
    config.cp.add_section("crawlctl")
    config.cp.set("crawlctl", "redis", "redis://nowhere:1/0")
    member = membership(config)
    monkeypatch.setattr(member, "store", lambda: SimpleNamespace(shared="the rooms"))
    may_end, heard = threading.Event(), threading.Event()
    try:
        for _ in range(3 * THREADS):
            member.call(lambda _: may_end.wait(60))
        member.ask(lambda _: heard.set())
        assert heard.wait(30)
    finally:
        may_end.set()
