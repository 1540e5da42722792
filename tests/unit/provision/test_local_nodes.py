"""What the scrapyd.conf of a node says that is started here or provisioned."""

from __future__ import annotations

from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName
from toolkit.provision.local_nodes import SharedQueue, node_settings


def test_what_the_inventory_wishes_of_a_node_is_in_its_section() -> None:
    host = Host(NodeName("node-1"), labels={"region": "eu"}, node={"ship_logs": "redis", "ship_logs_days": 3})
    said = node_settings(host, SharedQueue(Secret("redis://127.0.0.1:6390/0"), "main"))
    assert said == {
        "redis_file": "redis.url",
        "cluster": "main",
        "labels": "region=eu",
        "ship_logs": "redis",
        "ship_logs_days": "3",
    }
