"""What tests start is gone after them, whatever becomes of the test run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import redis
from support.eggs import small_egg
from support.redis_server import RedisServer
from support.require import require
from support.scrapyd_node import ScrapydNode, running_nodes
from support.waiting import wait_until

KILLED_RUN = """
import os, pathlib, signal, sys
from support.scrapyd_node import ScrapydNode
node = ScrapydNode(pathlib.Path(sys.argv[1]))
node.start()
print(node.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_test_run_leaves_no_node_behind(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(tests)}
    command = [sys.executable, "-c", KILLED_RUN, str(tmp_path / "node")]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    pid = int(run.stdout)
    wait_until(lambda: not _is_alive(pid), deadline_s=30, what="the node to be gone")


def test_a_killed_node_takes_its_spiders_along(scrapyd_node: ScrapydNode) -> None:
    spider = _running_spider(scrapyd_node)
    scrapyd_node.kill()
    assert not _is_alive(spider)
    assert not scrapyd_node.is_running


def test_a_node_killed_alone_leaves_orphans_until_it_is_stopped(scrapyd_node: ScrapydNode) -> None:
    spider = _running_spider(scrapyd_node)
    scrapyd_node.kill(spiders=False)
    assert _is_alive(spider)
    scrapyd_node.stop()
    assert not _is_alive(spider)


def test_a_restarted_node_has_its_eggs_and_its_port(scrapyd_node: ScrapydNode) -> None:
    scrapyd_node.post("addversion.json", files={"egg": small_egg()}, project="small", version="v1")
    url = scrapyd_node.url
    scrapyd_node.restart()
    assert scrapyd_node.url == url
    assert scrapyd_node.get("listversions.json", project="small")["versions"] == ["v1"]


def test_a_nodes_configuration_is_its_owners_alone(scrapyd_node: ScrapydNode) -> None:
    assert (scrapyd_node.folder / "scrapyd.conf").stat().st_mode & 0o777 == 0o600


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    node = ScrapydNode(tmp_path / "node", options={"launcher": "absent.module.Launcher"})
    with pytest.raises(AssertionError, match="No module named 'absent'"):
        node.start()
    assert not node.is_running


def test_a_node_takes_another_port_if_its_own_was_taken_meanwhile(tmp_path: Path) -> None:
    node = ScrapydNode(tmp_path / "node")
    with socket.socket() as other:
        other.bind((node.address, node.port))
        other.listen()
        taken = node.port
        with node:
            assert node.port != taken
            assert node.get("daemonstatus.json")["status"] == "ok"


def test_many_nodes_end_with_the_test_that_failed(tmp_path: Path) -> None:
    pids: list[int] = []
    with pytest.raises(ZeroDivisionError):
        _fail_with_nodes_running(tmp_path, pids)
    assert len(pids) == 2
    assert not any(_is_alive(pid) for pid in pids)


def test_redis_keeps_what_it_acknowledged_over_a_kill(tmp_path: Path) -> None:
    with RedisServer(tmp_path, password="a secret") as server:
        with redis.Redis.from_url(server.url) as client:
            client.set("key", "value")
        server.kill()
        server.start()
        with redis.Redis.from_url(server.url) as client:
            assert client.get("key") == b"value"


def test_what_is_absent_skips_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    require("there", "it is there")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not there"):
        require(None, "not there")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not there"):
        require(None, "not there")


def _fail_with_nodes_running(folder: Path, pids: list[int]) -> None:
    with running_nodes(2, folder=folder) as nodes:
        pids.extend(node.pid for node in nodes)
        raise ZeroDivisionError


def _running_spider(node: ScrapydNode) -> int:
    node.post("addversion.json", files={"egg": small_egg()}, project="small", version="v1")
    node.post("schedule.json", project="small", spider="alpha", sleep_s="600")
    (pid,) = wait_until(node.spider_pids, deadline_s=60, what="the spider to run")
    return pid


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
