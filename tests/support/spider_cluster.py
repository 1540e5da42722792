"""A small cluster of real plug-in nodes that hold the spiders of `node_spiders`, for a module's tests in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from support.node_spiders import VERSION, node_egg
from support.plugin_node import PluginNode, hold_everywhere, running_plugin_nodes, shared_store
from support.redis_server import RedisServer
from support.require import require

from toolkit.store.interfaces import Store


@contextmanager
def spider_nodes(
    count: int, server: RedisServer, folder: Path, *, lease_s: float = 3.0, own: Mapping[str, str] | None = None
) -> Iterator[list[PluginNode]]:
    """Start that many nodes on an empty Redis, each holding the egg; `own` as for `PluginNode`."""
    require(psutil.LINUX, "pidfd and /proc")
    server.flush()
    with running_plugin_nodes(count, redis_url=server.url, folder=folder, lease_s=lease_s, own=own) as nodes:
        hold_everywhere(nodes, VERSION, egg=node_egg())
        yield nodes


def revived(nodes: list[PluginNode], server: RedisServer) -> list[PluginNode]:
    """Start again what an earlier test has left stopped, Redis first; return the nodes."""
    if not server.is_running:
        server.start()
    for node in nodes:
        if not node.is_running:
            node.start()
    return nodes


@contextmanager
def store_of(nodes: Sequence[PluginNode], server: RedisServer, folder: Path) -> Iterator[Store]:
    """Open the cluster's store when every node is ready to run the spiders."""
    with shared_store(server.url, folder) as opened:
        for node in nodes:
            node.wait_ready(opened, VERSION)
        yield opened
