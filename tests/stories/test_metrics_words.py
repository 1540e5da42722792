"""An operator lets others read the cluster's numbers, by hand, by a file, and while Redis is away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.cli import NodeEntry
from support.desk import Desk
from support.ports import free_port
from support.queue_desk import a_report, queue_desk
from support.redis_server import RedisServer

from toolkit.duties.sample import sample


@pytest.mark.xdist_group("stories-metrics-words")
def test_the_numbers_are_told_to_people_programs_and_node_exporter(tmp_path: Path, story_redis: RedisServer) -> None:
    story_redis.flush()
    entries = [NodeEntry("node-1", "127.0.0.1", free_port())]
    desk = Desk.of(entries, story_redis.url, tmp_path / "desk", secrets=[str(story_redis.password)])
    with queue_desk(story_redis.url, tmp_path / "store") as queue:
        report = queue.register(a_report())
        queue.add("a", "b")
        queue.finish(queue.run(report))
        assert sample(queue.shared)

    told = desk.run("metrics").out
    assert 'crawlctl_node_up{node="node-1"} 1.0' in told
    assert 'crawlctl_jobs_ended_total{outcome="finished",project="shop"} 1.0' in told
    assert "\x1b" not in told
    numbers = {metric["name"]: metric["samples"] for metric in desk.json("metrics")}
    assert numbers["crawlctl_slots"][0]["value"] == 4.0

    text = desk.folder / "crawlctl.prom"
    written = desk.json("metrics", "--textfile", str(text))
    assert written == {"textfile": str(text), "samples": sum(map(len, numbers.values()))}
    assert "crawlctl_redis_up 1.0" in text.read_text()
    assert "end in .prom" in desk.error("metrics", "--textfile", "crawlctl.txt", exit_code=2)

    url = "https://wiki.example.com/runbook"
    rules = desk.run("metrics", "rules", "--runbook-url", url).out
    assert yaml.safe_load(rules) == desk.json("metrics", "rules", "--runbook-url", url)
    assert json.loads(desk.run("metrics", "dashboard").out)["title"] == "crawlctl"

    story_redis.kill()
    try:
        away = desk.run("metrics", "--textfile", str(text), exit_code=5)
        assert "nothing listens there" in away.err
        assert "crawlctl_redis_up 0.0" in text.read_text()
    finally:
        story_redis.start()
