"""Which way leads to a node's files, decided by what is known, and changed once when it does not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support.ports import free_port
from support.registry import a_record
from support.stores import a_job

from toolkit.cluster.nodes import Nodes
from toolkit.cluster.reaching import Way, reach, takes_connections, way_to
from toolkit.model.errors import NotFoundError, StoreUnreachableError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.store.interfaces import Store
from toolkit.store.wire_calls import FileHead, write_head

NODE = NodeName("node-1")
HOST = Host(NODE, address="203.0.113.7", timeout_s=1)
LIVE, LOST = a_record("node-1"), a_record("node-1", age_s=100)


def listening_at(address: str) -> NodeRecord:
    return replace(LIVE, report=replace(LIVE.report, address=address))


@pytest.mark.parametrize(
    ("host", "record", "way"),
    [
        (HOST, None, Way.HTTP),
        (HOST, LOST, Way.HTTP),
        (HOST, LIVE, Way.EITHER),
        (None, LIVE, Way.STORE),
        (None, LOST, None),
        (None, None, None),
        (HOST, listening_at("127.0.0.1:6800"), Way.STORE),
        (HOST, listening_at("[::1]:6800"), Way.STORE),
        (replace(HOST, scheme="https"), listening_at("127.0.0.1:6800"), Way.EITHER),
        (replace(HOST, address="127.0.0.1"), listening_at("127.0.0.1:6800"), Way.EITHER),
        (HOST, a_record("node-1", is_draining=True), Way.EITHER),
    ],
)
def test_the_way_is_chosen_by_what_is_known(host: Host | None, record: NodeRecord | None, way: Way | None) -> None:
    assert way_to(host, record) is way


class Desk:
    """A store in which the node is registered, and answers every question with a short log."""

    def __init__(self, *records: NodeRecord) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        nodes = SimpleNamespace(all=lambda: list(records))
        self.store: Any = SimpleNamespace(shared=SimpleNamespace(nodes=nodes, calls=self), jobs=None)

    def ask(self, _: str, what: str, args: dict[str, str], **__: float) -> list[bytes]:
        self.asked.append(f"{what} {args['job']} {args['begin']}")
        return [write_head(FileHead(0, 5)), b"a log"]

    def reach(self, *hosts: Host, is_open: bool = True) -> Any:
        return reach(Nodes.of(hosts), NODE, lambda: self.store, say=self.said.append, is_open=lambda _: is_open)


def test_a_node_that_takes_no_connection_is_asked_through_the_store_and_that_is_said_once() -> None:
    desk = Desk(LIVE)
    node = desk.reach(HOST, is_open=False)
    assert node.log(a_job("3f2a"), begin=7).content == b"a log"
    assert desk.asked == ["log 3f2a 7"]
    assert desk.said == ["node-1 is not reached by HTTP; through Redis"]


def test_a_node_that_falls_away_later_is_asked_through_the_store_from_then_on() -> None:
    desk = Desk(LIVE)
    node = desk.reach(replace(HOST, address="127.0.0.1", port=free_port()))
    assert desk.said == []
    for _ in range(2):
        assert node.log(a_job("3f2a")).content == b"a log"
    assert desk.said == ["node-1 is not reached by HTTP; through Redis"]


def test_a_node_that_is_only_registered_is_asked_without_a_word() -> None:
    desk = Desk(LIVE)
    assert desk.reach().log(a_job("3f2a")).content == b"a log"
    assert desk.said == []


def test_a_node_that_is_gone_and_not_in_the_inventory_cannot_be_asked() -> None:
    with pytest.raises(NotFoundError, match="last heard of 100 s ago"):
        Desk(LOST).reach()
    with pytest.raises(NotFoundError, match="node-1, is not in the inventory"):
        Desk().reach()


def test_without_the_store_http_is_all_there_is() -> None:
    def away() -> Store:
        raise StoreUnreachableError("away")

    http = reach(Nodes.of([HOST]), NODE, away, say=lambda _: None)
    assert type(http).__name__ == "ScrapydNode"
    with pytest.raises(NotFoundError):
        reach(Nodes.of([]), NODE, away, say=lambda _: None)


def test_what_takes_no_connection_is_known_soon() -> None:
    assert not takes_connections(replace(HOST, address="127.0.0.1", port=free_port()))
    assert not takes_connections(replace(HOST, address="192.0.2.1"), within_s=0.2)
