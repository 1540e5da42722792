"""Which nodes take jobs from the queue, and where an order goes."""

from __future__ import annotations

from support.registry import a_record, names

from toolkit.cluster.membership import Way, plug_in_error, route, split
from toolkit.cluster.nodes import Nodes
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.snapshot import NodeState


def nodes(*hosts: str) -> Nodes:
    return Nodes.of([Host(NodeName(name)) for name in hosts])


def test_registered_nodes_are_told_from_stock_ones() -> None:
    plugged, stock = split(nodes("a", "b", "c"), [a_record("b"), a_record("elsewhere")])
    assert plugged == {"b"}
    assert stock.names == ("a", "c")


def test_a_cluster_without_plug_in_nodes_is_scheduled_directly() -> None:
    assert route(None, []).way is Way.DIRECT
    assert route(names("a"), []).way is Way.DIRECT


def test_one_plug_in_node_is_enough_for_the_queue() -> None:
    found = route(None, [a_record("b")])
    assert (found.way, found.on, found.takers) == (Way.QUEUE, None, 1)


def test_only_stock_nodes_picked_means_directly() -> None:
    assert route(names("a"), [a_record("b")]).way is Way.DIRECT


def test_a_picked_plug_in_node_alone_may_take_the_jobs() -> None:
    found = route(names("a", "c", "b"), [a_record("b"), a_record("c"), a_record("d")])
    assert (found.way, found.on, found.left_out) == (Way.QUEUE, ("b", "c"), ("a",))


def test_a_cluster_that_lost_all_its_nodes_still_queues_and_says_that_nobody_is_there() -> None:
    found = route(None, [a_record("b", age_s=100), a_record("c", age_s=100)])
    assert (found.way, found.takers) == (Way.QUEUE, 0)


def test_who_drains_takes_nothing_now() -> None:
    assert route(None, [a_record("a", is_draining=True), a_record("b", age_s=12)]).takers == 1


def test_a_clash_is_worse_than_a_full_disk() -> None:
    assert a_record("a", age_s=12).state is NodeState.STALE
    assert plug_in_error(a_record("a")) is None
    assert plug_in_error(a_record("a", unfit="no disk")) == "no disk"
    assert plug_in_error(a_record("a", unfit="no disk", clash="10.0.0.9")) == "another node claims its name: 10.0.0.9"
