"""The benchmark itself runs and keeps the shape of its last line; times are for people to judge, never asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.require import require

BENCH = Path(__file__).with_name("bench_deploy.py")
DEADLINE_S = 400


@pytest.mark.timeout(DEADLINE_S + 10)
def test_a_quick_run_ends_with_the_promised_line_of_json() -> None:
    require(find_spec("scrapyd"), "Scrapyd is not installed: pip install 'crawlctl[local]'")
    lines = _run("--quick")
    told = json.loads(lines[-1])
    pair = {"crawlctl": float, "scrapyd_client": float}
    assert _shape(told) == {
        "egg_s": pair,
        "deploy_s": {"stub60": pair, "real20": pair},
        "status_s": {"200": float, "1000": float},
        "help_s": float,
    }
    assert any("python-scrapyd-api" in line for line in lines[:-1])


def test_one_part_can_be_run_alone() -> None:
    assert list(json.loads(_run("--quick", "help")[-1])) == ["help_s"]


def _run(*args: str) -> list[str]:
    command = [sys.executable, str(BENCH), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def _shape(value: Any) -> Any:
    return {name: _shape(part) for name, part in value.items()} if isinstance(value, dict) else type(value)
