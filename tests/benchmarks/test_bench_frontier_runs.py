"""The frontier's benchmark runs and keeps the shape of its last line; times are for people to judge, never asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from benchmarks.frontier_delay import WITHOUT_COMPILER, Delay, delaying_program, median_round_trip_ms
from support.redis_server import RedisServer

BENCH = Path(__file__).with_name("bench_frontier.py")
DEADLINE_S = 400
KINDS = {"plain", "crawlctl", "scrapy_redis"}
TINY = ("--runs=1", "--pages=60", "--rtt-ms=2", "--workers=2", "--seen=5000", "--pending=2000")


@pytest.mark.timeout(DEADLINE_S + 10)
def test_a_tiny_run_ends_with_the_promised_line_of_json() -> None:
    command = [sys.executable, str(BENCH), "one", "several", "memory", *TINY]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr[-2000:]

    told = json.loads(done.stdout.splitlines()[-1])
    assert set(told["pages_per_s"]) == {"2"}
    assert set(told["pages_per_s"]["2"]) == KINDS
    assert set(told["workers"]) == {"2"}
    assert set(told["workers"]["2"]) == KINDS
    assert set(told["ratios"]) == {"2", "2 workers"}
    assert set(told["round_trips_per_1000"]) == set(told["redis_us_per_page"]) == KINDS - {"plain"}
    assert set(told["bytes_per_seen"]) == {"packed", "set", "bloom", "scrapy_redis"}
    assert set(told["bytes_per_pending"]) == KINDS - {"plain"}


@pytest.mark.parametrize("by", ["what there is", "threads"])
def test_redis_can_be_put_at_a_distance_and_round_trips_counted(by: str, tmp_path: Path) -> None:
    program = WITHOUT_COMPILER if by == "threads" else delaying_program(tmp_path)[0]
    with RedisServer(tmp_path / "redis") as server, Delay(program, target_port=server.port, round_trip_ms=3) as delay:
        assert median_round_trip_ms(delay.port) >= 3
        with redis.Redis(port=delay.port) as client:
            client.ping()
            before = delay.round_trips()
            with client.pipeline() as together:
                for number in range(100):
                    together.set(f"key-{number}", "short enough to travel whole")
                together.execute()
            assert client.get("key-99") == b"short enough to travel whole"
            assert delay.round_trips() - before == 2
            # Redis answers the head of a long pipeline while its tail is still under way: not counted here.
            client.set("long", "x" * 1_000_000)
            assert client.get("long") == b"x" * 1_000_000
