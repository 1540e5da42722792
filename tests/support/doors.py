"""The product's clients of the nodes of a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ScrapydNode as Door
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName


class Reachable(Protocol):
    """Where a node listens: a `ScrapydNode`, a `FleetHost` with a name, or a `NodeEntry`."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def port(self) -> int: ...


def host_of(
    node: Reachable, *, credentials: tuple[str, str] | None = None, timeout_s: float = 10.0, path: str = ""
) -> Host:
    """Return the node as a host of an inventory."""
    username, password = credentials or (None, None)
    return Host(
        name=NodeName(node.name),
        address=node.address,
        port=node.port,
        path=path,
        username=username,
        password=None if password is None else Secret(password),
        timeout_s=timeout_s,
    )


def door_at(
    port: int, *, address: str = "127.0.0.1", timeout_s: float = 10.0, name: str = "node-1", path: str = ""
) -> Door:
    """Return a client for whatever listens there."""
    return Door(Host(NodeName(name), address=address, port=port, timeout_s=timeout_s, path=path))


def nodes_of(
    nodes: Iterable[Reachable], *, credentials: tuple[str, str] | None = None, timeout_s: float = 10.0
) -> Nodes:
    """Return the clients of several nodes."""
    return Nodes.of([host_of(node, credentials=credentials, timeout_s=timeout_s) for node in nodes])
