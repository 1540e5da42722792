"""Some histories are played with each run of the tests; `make simulate` plays thousands, and other ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from simulation.unmended import MENDS

PROGRAM = Path(__file__).with_name("program.py")


def simulate(*args: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *args], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("first", [1, 21, 41])
def test_no_promise_is_broken_in_some_histories(first: int) -> None:
    told = json.loads(simulate("--seed", str(first), "--seeds", "20", "--workers", "1")[-1])
    assert (told["histories"], told["broken"]) == (20, [])
    assert told["steps"] > 200 * told["histories"]
    assert len(told["faults_injected"]) > 10


@pytest.mark.parametrize("seed", ["7", "8"])
def test_a_seed_decides_all_that_happens(seed: str) -> None:
    first, second = (
        [re.sub(r"127\.0\.0\.1:\d+|\"seconds\".*", "", line) for line in simulate("--seed", seed, "--trace")]
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("name", MENDS)
def test_a_mend_can_be_taken_back(name: str, tmp_path: Path) -> None:
    MENDS[name].take_back(tmp_path)
