"""Which node gets which job."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from toolkit.cluster.placement import spread
from toolkit.cluster.scrapyd import NodeLoad
from toolkit.model.names import NodeName


def load(pending: int, running: int) -> NodeLoad:
    return NodeLoad(pending, running, 99, "x")


def loads_of(work: list[int]) -> dict[NodeName, NodeLoad]:
    return {NodeName(f"node-{i}"): load(count // 2, count - count // 2) for i, count in enumerate(work)}


counts = st.integers(0, 200)
works = st.lists(st.integers(0, 30), min_size=1, max_size=40)


@given(nodes=st.integers(1, 50), work=st.integers(0, 9), count=counts)
def test_from_equal_loads_counts_differ_by_one_at_most(nodes: int, work: int, count: int) -> None:
    chosen = Counter(spread(loads_of([work] * nodes), count))
    given_out = [chosen[NodeName(f"node-{i}")] for i in range(nodes)]
    assert sum(given_out) == count
    assert max(given_out) - min(given_out) <= 1


@given(nodes=st.integers(1, 100))
def test_as_many_jobs_as_idle_nodes_land_one_each_in_the_inventorys_order(nodes: int) -> None:
    loads = loads_of([0] * nodes)
    assert spread(loads, nodes) == list(loads)


@given(work=works, count=counts)
def test_no_job_goes_to_a_node_while_another_has_less_to_do(work: list[int], count: int) -> None:
    loads = loads_of(work)
    now = {name: each.pending + each.running for name, each in loads.items()}
    for name in spread(loads, count):
        assert now[name] == min(now.values())
        now[name] += 1


@given(work=works, count=counts)
def test_every_job_gets_a_node_and_the_same_loads_give_the_same_places(work: list[int], count: int) -> None:
    loads = loads_of(work)
    assert len(spread(loads, count)) == count
    assert spread(loads, count) == spread(loads, count)


def test_without_nodes_there_is_no_place() -> None:
    assert spread({}, 3) == []


def test_what_has_finished_weighs_nothing() -> None:
    loads = {NodeName("a"): NodeLoad(0, 1, 0, "a"), NodeName("b"): NodeLoad(0, 0, 5000, "b")}
    assert spread(loads, 1) == ["b"]
