"""The queue's benchmark runs and keeps the shape of its last line; times are for people to judge, never asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.require import require

BENCH = Path(__file__).with_name("bench_jobs.py")
DEADLINE_S = 400


@pytest.mark.timeout(DEADLINE_S + 10)
def test_a_quick_run_ends_with_the_promised_line_of_json() -> None:
    require(find_spec("scrapyd"), "Scrapyd is not installed: pip install 'crawlctl[local]'")
    command = [sys.executable, str(BENCH), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr[-2000:]

    told = json.loads(done.stdout.splitlines()[-1])
    spread = {"p50", "p95"}
    assert {name: set(told["start_ms"][name]) for name in told["start_ms"]} == {"crawlctl": spread, "stock": spread}
    assert set(told["start_ms_20_nodes"]) == spread
    assert set(told) == {
        "start_ms",
        "start_ms_20_nodes",
        "enqueue_10000_s",
        "heartbeat_1000_nodes_redis_core",
        "node_extra_mb",
    }
