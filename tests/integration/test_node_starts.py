"""What a node needs to start, what it refuses to start with, and what it waits for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.node_spiders import VERSION, a_node_job, ended, node_egg
from support.plugin_node import PluginNode, shared_of, shared_store
from support.ports import free_port
from support.processes import quiet_environment
from support.redis_server import RedisServer
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.snapshot import NodeState

pytestmark = pytest.mark.timeout(120)
SOON_S = 30.0


def refusal(node: PluginNode, *, env: Mapping[str, str] | None = None) -> str:
    """Start Scrapyd where it must not start, and return the last line of what it says."""
    node.folder.mkdir(parents=True, exist_ok=True)
    node._write_configuration()
    process = subprocess.run(
        [sys.executable, "-m", "scrapyd", "--pidfile="],
        cwd=node.folder,
        env={**quiet_environment(node.folder), **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode != 0, process.stdout
    assert "Traceback" not in process.stderr, process.stderr
    return process.stderr.strip().splitlines()[-1]


def test_without_a_redis_it_does_not_start(tmp_path: Path) -> None:
    said = refusal(PluginNode(tmp_path / "node", redis_url=None))

    assert said.startswith("scrapyd.conf: this node has no Redis: set the environment variable CRAWLCTL_REDIS")


def test_a_wrong_redis_url_is_told_without_repeating_it(tmp_path: Path) -> None:
    said = refusal(PluginNode(tmp_path / "node", redis_url=None), env={"CRAWLCTL_REDIS": "http://u:s3cret@somewhere"})

    assert said.startswith("scrapyd.conf: redis is a URL that begins with redis://")
    assert "s3cret" not in said


def test_a_redis_file_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "redis-url"
    secret.write_text("redis://localhost:1/0")
    secret.chmod(0o644)

    said = refusal(PluginNode(tmp_path / "node", redis_url=None, own={"redis_file": str(secret)}))

    assert said == f"scrapyd.conf: redis_file {secret} can be read by everybody on this machine: chmod 600 {secret}"


def test_a_misspelt_option_is_told(tmp_path: Path) -> None:
    said = refusal(PluginNode(tmp_path / "node", redis_url="redis://localhost:1/0", own={"leese_s": "3"}))

    assert said == "scrapyd.conf: [crawlctl] has no option 'leese_s': did you mean 'lease_s'?"


def test_a_component_of_stock_scrapyd_beside_the_application_is_refused(tmp_path: Path) -> None:
    stock = {"poller": "scrapyd.poller.QueuePoller"}

    said = refusal(PluginNode(tmp_path / "node", redis_url="redis://localhost:1/0", options=stock))

    assert said == (
        "scrapyd.conf: with this application, [scrapyd] must say poller = toolkit.node.poller.ClaimingPoller"
    )


def test_an_endpoint_of_stock_scrapyd_beside_the_application_is_refused(tmp_path: Path) -> None:
    stock = {"addversion.json": "scrapyd.webservice.AddVersion"}

    said = refusal(PluginNode(tmp_path / "node", redis_url="redis://localhost:1/0", services=stock))

    assert said == (
        "scrapyd.conf: with this application, [services] must say addversion.json = toolkit.node.webservice.AddVersion"
    )


def test_a_second_scrapyd_in_the_same_folder_does_not_start(redis_url: str, tmp_path: Path) -> None:
    with PluginNode(tmp_path / "node", redis_url=redis_url) as first:
        second = PluginNode(first.folder, redis_url=redis_url)

        said = refusal(second)

        assert said.startswith("scrapyd.conf: another Scrapyd already lives in state_dir ")
        assert first.get("daemonstatus.json")["status"] == "ok"


def test_it_starts_while_redis_is_away_and_works_when_redis_is_there(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis", port=free_port())
    with PluginNode(tmp_path / "node", redis_url=server.url) as node:
        wait_until(
            lambda: "Waiting for Redis" in node.log_text(), deadline_s=SOON_S, what="it to say what it waits for"
        )
        assert node.get("listprojects.json")["status"] == "ok"
        with server, shared_store(server.url, tmp_path) as store:
            node.wait_registered(shared_of(store))
            node.hold(VERSION, egg=node_egg())
            shared_of(store).queue.add([a_node_job("first")])
            assert ended(store, "first").state is JobState.FINISHED
    assert node.log_text().count("Waiting for Redis") == 1


def test_a_node_whose_name_is_live_elsewhere_takes_nothing_and_says_so_loudly(redis_url: str, tmp_path: Path) -> None:
    with (
        PluginNode(tmp_path / "one", redis_url=redis_url, name="same") as first,
        shared_store(redis_url, tmp_path) as store,
    ):
        first.wait_registered(shared_of(store))
        with PluginNode(tmp_path / "two", redis_url=redis_url, name="same") as second:
            wait_until(lambda: "is live already" in second.log_text(), deadline_s=SOON_S, what="it to say so")
            second.hold(VERSION, egg=node_egg())
            shared_of(store).queue.add([a_node_job("mine")])
            first.hold(VERSION, egg=node_egg())
            assert ended(store, "mine").state is JobState.FINISHED
            assert not list(second.runs.iterdir())
            assert second.log_text().count("is live already") == 1
            record = first.record(shared_of(store))
            assert record is not None
            assert record.report.address == f"127.0.0.1:{first.port}"
            assert record.clash == f"127.0.0.1:{second.port}"

            # Its turn comes when the other is gone.
            first.kill()
            wait_until(
                lambda: (
                    (found := second.record(shared_of(store)))
                    and found.state is NodeState.LIVE
                    and found.report.address == f"127.0.0.1:{second.port}"
                ),
                deadline_s=SOON_S,
                what="the name to pass on",
            )
            shared_of(store).queue.add([a_node_job("then")])
            assert ended(store, "then").state is JobState.FINISHED


def test_a_node_without_room_on_its_disk_takes_nothing_and_says_why(redis_url: str, tmp_path: Path) -> None:
    own = {"min_disk_mb": "9000000"}
    with (
        PluginNode(tmp_path / "node", redis_url=redis_url, own=own) as node,
        shared_store(redis_url, tmp_path) as store,
    ):
        node.hold(VERSION, egg=node_egg())
        shared_of(store).queue.add([a_node_job("waits")])

        def unfit() -> str | None:
            record = node.record(shared_of(store))
            return record.report.unfit if record else None

        why = wait_until(lambda: (text := unfit()) and "disk" in text and text, deadline_s=SOON_S, what="it to say why")
        assert "min_disk_mb = 9000000" in str(why)
        assert node.get("status.json", job="waits")["currstate"] == "pending"
